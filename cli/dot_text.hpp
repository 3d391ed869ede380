#pragma once

#include <string>
#include <vector>

/// Pieces of graphs in Graphviz' language.
namespace orrery::dot {

[[nodiscard]] std::string in_quotes(const std::string& text);
/// The attributes of a box, or of another shape, with these lines.
[[nodiscard]] std::string label(const std::vector<std::string>& lines, const std::string& shape = "");
/// Fonts and boxes of every graph.
inline constexpr const char* head =
    "  graph [fontname=\"Helvetica\"];\n  node [shape=box, fontname=\"Helvetica\", fontsize=10];\n"
    "  edge [fontname=\"Helvetica\", fontsize=9];\n";

}  // namespace orrery::dot
