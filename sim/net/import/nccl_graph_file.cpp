#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <pugixml.hpp>
#include <set>

#include "core/base/units_text.hpp"
#include "sim/net/import/nccl_channel_readers.hpp"

// Reads <graphs version="1"> of NCCL. It has a <graph> for each kind of algorithm, and in it a <channel> for each of
// its channels. A channel lists the GPUs of the node by `dev` in order; where there are several nodes, they stand
// between the ports by which the channel comes in and leaves. Speeds are in GB/s of one channel.

namespace orrery::importing {
namespace {

class GraphReader {
 public:
  GraphReader(Source& source, std::optional<std::uint32_t> nodes) : source_(source), nodes_(nodes) {}

  std::optional<NcclChannelReport> read() {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(source_.text().data(), source_.text().size());
    if (!parsed) {
      source_.error(source_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(parsed.offset, 0))), "import.syntax",
                    fmt::format("not valid XML: {}", parsed.description()));
      return std::nullopt;
    }
    const pugi::xml_node graphs = document.child("graphs");
    if (!graphs) {
      source_.error({1, 1}, "import.kind", "this is not a file of NCCL graphs", {"Its root element must be <graphs>."});
      return std::nullopt;
    }
    if (const std::string version = graphs.attribute("version").value(); version != "1") {
      source_.error(place(graphs), "import.version", "the version of these graphs is not known",
                    {fmt::format("It is \"{}\"; 1 is read.", brief(version))});
      return std::nullopt;
    }
    for (const pugi::xml_node graph : graphs.children()) {
      if (graph.type() != pugi::node_element) continue;
      if (std::string_view(graph.name()) != "graph") {
        source_.error(place(graph), "import.key", fmt::format("the element <{}> is not known", brief(graph.name())),
                      {"<graphs> has <graph>s."});
        continue;
      }
      read_graph(graph);
    }
    if (!source_.clean()) return std::nullopt;
    if (out_.graphs.empty()) {
      source_.error(place(graphs), "import.missing", "there is no graph of rings, trees or NVLS with channels",
                    {"NCCL writes one for each algorithm that it may take: NCCL_GRAPH_DUMP_FILE."});
      return std::nullopt;
    }
    return finish(graphs);
  }

