#include "sim/net/import/import.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/import/gpu_links.hpp"
#include "sim/net/import/source.hpp"

namespace orrery {
namespace importing {

Position Source::at(std::size_t offset) const {
  const std::string_view text = origin_.text;
  offset = std::min(offset, text.size());
  const std::string_view above = text.substr(0, offset);
  const std::size_t end = above.rfind('\n');
  const std::size_t begin = end == std::string_view::npos ? 0 : end + 1;
  return {static_cast<std::uint32_t>(std::count(above.begin(), above.end(), '\n')) + 1,
          static_cast<std::uint32_t>(character_count(above.substr(begin))) + 1};
}

void Source::error(Position where, std::string code, std::string message, std::vector<std::string> details) {
  constexpr std::size_t most_mistakes = 20;
  if (diagnostics_.size() - before_ >= most_mistakes) return;
  diagnostics_.error_at(origin_, where, std::move(code), std::move(message), std::move(details));
}

void Source::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
}

std::string wire_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c <= 0x20 || c >= 0x7f; }, '_');
  return text;
}

bool ends_are_joined(Source& source, Position where, std::uint32_t ends, const std::vector<std::string>& names,
                     const std::vector<Wire>& wires) {
  const Topology::Sides gap = unconnected(ends, static_cast<std::uint32_t>(names.size()), wires);
  if (gap.from == gap.to) return true;
  source.error(where, "import.unconnected", fmt::format("nothing leads from {} to {}", names[gap.from], names[gap.to]),
               {"GPUs and NICs pass nothing on."});
  return false;
}

std::vector<TextLine> lines_of(std::string_view text) {
  std::vector<TextLine> out;
  std::uint32_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back({++number, line});
    begin = end + 1;
  }
  return out;
}

}  // namespace importing

const std::vector<std::string>& import_kind_names() {
  static const std::vector<std::string> names{"nccl-topology", "nvidia-smi", "slurm", "astra-sim", "dot", "simai"};
  return names;
}

std::string_view name_of(ImportKind kind) { return import_kind_names()[static_cast<std::size_t>(kind)]; }

std::optional<ImportKind> import_kind_of(std::string_view text) {
  if (importing::is_simai_topology(text)) return ImportKind::simai_topology;
  for (const importing::TextLine& line : importing::lines_of(text)) {
    const std::size_t first = line.text.find_first_not_of(" \t");
    if (first == std::string_view::npos) continue;
    const std::string_view rest = line.text.substr(first);
    const auto starts = [&](std::string_view word) {
      return rest.size() >= word.size() && std::equal(word.begin(), word.end(), rest.begin(), [](char a, char b) {
               return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b - 'A' + 'a') : b);
             });
    };
    if (starts("<system")) return ImportKind::nccl_topology;
    if (starts("<")) continue;  // <?xml ...?> and comments stand above
    if (starts("switchname") || starts("blockname") || starts("blocksizes")) return ImportKind::slurm_topology;
    if (starts("- topology:")) return ImportKind::slurm_topology;
    if (starts("topology:") || starts("npus_count:")) return ImportKind::astra_network;
    if (starts("graph") || starts("digraph") || starts("strict")) return ImportKind::dot_graph;
    // The matrix's header stands alone on its line, underlined with a terminal's codes.
    if (line.text.find("GPU0") != std::string_view::npos) return ImportKind::smi_topology;
    if (starts("#") || starts("//") || starts("---")) continue;
  }
  return std::nullopt;
}

std::optional<Imported> import_fabric(ImportKind kind, std::string text, std::string file, const ImportOptions& options,
                                      Diagnostics& diagnostics) {
  using namespace importing;
  Source source(std::move(text), std::move(file), diagnostics);
  if (options.gpu && gpu_links_named(*options.gpu) == nullptr) {
    diagnostics.error("import.gpu", fmt::format("nothing is known of the links of \"{}\"", brief(*options.gpu)),
                      {fmt::format("Known: {}.", gpu_link_names())});
    return std::nullopt;
  }
  std::optional<FabricSpec> fabric;
  switch (kind) {
    case ImportKind::nccl_topology: fabric = read_nccl_topology(source, options); break;
    case ImportKind::smi_topology: fabric = read_smi_topology(source, options); break;
    case ImportKind::slurm_topology: fabric = read_slurm_topology(source, options); break;
    case ImportKind::astra_network: fabric = read_astra_network(source, options); break;
    case ImportKind::dot_graph: fabric = read_dot_graph(source, options); break;
    case ImportKind::simai_topology: fabric = read_simai_topology(source, options); break;
  }
  if (!fabric || !source.clean()) return std::nullopt;
  fabric->name = options.name;
  std::replace_if(
      fabric->name.begin(), fabric->name.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return Imported{std::move(*fabric), source.notes()};
}

}  // namespace orrery
