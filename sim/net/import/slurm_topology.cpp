#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/units_text.hpp"
#include "sim/net/import/slurm_switches.hpp"

// Makes a network of Slurm's switches (slurm_switches.hpp): a tree where its levels are even, otherwise single wires.

namespace orrery::importing {
namespace {

class Reader {
 public:
  Reader(Source& source, const ImportOptions& options) : source_(source), options_(options) {}

  std::optional<FabricSpec> read() {
    for (SlurmSwitch& s : is_yaml() ? read_slurm_yaml(source_) : read_slurm_conf(source_)) add(std::move(s));
    if (!source_.clean()) return std::nullopt;
    if (switches_.empty()) {
      source_.error({1, 1}, "import.kind", "this line names no switch", {"A line is: SwitchName=s0 Nodes=n[0-3]"});
      return std::nullopt;
    }
    if (!options_.nic) {
      source_.error(source_.at(0), "import.nic", "topology.conf does not say how fast the links are",
                    {"Name a NIC's bandwidth: --nic \"400 Gbit/s\"."});
      return std::nullopt;
    }
    for (Switch& s : switches_) {
      if (!link_up(s)) return std::nullopt;
    }
    join_roots();
    source_.note(fmt::format("NICs have {}; a link between switches has what the nodes below it need together",
                             short_text(*options_.nic)));
    source_.note("latencies are nominal; all NICs of a node hang on its switch");
    return build();
  }

 private:
  struct Switch : SlurmSwitch {
    std::vector<std::size_t> children;  ///< switches
    std::size_t parents = 0;
  };

  [[nodiscard]] bool is_yaml() const {
    for (const TextLine& line : lines_of(source_.text())) {
      const std::size_t first = line.text.find_first_not_of(" \t");
      if (first == std::string_view::npos || line.text[first] == '#') continue;
      return line.text.find('=') == std::string_view::npos;
    }
    return false;
  }

  void add(SlurmSwitch&& read) {
    Switch s{std::move(read), {}, 0};
    if (!source_.clean()) return;
    if (!number_.emplace(s.name, switches_.size()).second) {
      source_.error(s.where, "import.switch", fmt::format("there are two switches {}", brief(s.name)));
      return;
    }
    for (const std::string& n : s.below) {
      if (!s.leaf || nodes_.emplace(n, switches_.size()).second) continue;
      source_.error(s.where, "import.node", fmt::format("node {} hangs on two switches", brief(n)));
      return;
    }
    switches_.push_back(std::move(s));
  }

  /// Blocks, and switches that nothing joins, get a switch above. Slurm starts no job across them unless it is told to.
  void join_roots() {
    std::vector<std::size_t> roots;
    for (std::size_t s = 0; s < switches_.size(); ++s) {
      if (switches_[s].parents == 0) roots.push_back(s);
    }
    if (roots.size() < 2) return;
    Switch top;
    top.name = "assumed-top";
    top.where = switches_[roots.front()].where;
    for (const std::size_t s : roots) {
      top.children.push_back(s);
      ++switches_[s].parents;
    }
    source_.note(fmt::format("the file joins {}, {}{} by nothing: one switch is assumed above them",
                             switches_[roots[0]].name, switches_[roots[1]].name,
                             roots.size() > 2 ? fmt::format(" and {} more", roots.size() - 2) : std::string()));
    switches_.push_back(std::move(top));
  }

  bool link_up(Switch& s) {
    if (s.leaf) return true;
    for (const std::string& name : s.below) {
      const auto found = number_.find(name);
      if (found == number_.end()) {
        source_.error(s.where, "import.switch", fmt::format("there is no switch {}", brief(name)),
                      {fmt::format("{} names it.", brief(s.name))});
        return false;
      }
      s.children.push_back(found->second);
      ++switches_[found->second].parents;
    }
    return true;
  }

  /// Nodes below a switch; 0 and an error where switches hang on each other in a ring.
  std::uint64_t nodes_below(std::size_t s, std::size_t depth = 0) {
    if (depth > 16) {
      source_.error(switches_[s].where, "import.depth", "switches hang on each other in a ring, or more than 16 deep");
      return 0;
    }
    if (switches_[s].leaf) return switches_[s].below.size();
    std::uint64_t sum = 0;
    for (const std::size_t c : switches_[s].children) {
      const std::uint64_t n = nodes_below(c, depth + 1);
      if (n == 0) return 0;
      sum = std::min<std::uint64_t>(sum + n, std::uint64_t{1} << 40);
    }
    return sum;
  }

