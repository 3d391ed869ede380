#include "core/base/source_excerpt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace orrery {
namespace {

/// One code point, or one byte that belongs to no code point.
struct Character {
  std::string_view bytes;
  char32_t point = 0;
  bool valid = true;
};

/// The first character of a text that is not empty.  Overlong forms, surrogates
/// and points above U+10FFFF are not valid.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 0x6 ? 2 : lead >> 4 == 0xe ? 3 : lead >> 3 == 0x1e ? 4 : 0;
  const Character broken{text.substr(0, 1), lead, false};
  if (length == 0 || length > text.size()) return broken;
  if (length == 1) return {text.substr(0, 1), lead, true};
  char32_t point = lead & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) >> 6 != 2) return broken;
    point = point << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<char32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (point < least[length] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return broken;
  return {text.substr(0, length), point, true};
}

bool hidden(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

std::string shown(const Character& c) {
  if (c.valid && !hidden(c.point)) return std::string(c.bytes);
  const auto point = static_cast<std::uint32_t>(c.point);
  return c.valid && point >= 0x7f ? fmt::format("\\u{:04x}", point) : fmt::format("\\x{:02x}", point);
}

/// Columns of a terminal: 0 for marks above another character, 2 for the wide
/// scripts of East Asia and for pictures (Unicode Standard Annex 11, in its large blocks).
std::size_t width(const Character& c) {
  if (!c.valid || hidden(c.point)) return shown(c).size();
  const char32_t p = c.point;
  if ((p >= 0x300 && p < 0x370) || (p >= 0x200b && p <= 0x200d) || (p >= 0xfe00 && p < 0xfe10)) return 0;
  const bool wide = (p >= 0x1100 && p < 0x1160) || (p >= 0x2e80 && p < 0xa4d0) || (p >= 0xac00 && p < 0xd7a4) ||
                    (p >= 0xf900 && p < 0xfb00) || (p >= 0xfe30 && p < 0xfe70) || (p >= 0xff00 && p < 0xff61) ||
                    (p >= 0xffe0 && p < 0xffe7) || (p >= 0x1f300 && p < 0x1fb00) || (p >= 0x20000 && p < 0x3fffe);
  return wide ? 2 : 1;
}

}  // namespace

std::string escaped(std::string_view text, std::string_view keep) {
  std::string out;
  for (;;) {
    const auto plain = std::find_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; });
    out.append(text.begin(), plain);
    text.remove_prefix(static_cast<std::size_t>(plain - text.begin()));
    if (text.empty()) return out;
    const Character c = first_character(text);
    out += keep.find(text[0]) != std::string_view::npos ? std::string(c.bytes) : shown(c);
    text.remove_prefix(c.bytes.size());
  }
}

std::uint32_t character_count(std::string_view text) {
  std::uint32_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(first_character(text).bytes.size());
  return count;
}

Excerpt excerpt(std::string_view line, std::uint32_t column) {
  constexpr std::size_t most = 120;
  constexpr std::size_t before = 80;  // of them at most so many before the caret
  const std::size_t caret = column > 0 ? column - 1 : 0;
  std::vector<Character> all;
  // Stops early, so that a long line need not be read to its end.
  while (!line.empty() && all.size() <= caret + most) {
    all.push_back(first_character(line));
    line.remove_prefix(all.back().bytes.size());
  }
  const std::size_t at = std::min(caret, all.size());
  std::size_t begin = 0;
  std::size_t end = all.size();
  if (all.size() > most) {
    begin = at > before ? std::min(at - before, all.size() - most) : 0;
    end = begin + most;
  }
  Excerpt out;
  if (begin > 0) {
    out.line = "...";
    out.pad = "   ";
  }
  for (std::size_t i = begin; i < end; ++i) {
    const bool tab = all[i].valid && all[i].point == '\t';
    out.line += tab ? "\t" : shown(all[i]);
    if (i < at) out.pad += tab ? std::string("\t") : std::string(width(all[i]), ' ');
  }
  if (end < all.size() || !line.empty()) out.line += "...";
  return out;
}

}  // namespace orrery
