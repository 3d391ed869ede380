#include "core/base/diagnostics.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "core/base/source_excerpt.hpp"

namespace orrery {

Position Origin::position(const std::string& key) const {
  const auto found = positions.find(key);
  if (found != positions.end()) return found->second;
  // A missing key is reported where its table begins.
  const auto dot = key.rfind('.');
  return dot == std::string::npos ? Position{} : position(key.substr(0, dot));
}

std::string_view Origin::line(std::uint32_t wanted) const {
  std::string_view rest = text;
  for (std::uint32_t at = 1; wanted >= 1; ++at) {
    const auto end = rest.find('\n');
    if (at == wanted) {
      std::string_view found = rest.substr(0, end);
      if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
      return found;
    }
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return {};
}

void Diagnostics::error(const Origin& origin, const std::string& key, std::string code, std::string message,
                        std::vector<std::string> details) {
  error_at(origin, origin.position(key), std::move(code), std::move(message), std::move(details));
}

void Diagnostics::error_at(const Origin& origin, Position where, std::string code, std::string message,
                           std::vector<std::string> details) {
  Excerpt shown = excerpt(origin.line(where.line), where.column);
  add({origin.file, where, std::move(code), std::move(message), std::move(details), std::move(shown.line),
       std::move(shown.pad)});
}

void Diagnostics::add_from(const Origin& origin, const std::string& key, const Diagnostics& found) {
  for (Diagnostic m : found.list()) {
    if (m.file.empty()) {
      error(origin, key, std::move(m.code), std::move(m.message), std::move(m.details));
    } else {
      m.details.push_back(fmt::format("included from {}:{}", origin.file, origin.position(key).line));
      add(std::move(m));
    }
  }
}

void Diagnostics::error(std::string code, std::string message, std::vector<std::string> details) {
  add({{}, {}, std::move(code), std::move(message), std::move(details), {}, {}});
}

std::string render(const Diagnostic& d) {
  std::string out;
  if (!d.file.empty()) out += escaped(d.file) + ":";
  if (d.position.line > 0) out += fmt::format("{}:{}:", d.position.line, d.position.column);
  out += fmt::format("{}error: {} [{}]\n", out.empty() ? "" : " ", escaped(d.message), d.code);
  if (!d.source_line.empty()) {
    out += fmt::format("{:5} | {}\n", d.position.line, d.source_line);
    out += fmt::format("      | {}^\n", d.caret_pad);
  }
  // A detail may have several lines: an op of a Program, for example.
  for (const std::string& detail : d.details) out += "  " + escaped(detail, "\n") + "\n";
  return out;
}

std::string render(const Diagnostics& all) {
  std::string out;
  for (const Diagnostic& d : all.list()) out += render(d);
  return out;
}

namespace detail {

std::string join_values(std::initializer_list<std::string> values) {
  std::string out;
  for (const std::string& v : values) out += (out.empty() ? "" : ", ") + v;
  return out;
}

void assertion_failed(const char* condition, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "%s:%d: internal error: %s is false (%s). Please report this.\n", file, line, condition,
               values.c_str());
  std::abort();
}

}  // namespace detail
}  // namespace orrery
