#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

/// Text in columns: the first left-aligned, the others right-aligned unless
/// their header begins with '<'.  Widths count characters, not bytes.  Cells are
/// escaped().
class Table {
 public:
  explicit Table(std::vector<std::string> headers);
  /// A row with as many cells as there are headers.
  Table& row(std::vector<std::string> cells);
  [[nodiscard]] std::string str(std::string_view indent = "  ") const;
  [[nodiscard]] bool empty() const { return rows_.empty(); }

 private:
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;  ///< the first is the header
};

/// Characters of UTF-8 text.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// "12.3 %".
[[nodiscard]] std::string percent(double fraction, int decimals = 1);

/// A bar of `width` characters of which `fraction` is filled, in eighths of a
/// character; above 1 it is full and ends in '!'.
[[nodiscard]] std::string bar(double fraction, std::size_t width);

}  // namespace orrery