  std::optional<FabricSpec> build() {
    FabricSpec f;
    if (options_.node) f.node = *options_.node;
    f.nodes = static_cast<std::uint32_t>(nodes_.size());
    const std::uint32_t nics = f.node.nics;
    std::vector<std::uint64_t> below(switches_.size());
    for (std::size_t s = 0; s < switches_.size(); ++s) {
      below[s] = nodes_below(s);
      if (!source_.clean()) return std::nullopt;
    }
    if (f.gpus() > max_fabric_gpus) {
      source_.error({1, 1}, "import.size", "the fabric has too many GPUs",
                    {fmt::format("{} nodes of {} are {}; at most {} are read.", f.nodes, f.node.gpus, f.gpus(),
                                 max_fabric_gpus)});
      return std::nullopt;
    }
    if (auto tree = regular_tree(below, nics)) {
      f.network = std::move(*tree);
      return f;
    }
    if (f.nics() > 2048) {
      source_.error({1, 1}, "import.size", "the switches are not alike, and there are too many NICs for single wires",
                    {fmt::format("There are {}; at most 2048 are read.", f.nics())});
      return std::nullopt;
    }
    WiredNetwork network;
    std::uint32_t node = 0;
    for (std::uint32_t n = 0; n < f.nics(); ++n) network.vertices.push_back(fmt::format("nic{}", n));
    const auto first = static_cast<std::uint32_t>(network.vertices.size());
    for (const Switch& s : switches_) {
      if (s.name.size() > 60 || s.name.starts_with("nic")) {
        source_.error(s.where, "import.switch", "the name of this switch cannot be kept",
                      {"A name may have at most 60 characters, and may not begin with nic."});
        return std::nullopt;
      }
      network.vertices.push_back(s.name);
    }
    for (std::size_t s = 0; s < switches_.size(); ++s) {
      const auto at = first + static_cast<std::uint32_t>(s);
      if (switches_[s].leaf) {
        for (std::size_t k = 0; k < switches_[s].below.size(); ++k, ++node) {
          for (std::uint32_t i = 0; i < nics; ++i) {
            network.wires.push_back({node * nics + i, at, {LinkKind::network, *options_.nic, network_latency}});
          }
        }
      }
      for (const std::size_t c : switches_[s].children) {
        const double need = static_cast<double>(below[c] * nics) / static_cast<double>(switches_[c].parents);
        network.wires.push_back(
            {first + static_cast<std::uint32_t>(c), at, {LinkKind::network, need * *options_.nic, network_latency}});
      }
    }
    f.network = std::move(network);
    return f;
  }

  /// A tree whose switches of one level have equally many children; it is stored as such, whatever its size.
  std::optional<TreeNetwork> regular_tree(const std::vector<std::uint64_t>& below, std::uint32_t nics) const {
    std::vector<std::size_t> level;
    for (std::size_t s = 0; s < switches_.size(); ++s) {
      if (switches_[s].parents == 0) level.push_back(s);
      if (switches_[s].parents > 1) return std::nullopt;
    }
    if (level.size() != 1) return std::nullopt;
    TreeNetwork tree;
    for (;;) {
      const Switch& first = switches_[level.front()];
      const std::size_t down = first.leaf ? first.below.size() : first.children.size();
      std::vector<std::size_t> next;
      for (const std::size_t s : level) {
        const Switch& w = switches_[s];
        if (w.leaf != first.leaf || (w.leaf ? w.below.size() : w.children.size()) != down) return std::nullopt;
        next.insert(next.end(), w.children.begin(), w.children.end());
      }
      const std::uint64_t through = first.leaf ? 1 : below[first.children.front()] * nics;
      tree.levels.insert(tree.levels.begin(),
                         TreeLevel{static_cast<std::uint32_t>(first.leaf ? down * nics : down),
                                   1,
                                   {LinkKind::network, static_cast<double>(through) * *options_.nic, network_latency}});
      if (first.leaf) break;
      // Nodes are numbered in the order of the leaves, which must be that of the tree.
      for (std::size_t i = 1; i < next.size(); ++i) {
        if (next[i] < next[i - 1]) return std::nullopt;
      }
      level = std::move(next);
    }
    if (tree.levels.size() > 6) return std::nullopt;
    return tree;
  }

  Source& source_;
  const ImportOptions& options_;
  std::vector<Switch> switches_;
  std::map<std::string, std::size_t> number_;  ///< of a switch
  std::map<std::string, std::size_t> nodes_;   ///< the switch of each
};

}  // namespace

std::optional<FabricSpec> read_slurm_topology(Source& source, const ImportOptions& options) {
  return Reader(source, options).read();
}

}  // namespace orrery::importing
