#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "sim/net/import/source.hpp"

// Topologies of SimAI, for its ns-3 backend (docs/Tutorial.md there), in words parted by blanks:
//   nodes  gpus-per-server  NVSwitches  switches  links  GPU-type
//   the numbers of the NVSwitches, then those of the switches
//   from  to  rate  delay  error-rate        once for each link
// GPUs have the lowest numbers, server after server. A GPU's link to a switch stands for its NIC and that one's cable.

namespace orrery::importing {
namespace {

struct Word {
  std::string_view text;
  Position where;
};
using Line = std::vector<Word>;

std::vector<Line> words_of(std::string_view text) {
  std::vector<Line> out;
  for (const TextLine& line : lines_of(text)) {
    Line words;
    for (std::size_t at = 0; at < line.text.size();) {
      const std::size_t begin = line.text.find_first_not_of(" \t", at);
      if (begin == std::string_view::npos) break;
      at = std::min(line.text.find_first_of(" \t", begin), line.text.size());
      words.push_back({line.text.substr(begin, at - begin), {line.number, static_cast<std::uint32_t>(begin) + 1}});
    }
    if (!words.empty()) out.push_back(std::move(words));
  }
  return out;
}

std::optional<std::uint32_t> whole(std::string_view text) {
  std::uint32_t v = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (wrong != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return v;
}

struct Unit {
  std::string_view word;
  double factor;
};
// What ns-3's DataRate and Time read; bits a second are bytes here.
constexpr Unit rates[] = {{"Tbps", 125e9}, {"Gbps", 125e6}, {"Mbps", 125e3}, {"Kbps", 125.0}, {"bps", 0.125}};
constexpr Unit delays[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"ps", 1e-12}, {"s", 1.0}};

template <std::size_t n>
std::optional<double> measured(std::string_view text, const Unit (&units)[n]) {
  double v = 0.0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (wrong != std::errc{}) return std::nullopt;
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const Unit& u : units) {
    if (rest == u.word) return v * u.factor;
  }
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(Source& source) : source_(source), lines_(words_of(source.text())) {}

  std::optional<FabricSpec> read() {
    if (lines_.empty()) {
      source_.error({1, 1}, "import.syntax", "this topology of SimAI is empty");
      return std::nullopt;
    }
    if (!read_sizes() || !read_switches()) return std::nullopt;
    const std::size_t above = nvswitches_ + switches_ == 0 ? 1 : 2, there = lines_.size() - above;
    if (there != links_) {
      wrong(lines_.front()[4], "import.size", "the links are not all there",
            fmt::format("The first line says {}; {}.", counted(links_, "link"),
                        there == 1 ? "1 follows" : fmt::format("{} follow", there)));
      return std::nullopt;
    }
    node_wires_.resize(servers_);
    for (std::size_t i = above; i < lines_.size(); ++i) {
      if (!read_link(lines_[i])) return std::nullopt;
    }
    return assemble();
  }

 private:
  struct Cable {
    std::uint32_t from = 0, to = 0;  ///< nodes of the file
    Link link;
  };

  bool wrong(const Word& word, const char* code, std::string message, std::string detail) {
    source_.error(word.where, code, std::move(message), {std::move(detail)});
    return false;
  }

