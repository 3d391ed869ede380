#include "sim/net/import/nccl_channels.hpp"

#include "core/base/toml_writer.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/import/nccl_channel_readers.hpp"

namespace orrery {

std::string_view name_of(ChannelGraph::Kind kind) {
  switch (kind) {
    case ChannelGraph::Kind::ring: return "ring";
    case ChannelGraph::Kind::tree: return "tree";
    case ChannelGraph::Kind::nvls: return "nvls";
  }
  return "";
}

std::optional<ChannelFile> channel_file_of(std::string_view text) {
  for (const importing::TextLine& line : importing::lines_of(text)) {
    const std::size_t first = line.text.find_first_not_of(" \t");
    if (first == std::string_view::npos) continue;
    if (line.text.substr(first).starts_with("<graphs")) return ChannelFile::graph;
    if (line.text.find("NCCL INFO ") != std::string_view::npos) return ChannelFile::log;
  }
  return std::nullopt;
}

std::optional<NcclChannelReport> import_nccl_channels(ChannelFile kind, std::string text, std::string file,
                                                      std::optional<std::uint32_t> nodes, Diagnostics& diagnostics) {
  using namespace importing;
  Source source(std::move(text), std::move(file), diagnostics);
  std::optional<NcclChannelReport> out;
  switch (kind) {
    case ChannelFile::graph: out = read_nccl_graph(source, nodes); break;
    case ChannelFile::log: out = read_nccl_log(source, nodes); break;
  }
  if (!out || !source.clean()) return std::nullopt;
  out->notes = source.notes();
  return out;
}

std::string channel_tables(const NcclChannelReport& r, const std::vector<std::string>& comments) {
  TomlWriter out;
  for (const std::string& c : comments) out.comment(c);
  for (const ChannelGraph& g : r.graphs) {
    out.array_table("cluster.channels").text("kind", name_of(g.kind)).whole("ranks", g.ranks).whole("nodes", g.nodes);
    out.whole("channels", g.channels).text("inside", exact_text(g.inside)).text("between", exact_text(g.between));
    out.text("source", g.source);
  }
  return out.str();
}

}  // namespace orrery
