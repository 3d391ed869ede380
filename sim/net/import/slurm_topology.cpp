#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "core/base/units_text.hpp"
#include "sim/net/import/source.hpp"

// Reads topology.conf(5) of Slurm, plugin topology/tree: a line for each switch, SwitchName=s0 Nodes=n[0-3,7] or
// SwitchName=s2 Switches=s[0-1]. Key words may be in any case, # begins a comment, and LinkSpeed has no effect, as in
// Slurm.

namespace orrery::importing {
namespace {

constexpr std::size_t most_names = 65536;

class Reader {
 public:
  Reader(Source& source, const ImportOptions& options) : source_(source), options_(options) {}

  std::optional<FabricSpec> read() {
    for (const TextLine& line : lines_of(source_.text())) read_line(line);
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
    source_.note(fmt::format("NICs have {}; a link between switches has what the nodes below it need together",
                             short_text(*options_.nic)));
    source_.note("latencies are nominal; all NICs of a node hang on its switch");
    return build();
  }

 private:
  struct Switch {
    std::string name;
    std::vector<std::string> below;  ///< nodes, or switches
    bool leaf = false;
    Position where;
    std::vector<std::size_t> children;  ///< switches
    std::size_t parents = 0;
  };

  /// Expands Slurm's hostlists: "n[0-3,007],m".
  std::optional<std::vector<std::string>> expand(std::string_view text, Position where) {
    std::vector<std::string> out;
    const auto wrong = [&](const char* what) {
      source_.error(where, "import.hostlist", fmt::format("the list \"{}\" cannot be read", brief(text)),
                    {what, "n[0-3,7],m1 would be right."});
      return std::nullopt;
    };
    for (std::size_t i = 0; i < text.size();) {
      std::string prefix;
      while (i < text.size() && text[i] != '[' && text[i] != ',' && text[i] != ']') prefix += text[i++];
      if (i == text.size() || text[i] == ',') {
        if (prefix.empty()) return wrong("A name is empty.");
        out.push_back(prefix);
        ++i;
        continue;
      }
      const std::size_t end = text.find(']', i);
      if (text[i] == ']' || end == std::string_view::npos) return wrong("A bracket has no other one.");
      std::string_view ranges = text.substr(i + 1, end - i - 1);
      i = end + 1;
      std::string suffix;
      while (i < text.size() && text[i] != ',' && text[i] != '[') suffix += text[i++];
      if (i < text.size() && text[i] == '[') return wrong("Lists in two brackets of one name are not read.");
      ++i;
      while (!ranges.empty()) {
        const std::size_t comma = std::min(ranges.find(','), ranges.size());
        const std::string_view range = ranges.substr(0, comma);
        ranges.remove_prefix(std::min(comma + 1, ranges.size()));
        const std::size_t dash = std::min(range.find('-'), range.size());
        const std::string_view low = range.substr(0, dash), high = dash < range.size() ? range.substr(dash + 1) : low;
        const auto digits = [](std::string_view t) {
          return !t.empty() && t.size() < 8 &&
                 std::all_of(t.begin(), t.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
        };
        if (!digits(low) || !digits(high)) return wrong("A range is not two numbers.");
        const unsigned long first = std::stoul(std::string(low)), last = std::stoul(std::string(high));
        if (first > last) return wrong("A range runs downwards.");
        if (last - first + out.size() > most_names) return wrong("It has more than 65,536 names.");
        for (unsigned long n = first; n <= last; ++n) {
          out.push_back(fmt::format("{}{:0{}}{}", prefix, n, low.size(), suffix));
        }
      }
    }
    return out;
  }

  void read_line(const TextLine& line) {
    std::string_view text = line.text.substr(0, line.text.find('#'));
    Switch s;
    bool any = false, has_nodes = false, has_switches = false;
    for (std::size_t i = 0; i < text.size();) {
      if (std::isspace(static_cast<unsigned char>(text[i])) != 0) {
        ++i;
        continue;
      }
      std::size_t end = i;
      while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end])) == 0) ++end;
      const std::string_view word = text.substr(i, end - i);
      const Position where{line.number, static_cast<std::uint32_t>(i) + 1};
      i = end;
      const std::size_t equals = std::min(word.find('='), word.size());
      std::string key(word.substr(0, equals));
      std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
      const std::string_view value = word.substr(std::min(equals + 1, word.size()));
      any = true;
      if (key == "switchname") {
        s.name = wire_name(std::string(value));
        s.where = where;
      } else if (key == "nodes" || key == "switches") {
        (key == "nodes" ? has_nodes : has_switches) = true;
        s.leaf = key == "nodes";
        if (auto names = expand(value, where)) s.below = std::move(*names);
        for (std::string& n : s.below) n = wire_name(std::move(n));
      } else if (key == "linkspeed") {
        source_.note("LinkSpeed is left out: Slurm gives it no unit and no effect");
      } else {
        source_.error(where, "import.key", fmt::format("the key \"{}\" is not known", brief(word)),
                      {"A line has SwitchName, Nodes or Switches, and LinkSpeed."});
        return;
      }
    }
    if (!any) return;
    if (s.name.empty() || has_nodes == has_switches || s.below.empty()) {
      if (source_.clean()) {
        source_.error({line.number, 1}, "import.switch", "this line does not give a switch and what hangs on it",
                      {"It needs a SwitchName, and either Nodes or Switches: SwitchName=s0 Nodes=n[0-3]"});
      }
      return;
    }
    if (!number_.emplace(s.name, switches_.size()).second) {
      source_.error(s.where, "import.switch", fmt::format("there are two switches {}", brief(s.name)));
      return;
    }
    if (s.leaf) {
      for (const std::string& n : s.below) {
        if (!nodes_.emplace(n, switches_.size()).second) {
          source_.error(s.where, "import.node", fmt::format("node {} hangs on two switches", brief(n)));
          return;
        }
      }
    }
    switches_.push_back(std::move(s));
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
    const Topology::Sides gap = unconnected(first, static_cast<std::uint32_t>(network.vertices.size()), network.wires);
    if (gap.from != gap.to) {
      source_.error(
          {1, 1}, "import.unconnected", "no switches join all nodes",
          {fmt::format("Nothing leads from the {}th node to the {}th.", gap.from / nics + 1, gap.to / nics + 1)});
      return std::nullopt;
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
