#include "cli/dot_text.hpp"

namespace orrery::dot {

std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Quotes a text, but keeps "\n" as Graphviz' line break.
std::string label(const std::vector<std::string>& lines, const std::string& shape) {
  std::string out;
  for (const std::string& l : lines) {
    if (l.empty()) continue;
    const std::string q = in_quotes(l);
    out += (out.empty() ? "" : "\\n") + q.substr(1, q.size() - 2);
  }
  return "[" + (shape.empty() ? "" : "shape=" + shape + ", ") + "label=\"" + out + "\"]";
}

}  // namespace orrery::dot
