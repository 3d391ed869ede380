#include "cli/wrapping.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "cli/common.hpp"
#include "cli/hosted_command.hpp"
#include "cli/table.hpp"

namespace orrery {
namespace {

/// The column where lines that continue `line` begin.
std::size_t hanging_indent(std::string_view line, std::size_t columns) {
  const std::size_t text = std::min(line.find_first_not_of(' '), line.size());
  std::size_t indent = text;
  std::size_t column = text;
  for (std::size_t i = text; i < line.size() && column < columns / 2; ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xc0) == 0x80) continue;  // display_width counts characters, too
    const bool begins = i >= text + 3 && line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ';
    if (begins && line[i - 3] != '.') indent = column;  // two spaces behind a sentence set off no column
    ++column;
  }
  // Text that continues a line without columns is indented a little more than the line.
  return indent == text ? text + 2 : indent;
}

void wrap_line(std::string_view line, std::size_t columns, std::string& out) {
  if (display_width(line) <= columns) {
    out += line;
    return;
  }
  const std::string indent(hanging_indent(line, columns), ' ');
  std::string here(line.substr(0, std::min(line.find_first_not_of(' '), line.size())));
  std::size_t spaces = 0;
  for (std::size_t at = here.size(); at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string_view word = line.substr(at, end - at);
    const std::size_t behind = std::min(line.find_first_not_of(' ', end), line.size());
    const bool begins = here.find_first_not_of(' ') == std::string::npos;
    if (!begins && display_width(here) + spaces + display_width(word) > columns) {
      out += here + "\n";
      here = indent;
    } else {
      here.append(spaces, ' ');
    }
    here += word;
    spaces = behind - end;
    at = behind;
  }
  out += here;
}

}  // namespace

std::size_t output_columns() {
  if (HostedCommand::here() != nullptr) return 80;
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void print_wrapped(std::string_view text) { print(wrapped(text, output_columns())); }

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    wrap_line(text.substr(at, end - at), columns, out);
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
  return out;
}

}  // namespace orrery
