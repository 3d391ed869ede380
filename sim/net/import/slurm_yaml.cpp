#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "sim/net/import/slurm_switches.hpp"

// topology.yaml(5) of Slurm, from 25.05 on: a list of topologies, each with a `tree` of switches (children or nodes),
// with `block`s, or `flat`. One of them may be the cluster's default.

namespace orrery::importing {
namespace {

Position place(const YAML::Node& node) {
  const YAML::Mark mark = node.Mark();
  if (mark.is_null()) return {1, 1};
  return {static_cast<std::uint32_t>(mark.line) + 1, static_cast<std::uint32_t>(mark.column) + 1};
}

std::string scalar(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : std::string(); }

class Reader {
 public:
  explicit Reader(Source& source) : source_(source) {}

  std::vector<SlurmSwitch> read() {
    YAML::Node root;
    try {
      root = YAML::Load(source_.text());
    } catch (const YAML::Exception& e) {
      source_.error({static_cast<std::uint32_t>(std::max(e.mark.line, 0)) + 1,
                     static_cast<std::uint32_t>(std::max(e.mark.column, 0)) + 1},
                    "import.syntax", fmt::format("not valid YAML: {}", brief(e.msg)));
      return {};
    }
    const YAML::Node chosen = topology(root);
    if (!chosen) {
      source_.error({1, 1}, "import.kind", "this file has no topology of switches or blocks",
                    {"topology.yaml is a list of topologies, of which one has a tree or a block."});
      return {};
    }
    if (chosen["tree"]) {
      each(chosen["tree"]["switches"], "switch");
    } else {
      source_.note("sizes of blocks are left out: they say where jobs may lie, not what joins the blocks");
      each(chosen["block"]["blocks"], "block");
    }
    return std::move(switches_);
  }

 private:
  /// The default one, or the first that is not flat.
  YAML::Node topology(const YAML::Node& root) {
    YAML::Node first;
    bool found = false;
    std::size_t left_out = 0;
    if (!root.IsSequence()) return YAML::Node(YAML::NodeType::Undefined);
    for (const YAML::Node& t : root) {
      if (!t.IsMap() || (!t["tree"] && !t["block"])) {
        ++left_out;
        continue;
      }
      const bool by_default = scalar(t["cluster_default"]) == "true";
      left_out += found ? 1 : 0;
      if (!found || by_default) first.reset(t);
      found = true;
    }
    if (left_out > 0) source_.note(fmt::format("{} of {} topologies are left out", left_out, root.size()));
    return found ? first : YAML::Node(YAML::NodeType::Undefined);
  }

  void each(const YAML::Node& list, const char* key) {
    if (!list || !list.IsSequence()) return;
    for (const YAML::Node& entry : list) {
      SlurmSwitch s;
      s.where = place(entry);
      if (entry.IsMap()) s.name = wire_name(scalar(entry[key]));
      const YAML::Node nodes = entry.IsMap() ? entry["nodes"] : YAML::Node(YAML::NodeType::Undefined);
      const YAML::Node children = entry.IsMap() ? entry["children"] : YAML::Node(YAML::NodeType::Undefined);
      s.leaf = !children;
      const YAML::Node below = children ? children : nodes;
      if (s.name.empty() || scalar(below).empty()) {
        source_.error(s.where, "import.switch", fmt::format("this {} has no name, or nothing hangs on it", key),
                      {fmt::format("It needs {}, and nodes or children: - {}: s0", key, key)});
        return;
      }
      if (auto names = slurm_names(scalar(below), place(below), source_)) s.below = std::move(*names);
      for (std::string& n : s.below) n = wire_name(std::move(n));
      if (s.below.empty()) return;
      switches_.push_back(std::move(s));
    }
  }

  Source& source_;
  std::vector<SlurmSwitch> switches_;
};

}  // namespace

std::vector<SlurmSwitch> read_slurm_yaml(Source& source) { return Reader(source).read(); }

}  // namespace orrery::importing