  bool read_sizes() {
    const Line& first = lines_.front();
    std::array<std::uint32_t, 5> n{};
    for (std::size_t i = 0; i < n.size(); ++i) {
      const auto v = i < first.size() ? whole(first[i].text) : std::nullopt;
      if (!v) {
        return wrong(first[std::min(i, first.size() - 1)], "import.value", "the first line has a number missing",
                     "It has nodes, GPUs of a server, NVSwitches, switches, links and the GPU's kind, as in "
                     "\"42 8 4 6 76 H800\".");
      }
      n[i] = *v;
    }
    const auto [nodes, per_server, nvswitches, switches, links] = n;
    const std::uint64_t others = std::uint64_t{nvswitches} + switches;
    if (nodes <= others || per_server == 0 || (nodes - others) % per_server != 0 || nodes > max_fabric_gpus) {
      return wrong(
          first[0], "import.nodes", "the nodes cannot be shared out among servers",
          fmt::format("{} less {} and {} are {} in servers of {}; at most {} nodes are read.", counted(nodes, "node"),
                      counted(nvswitches, "NVSwitch", "NVSwitches"), counted(switches, "switch", "switches"),
                      counted(nodes - std::min<std::uint64_t>(others, nodes), "GPU"), per_server, max_fabric_gpus));
    }
    nodes_ = nodes;
    per_server_ = per_server;
    gpus_ = static_cast<std::uint32_t>(nodes - others);
    servers_ = gpus_ / per_server;
    nvswitches_ = nvswitches;
    switches_ = switches;
    links_ = links;
    if (nvswitches % servers_ != 0) {
      return wrong(first[2], "import.nodes", "the servers are not alike",
                   fmt::format("{} are not a multiple of {}.", counted(nvswitches, "NVSwitch", "NVSwitches"),
                               counted(servers_, "server")));
    }
    return true;
  }

  bool read_switches() {
    const std::size_t expected = std::size_t{nvswitches_} + switches_;
    if (expected == 0) return true;
    const Line& second = lines_.size() > 1 ? lines_[1] : lines_[0];
    if (lines_.size() < 2 || second.size() != expected) {
      return wrong(second.front(), "import.nodes", "the second line does not list every switch",
                   fmt::format("It has {} numbers of {}; those of NVSwitches come first.",
                               lines_.size() < 2 ? 0 : second.size(), expected));
    }
    for (const Word& word : second) {
      const auto v = whole(word.text);
      if (!v || *v < gpus_ || *v >= nodes_ || !number_.emplace(*v, static_cast<std::uint32_t>(number_.size())).second) {
        return wrong(word, "import.value", fmt::format("\"{}\" is no switch of its own", brief(word.text)),
                     fmt::format("GPUs are 0 to {}, switches {} to {}.", gpus_ - 1, gpus_, nodes_ - 1));
      }
    }
    return true;
  }

  [[nodiscard]] bool is_gpu(std::uint32_t n) const { return n < gpus_; }
  [[nodiscard]] bool is_nvswitch(std::uint32_t n) const { return !is_gpu(n) && number_.at(n) < nvswitches_; }
  [[nodiscard]] bool is_inside(std::uint32_t n) const { return is_gpu(n) || is_nvswitch(n); }
  [[nodiscard]] std::uint32_t server(std::uint32_t n) const {
    return is_gpu(n) ? n / per_server_ : number_.at(n) / (nvswitches_ / servers_);
  }

  bool read_link(const Line& words) {
    if (words.size() != 5) {
      return wrong(words.front(), "import.value", "a link has five words",
                   fmt::format("Here are {}; \"0 6 200Gbps 0.0005ms 0\" would be right.", words.size()));
    }
    Cable cable;
    for (std::uint32_t* end : {&cable.from, &cable.to}) {
      const Word& word = words[end == &cable.from ? 0 : 1];
      const auto v = whole(word.text);
      if (!v || *v >= nodes_) {
        return wrong(word, "import.value", fmt::format("\"{}\" is no node", brief(word.text)),
                     fmt::format("Nodes are 0 to {}.", nodes_ - 1));
      }
      *end = *v;
    }
    const auto rate = measured(words[2].text, rates);
    if (!rate || !(*rate > 0.0) || *rate > 1e18) {
      return wrong(words[2], "import.value", fmt::format("the rate \"{}\" cannot be read", brief(words[2].text)),
                   "\"200Gbps\" would be right.");
    }
    const auto delay = measured(words[3].text, delays);
    if (!delay || !(*delay >= 0.0) || *delay > 1.0) {
      return wrong(words[3], "import.value", fmt::format("the delay \"{}\" cannot be read", brief(words[3].text)),
                   "\"0.0005ms\" would be right.");
    }
    double errors = 0.0;
    const auto [end, bad] = std::from_chars(words[4].text.data(), words[4].text.data() + words[4].text.size(), errors);
    if (bad != std::errc{} || end != words[4].text.data() + words[4].text.size() || !(errors >= 0.0 && errors <= 1.0)) {
      return wrong(words[4], "import.value", fmt::format("the error rate \"{}\" is no share", brief(words[4].text)),
                   "It goes from 0 to 1.");
    }
    if (errors > 0.0) source_.note("error rates of links are left out: no packet is lost here");

    const bool inside = is_inside(cable.from) && is_inside(cable.to);
    cable.link = {inside ? LinkKind::nvlink : LinkKind::network, Bandwidth::of(*rate), Seconds::of(*delay)};
    const bool leaves = (is_inside(cable.from) && !is_gpu(cable.from)) || (is_inside(cable.to) && !is_gpu(cable.to));
    if (cable.from == cable.to || (inside && server(cable.from) != server(cable.to)) || (!inside && leaves)) {
      return wrong(words[0], "import.edge", fmt::format("{} to {} is not a cable", cable.from, cable.to),
                   cable.from == cable.to ? "It leads from a node to itself." : "Only GPUs lead out of a server.");
    }
    if (inside) {
      node_wires_[server(cable.from)].push_back(cable);
    } else {
      network_.push_back(cable);
      for (const std::uint32_t n : {cable.from, cable.to}) {
        if (is_gpu(n)) port_[n] += *rate;
      }
    }
    return true;
  }

