#include "core/base/markup.hpp"

namespace orrery {

std::string marked_up(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: {
        const auto code = static_cast<unsigned char>(c);
        const bool allowed = code >= 0x20 ? code != 0x7f : c == '\n' || c == '\t' || c == '\r';
        if (allowed) {
          out += c;
        } else {
          out += "\xef\xbf\xbd";
        }
      }
    }
  }
  return out;
}

}  // namespace orrery