 private:
  Position place(const pugi::xml_node& n) const {
    return source_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(n.offset_debug(), 0)));
  }

  std::optional<std::uint32_t> whole(const pugi::xml_node& n, const char* key, std::uint32_t most) {
    const std::string_view text = n.attribute(key).value();
    std::uint32_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (!text.empty() && problem == std::errc() && end == text.data() + text.size() && value <= most) return value;
    source_.error(place(n), text.empty() ? "import.missing" : "import.value",
                  fmt::format("<{}> has no {} that can be read", n.name(), key),
                  {text.empty() ? fmt::format("{}=\"0\" would be right; up to {} is read.", key, most)
                                : fmt::format("It is \"{}\"; whole numbers up to {} are read.", brief(text), most)});
    return std::nullopt;
  }

  std::optional<Bandwidth> speed(const pugi::xml_node& n, const char* key) {
    const std::string_view text = n.attribute(key).value();
    double value = 0.0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem == std::errc() && end == text.data() + text.size() && value >= 1e-3 && value <= 1e5) {
      return value * gigabyte_per_second;
    }
    source_.error(place(n), text.empty() ? "import.missing" : "import.value",
                  fmt::format("<graph> has no {} that can be read", key),
                  {fmt::format("It is \"{}\"; GB/s of one channel are meant, as 20.", brief(text))});
    return std::nullopt;
  }

  void read_graph(const pugi::xml_node& graph) {
    const auto id = whole(graph, "id", 1000);
    const auto channels = whole(graph, "nchannels", 64);
    if (!id || !channels) return;
    std::optional<ChannelGraph::Kind> kind;
    if (*id == 0) kind = ChannelGraph::Kind::ring;
    if (*id == 1) kind = ChannelGraph::Kind::tree;
    if (*id == 3) kind = ChannelGraph::Kind::nvls;
    if (!kind || *channels == 0) {
      if (*channels > 0) source_.note(fmt::format("graph {} (reductions in the network) is left out", *id));
      return;
    }
    const auto inside = speed(graph, "speedintra"), between = speed(graph, "speedinter");
    if (!inside || !between) return;
    if (std::any_of(out_.graphs.begin(), out_.graphs.end(), [&](const ChannelGraph& g) { return g.kind == *kind; })) {
      source_.error(place(graph), "import.device", fmt::format("two graphs have the id {}", *id));
      return;
    }
    std::uint32_t counted_channels = 0;
    for (const pugi::xml_node channel : graph.children()) {
      if (channel.type() != pugi::node_element) continue;
      if (std::string_view(channel.name()) != "channel") {
        source_.error(place(channel), "import.key", fmt::format("the element <{}> is not known", brief(channel.name())),
                      {"A <graph> has <channel>s."});
        return;
      }
      read_channel(channel, *kind);
      ++counted_channels;
    }
    if (counted_channels != *channels) {
      source_.error(place(graph), "import.value", "a graph does not have as many channels as it says",
                    {fmt::format("nchannels is {}; there are {}.", *channels, counted_channels)});
      return;
    }
    out_.graphs.push_back({*kind, 0, 0, *channels, *inside, *between, "NCCL_GRAPH_DUMP_FILE"});
  }

  void read_channel(const pugi::xml_node& channel, ChannelGraph::Kind kind) {
    std::vector<std::uint32_t> order;
    for (const pugi::xml_node child : channel.children()) {
      if (child.type() != pugi::node_element) continue;
      const std::string_view name = child.name();
      if (name == "net") {
        several_nodes_ = true;
      } else if (name == "gpu") {
        const auto dev = whole(child, "dev", 1023);
        if (!dev) return;
        devices_.insert(*dev);
        order.push_back(*dev);
      } else {
        source_.error(place(child), "import.key", fmt::format("the element <{}> is not known", brief(name)),
                      {"A <channel> has <gpu>s and <net>s."});
        return;
      }
    }
    if (order.empty()) {
      source_.error(place(channel), "import.gpus", "a channel has no GPUs");
      return;
    }
    if (kind != ChannelGraph::Kind::ring) return;
    if (std::set<std::uint32_t>(order.begin(), order.end()).size() != order.size()) {
      source_.error(place(channel), "import.device", "a ring passes a GPU twice",
                    {fmt::format("It has {} GPUs, of which {} are different.", order.size(),
                                 std::set<std::uint32_t>(order.begin(), order.end()).size())});
      return;
    }
    out_.rings.push_back(std::move(order));
  }

  std::optional<NcclChannelReport> finish(const pugi::xml_node& graphs) {
    if (several_nodes_ && !nodes_) {
      source_.error(place(graphs), "import.nodes",
                    "the channels leave the node, but the file does not give the number of nodes",
                    {"Give it with --nodes: the nodes of the run that dumped the graphs."});
      return std::nullopt;
    }
    if (!several_nodes_ && nodes_.value_or(1) != 1) {
      source_.error(place(graphs), "import.nodes", "the channels do not leave the node",
                    {fmt::format("--nodes is {}; no <channel> has a <net>.", *nodes_)});
      return std::nullopt;
    }
    out_.nodes = nodes_.value_or(1);
    if (std::uint64_t{out_.nodes} * devices_.size() > max_fabric_gpus) {
      source_.error(
          place(graphs), "import.size", "the communicator has too many ranks",
          {fmt::format("{} nodes of {} GPUs are more than {}.", out_.nodes, devices_.size(), max_fabric_gpus)});
      return std::nullopt;
    }
    out_.ranks = out_.nodes * static_cast<std::uint32_t>(devices_.size());
    if (out_.ranks < 2) {
      source_.error(place(graphs), "import.gpus", "a communicator of one rank has no channels to import");
      return std::nullopt;
    }
    if (out_.nodes > 1) source_.note(fmt::format("every node is taken to have {} GPUs", devices_.size()));
    for (ChannelGraph& g : out_.graphs) {
      g.ranks = out_.ranks;
      g.nodes = out_.nodes;
    }
    return std::move(out_);
  }

  Source& source_;
  std::optional<std::uint32_t> nodes_;
  NcclChannelReport out_;
  std::set<std::uint32_t> devices_;
  bool several_nodes_ = false;
};

}  // namespace

std::optional<NcclChannelReport> read_nccl_graph(Source& source, std::optional<std::uint32_t> nodes) {
  return GraphReader(source, nodes).read();
}

}  // namespace orrery::importing
