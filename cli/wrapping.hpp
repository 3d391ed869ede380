#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace orrery {

/// Columns of the terminal that standard output is; 80 where it is none.
[[nodiscard]] std::size_t output_columns();

/// Text whose lines are at most `columns` characters. A longer line breaks at a space. It goes on below the beginning
/// of its last column in the first half, which two spaces set off, or a little behind the beginning of its text. A
/// longer word stays whole.
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t columns);

/// Prints text to standard output, wrapped to its columns.
void print_wrapped(std::string_view text);

}  // namespace orrery