  std::optional<FabricSpec> assemble() {
    FabricSpec f;
    f.nodes = servers_;
    f.node.gpus = per_server_;
    std::vector<std::uint32_t> with_port;  // GPUs of server 0
    for (const auto& [gpu, rate] : port_) {
      if (gpu < per_server_) with_port.push_back(gpu);
    }
    for (const auto& [gpu, rate] : port_) {
      const auto like = port_.find(gpu % per_server_);
      if (port_.size() == std::size_t{servers_} * with_port.size() && like != port_.end() && like->second == rate) {
        continue;
      }
      wrong(lines_.front()[1], "import.nodes", fmt::format("server {} is not linked like server 0", gpu / per_server_),
            "All servers of a fabric must be alike, with the same rate from each GPU to switches.");
      return std::nullopt;
    }
    if (with_port.empty() && servers_ > 1) {
      wrong(lines_.front()[3], "import.unconnected", "nothing leads out of the servers",
            fmt::format("There are {}; their GPUs need links to switches.", counted(servers_, "server")));
      return std::nullopt;
    }
    f.node.nics = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(with_port.size()));
    for (std::uint32_t g = 0; g < per_server_; ++g) f.node.vertices.push_back(fmt::format("gpu{}", g));
    for (std::uint32_t n = 0; n < f.node.nics; ++n) f.node.vertices.push_back(fmt::format("nic{}", n));
    if (!wire_server(f.node, with_port)) return std::nullopt;
    if (!with_port.empty() && !wire_network(f, with_port)) return std::nullopt;
    return f;
  }

  bool wire_server(NodeWiring& node, const std::vector<std::uint32_t>& with_port) {
    const std::uint32_t ends = node.gpus + node.nics, nvswitches = nvswitches_ / servers_;
    for (std::uint32_t s = 0; s < nvswitches; ++s) node.vertices.push_back(fmt::format("nvswitch{}", s));
    const auto vertex = [&](std::uint32_t n) {
      return is_gpu(n) ? n % per_server_ : ends + number_.at(n) % nvswitches;
    };
    const auto wires_of = [&](const std::vector<Cable>& cables) {
      std::vector<Wire> out;
      for (const Cable& c : cables) out.push_back({vertex(c.from), vertex(c.to), c.link});
      return out;
    };
    node.wires = wires_of(node_wires_.front());
    for (std::uint32_t s = 1; s < servers_; ++s) {
      if (wires_of(node_wires_[s]) == node.wires) continue;
      return wrong(lines_.front()[1], "import.nodes", fmt::format("server {} is not wired like server 0", s),
                   "All servers of a fabric must be alike, with their links in the same order.");
    }
    // The file has no PCIe. A switch beside each NIC, and a host that joins them, let every NIC reach every GPU.
    const auto add = [&](std::string name) {
      node.vertices.push_back(std::move(name));
      return static_cast<std::uint32_t>(node.vertices.size() - 1);
    };
    const Link usual{LinkKind::pcie, Bandwidth::of(15.75e9), pcie_latency};
    const std::uint32_t host = add("host0");
    for (std::uint32_t n = 0; n < with_port.size(); ++n) {
      const Link as_cable{LinkKind::pcie, Bandwidth::of(port_.at(with_port[n])), Seconds::of(0.0)};
      const std::uint32_t pcie = add(fmt::format("pcie{}", n));
      for (const std::uint32_t end : {with_port[n], node.gpus + n, host}) node.wires.push_back({end, pcie, as_cable});
    }
    for (std::uint32_t g = 0; g < node.gpus; ++g) {
      if (std::find(with_port.begin(), with_port.end(), g) == with_port.end()) node.wires.push_back({g, host, usual});
    }
    if (with_port.empty()) {
      source_.note("no GPU leads to a switch: nic0 stands in for a NIC, on a host that the file does not have");
      node.wires.push_back({node.gpus, host, usual});
    } else {
      source_.note("a GPU's link to a switch has its NIC; PCIe between the two has the cable's rate and no delay");
    }
    return ends_are_joined(source_, {}, ends, node.vertices, node.wires);
  }

