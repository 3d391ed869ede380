#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace orrery {

/// Columns of the terminal that standard output is; 80 where it is none.
[[nodiscard]] std::size_t output_columns();

/// Text whose lines are at most `columns` characters: longer ones break at a space and go on below the beginning of
/// their last column in the first half, which two spaces set off, or a little behind the beginning of their text.  A
/// word that is longer stays whole.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t columns);

/// Prints text to standard output, wrapped to its columns.
void print_wrapped(std::string_view text);

}  // namespace orrery
