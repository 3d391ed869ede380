#include "cli/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/source_excerpt.hpp"

namespace orrery {

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

Table::Table(std::vector<std::string> headers) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const bool marked = !headers[i].empty() && headers[i].front() == '<';
    if (marked) headers[i].erase(0, 1);
    left_.push_back(i == 0 || marked);
  }
  rows_.push_back(std::move(headers));
}

Table& Table::row(std::vector<std::string> cells) {
  cells.resize(left_.size());
  for (std::string& cell : cells) cell = escaped(cell);
  rows_.push_back(std::move(cells));
  return *this;
}

std::string Table::str(std::string_view indent) const {
  std::vector<std::size_t> widths(left_.size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - display_width(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (left_[i] ? row[i] + pad : pad + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string percent(double fraction, int decimals) { return fmt::format("{:.{}f} %", 100.0 * fraction, decimals); }

std::string bar(double fraction, std::size_t width) {
  static const char* const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(fraction >= 0.0)) fraction = 0.0;
  if (fraction > 1.0) {
    std::string full;
    for (std::size_t i = 0; i + 1 < width; ++i) full += "█";
    return full + "!";
  }
  const auto filled = static_cast<std::size_t>(std::lround(fraction * static_cast<double>(width) * 8.0));
  std::string out;
  for (std::size_t i = 0; i < width; ++i) {
    const std::size_t here = filled > 8 * i ? std::min<std::size_t>(8, filled - 8 * i) : 0;
    out += here == 8 ? "█" : eighths[here];
  }
  return out;
}

}  // namespace orrery
