#include "report/page.hpp"

#include <fmt/format.h>

#include "core/base/markup.hpp"
#include "report/page_style.hpp"
#include "report/timeline_script.hpp"

namespace orrery {

std::string html_page(const std::string& title, const std::vector<PageSection>& sections) {
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<header>\n<h1>{}</h1>\n<nav>\n",
      marked_up(title), page_style, marked_up(title));
  for (const PageSection& s : sections) {
    out += fmt::format("<a href=\"#{}\">{}</a>\n", marked_up(s.id), marked_up(s.title));
  }
  out += "</nav>\n</header>\n<main>\n";
  for (const PageSection& s : sections) {
    out += fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", marked_up(s.id), marked_up(s.title), s.body);
  }
  return out + fmt::format("</main>\n<script>\n{}</script>\n</body>\n</html>\n", timeline_script);
}

std::string paragraph(std::string_view text, std::string_view name) {
  return name.empty() ? fmt::format("<p>{}</p>\n", marked_up(text))
                      : fmt::format("<p class=\"{}\">{}</p>\n", name, marked_up(text));
}

std::string folded(std::string_view line, std::string_view body, bool open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open" : "", marked_up(line), body);
}

std::string html_table(const std::vector<std::string>& headers, const std::vector<std::vector<std::string>>& rows) {
  std::vector<bool> left;
  std::string out = "<div class=\"wide\"><table>\n<thead><tr>";
  for (const std::string& header : headers) {
    left.push_back(left.empty() || header.starts_with('<'));
    const std::string_view name = header.starts_with('<') ? std::string_view(header).substr(1) : header;
    out += fmt::format("<th{}>{}</th>", left.back() ? " class=\"l\"" : "", marked_up(name));
  }
  out += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += fmt::format("<td{}>{}</td>", left[i] ? " class=\"l\"" : "", marked_up(row[i]));
    }
    out += "</tr>\n";
  }
  return out + "</tbody>\n</table></div>\n";
}

std::string listing(std::string_view text) { return fmt::format("<pre>{}</pre>\n", marked_up(text)); }

}  // namespace orrery
