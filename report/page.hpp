#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery {

/// A part of a page, with a place of its own in the list at the top.
struct PageSection {
  std::string id, title;
  std::string body;  ///< markup
};

/// A whole HTML page that needs nothing else: style and script stand in it, and no address is fetched. It fits a phone,
/// follows the reader's light or dark, and opens all that is folded when it is printed.
[[nodiscard]] std::string html_page(const std::string& title, const std::vector<PageSection>&);

// Pieces of markup. Arguments named `text` are text and are marked up here; `body` is markup.

/// <p class="name">text</p>
[[nodiscard]] std::string paragraph(std::string_view text, std::string_view name = "");
/// A part that opens on a click: the line that is always there, and what it hides.
[[nodiscard]] std::string folded(std::string_view line, std::string_view body, bool open = false);
/// A table whose first column is left-aligned, as is every column whose header begins with '<'. Cells are text.
[[nodiscard]] std::string html_table(const std::vector<std::string>& headers,
                                     const std::vector<std::vector<std::string>>& rows);
/// Text as it stands in a file.
[[nodiscard]] std::string listing(std::string_view text);

}  // namespace orrery