  bool wire_network(FabricSpec& f, const std::vector<std::uint32_t>& with_port) {
    if (f.nics() > 2048) {
      return wrong(lines_.front()[0], "import.size", "there are too many NICs for single wires",
                   fmt::format("There are {}; at most 2048 are read.", f.nics()));
    }
    WiredNetwork network;
    for (std::uint32_t n = 0; n < f.nics(); ++n) network.vertices.push_back(fmt::format("nic{}", n));
    std::map<std::uint32_t, std::uint32_t> place;  // of switches that a cable leads to
    const auto vertex = [&](std::uint32_t n) {
      if (is_gpu(n)) {
        const auto at = std::find(with_port.begin(), with_port.end(), n % per_server_);
        return n / per_server_ * f.node.nics + static_cast<std::uint32_t>(at - with_port.begin());
      }
      const auto [at, first] = place.emplace(n, static_cast<std::uint32_t>(network.vertices.size()));
      if (first) network.vertices.push_back(fmt::format("switch{}", n));
      return at->second;
    };
    for (const Cable& c : network_) {
      const std::uint32_t a = vertex(c.from), b = vertex(c.to);
      network.wires.push_back({a, b, c.link});
    }
    if (place.size() < switches_) {
      source_.note(fmt::format("{} without links {} left out", counted(switches_ - place.size(), "switch", "switches"),
                               switches_ - place.size() == 1 ? "is" : "are"));
    }
    if (!ends_are_joined(source_, {}, static_cast<std::uint32_t>(f.nics()), network.vertices, network.wires))
      return false;
    f.network = std::move(network);
    return true;
  }

  Source& source_;
  std::vector<Line> lines_;
  std::uint32_t nodes_ = 0, per_server_ = 0, gpus_ = 0, servers_ = 0, nvswitches_ = 0, switches_ = 0, links_ = 0;
  std::map<std::uint32_t, std::uint32_t> number_;  ///< of a switch in the second line
  std::vector<std::vector<Cable>> node_wires_;     ///< [server]
  std::vector<Cable> network_;
  std::map<std::uint32_t, double> port_;  ///< bytes a second from a GPU to switches
};

}  // namespace

bool is_simai_topology(std::string_view text) {
  // The first line alone says what kind of file this is: five numbers and the name of a GPU.
  const std::string_view first = text.substr(0, std::min(text.find('\n'), text.size()));
  const std::vector<Line> lines = words_of(first.ends_with('\r') ? first.substr(0, first.size() - 1) : first);
  if (lines.empty() || lines[0].size() < 6 || whole(lines[0][5].text)) return false;
  return std::all_of(lines[0].begin(), lines[0].begin() + 5, [](const Word& w) { return whole(w.text).has_value(); });
}

std::optional<FabricSpec> read_simai_topology(Source& source, const ImportOptions&) { return Reader(source).read(); }

}  // namespace orrery::importing
