#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "sim/net/import/gpu_links.hpp"
#include "sim/net/import/groups.hpp"
#include "sim/net/import/node_draft.hpp"
#include "sim/net/import/smi_matrix.hpp"

namespace orrery::importing {
namespace {

/// Wires the devices of a matrix. NVLinks hide what lies below them, so NICs and the places of GPUs tell that.
class Wiring {
 public:
  Wiring(Source& source, const ImportOptions& options, const GpuLinks& links, SmiMatrix matrix)
      : source_(source), options_(options), links_(links), matrix_(std::move(matrix)) {}

  std::optional<FabricSpec> build() {
    const Groups switches = within(SmiMatrix::pix), trees = within(SmiMatrix::pxb), nodes = numa_nodes();
    if (!is_apart(SmiMatrix::pix, switches) || !is_apart(SmiMatrix::pxb, trees) || !check_nodes(nodes))
      return std::nullopt;
    wire_pcie(switches, trees, nodes);
    wire_nvlinks();
    if (!source_.clean()) return std::nullopt;
    source_.note(fmt::format("links are those of {} by its datasheet, 22 GB/s between sockets; latencies are nominal",
                             links_.name));
    return draft_.finish(source_, options_, source_.at(matrix_.header));
  }

 private:
  std::size_t size() const { return matrix_.devices.size(); }
  SmiMatrix::Distance distance(std::size_t a, std::size_t b) const { return matrix_.cells[a][b].distance; }
  std::uint32_t nvlinks(std::size_t a, std::size_t b) const { return matrix_.cells[a][b].nvlinks; }
  std::string name(std::size_t d) const { return brief(matrix_.devices[d].name); }

  Groups within(SmiMatrix::Distance level) const {
    Groups groups(size());
    for (std::size_t a = 0; a < size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (distance(a, b) <= level) groups.join(a, b);
      }
    }
    return groups;
  }

  /// Where NVLinks hide it, two GPUs are in one node if they have the same place. Where no place is given, they are if
  /// nothing between them and their neighbours crosses sockets.
  Groups numa_nodes() const {
    Groups groups = within(SmiMatrix::numa);
    const auto for_hidden = [&](const auto& visit) {
      for (std::size_t a = 0; a < size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          if (distance(a, b) == SmiMatrix::unknown) visit(a, b, matrix_.devices[a].place, matrix_.devices[b].place);
        }
      }
    };
    for_hidden([&](std::size_t a, std::size_t b, const std::string& here, const std::string& there) {
      if (!here.empty() && here == there) groups.join(a, b);
    });
    for_hidden([&](std::size_t a, std::size_t b, const std::string& here, const std::string& there) {
      if ((here.empty() || there.empty()) && !crosses(groups, a, b)) groups.join(a, b);
    });
    return groups;
  }
  bool crosses(const Groups& groups, std::size_t a, std::size_t b) const {
    if (groups.of(a) == groups.of(b)) return false;
    for (std::size_t x = 0; x < size(); ++x) {
      for (std::size_t y = 0; groups.of(x) == groups.of(a) && y < size(); ++y) {
        if (groups.of(y) == groups.of(b) && distance(x, y) == SmiMatrix::sys) return true;
      }
    }
    return false;
  }

  bool far_apart(std::size_t a, std::size_t b, const char* rule) {
    source_.error(source_.at(matrix_.offsets[a][b]), "import.matrix",
                  fmt::format("{} and {} are far apart, but both are near to the same device", name(a), name(b)),
                  {rule});
    return false;
  }
  /// If a device shares a switch with one other, it must share it with all others there.
  bool is_apart(SmiMatrix::Distance level, const Groups& groups) {
    for (std::size_t a = 0; a < size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const SmiMatrix::Distance d = distance(a, b);
        if (groups.of(a) == groups.of(b) && d != SmiMatrix::unknown && d > level)
          return far_apart(a, b, "All devices below one PCIe switch must be near to each other.");
      }
    }
    return true;
  }
  /// SYS within a node belongs to a NIC below another root complex, or is printed for everything that is not below one
  /// switch. It is a mistake where the GPUs there have no place or several.
  bool check_nodes(const Groups& nodes) {
    std::map<std::size_t, std::set<std::string>> places;
    for (std::size_t d = 0; d < size(); ++d) {
      if (matrix_.devices[d].gpu) places[nodes.of(d)].insert(matrix_.devices[d].place);
    }
    std::string first;
    std::size_t more = 0;
    for (std::size_t a = 0; a < size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (nodes.of(a) != nodes.of(b) || distance(a, b) != SmiMatrix::sys) continue;
        const std::set<std::string>& there = places[nodes.of(a)];
        if (there.size() > 1 || there.count("") != 0)
          return far_apart(a, b, "All devices in one NUMA node must be near to each other.");
        if (first.empty()) {
          first = fmt::format("{} and {}", name(b), name(a));
        } else {
          ++more;
        }
      }
    }
    if (!first.empty()) {
      source_.note(fmt::format("{}{} are SYS apart in one NUMA node, and meet at its processor", first,
                               more == 0 ? std::string() : fmt::format(", with {} more pairs,", more)));
    }
    return true;
  }

  void wire_pcie(const Groups& switches, const Groups& trees, const Groups& nodes) {
    const Link pcie{LinkKind::pcie, links_.pcie, pcie_latency};
    std::vector<bool> out;
    for (const SmiMatrix::Device& d : matrix_.devices) out.push_back(!d.gpu && draft_.leaves_out(options_, d.name));
    std::map<std::size_t, std::string> host, tree, leaf;
    std::vector<std::string> hosts;
    for (std::size_t d = 0; d < size(); ++d) {
      if (out[d]) continue;
      const bool gpu = matrix_.devices[d].gpu;
      const std::string vertex =
          gpu ? fmt::format("gpu{}", draft_.gpus().size()) : fmt::format("port{}", draft_.nics().size());
      if (gpu) {
        draft_.gpu(vertex);
      } else {
        draft_.nic({vertex, options_.nic, matrix_.devices[d].name});
      }
      const auto [at, first] = host.try_emplace(nodes.of(d), fmt::format("host{}", host.size()));
      if (first) hosts.push_back(at->second);
      std::string above = at->second;
      // Devices that share a switch stand below it; a further switch stands above those that meet without the host.
      const auto any_other = [&](const auto& holds) {
        for (std::size_t other = 0; other < size(); ++other) {
          if (other != d && !out[other] && holds(other)) return true;
        }
        return false;
      };
      const auto hang = [&](std::map<std::size_t, std::string>& known, std::size_t group) {
        const auto [s, added] = known.try_emplace(group, fmt::format("switch{}", tree.size() + leaf.size()));
        if (added) draft_.wire(s->second, above, pcie);
        above = s->second;
      };
      if (any_other([&](std::size_t o) { return trees.of(o) == trees.of(d) && switches.of(o) != switches.of(d); }))
        hang(tree, trees.of(d));
      if (any_other([&](std::size_t o) { return switches.of(o) == switches.of(d); })) hang(leaf, switches.of(d));
      draft_.wire(vertex, above, pcie);
    }
    const Link socket{LinkKind::socket, Bandwidth::of(22e9), socket_latency};
    for (std::size_t a = 0; a < hosts.size(); ++a) {
      for (std::size_t b = a + 1; b < hosts.size(); ++b) draft_.wire(hosts[a], hosts[b], socket);
    }
  }

  void wire_nvlinks() {
    std::vector<std::size_t> gpus;
    for (std::size_t d = 0; d < size(); ++d) {
      if (matrix_.devices[d].gpu) gpus.push_back(d);
    }
    Groups joined(gpus.size());
    bool any = false;
    for (std::size_t a = 0; a < gpus.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        if (nvlinks(gpus[a], gpus[b]) == 0) continue;
        joined.join(a, b);
        any = true;
      }
    }
    if (!any) return wire_told_nvlinks();
    if (options_.nvlinks) {
      source_.error(source_.at(matrix_.header), "import.nvlinks",
                    "--nvlinks is for a matrix that shows no NVLink, and this one does");
      return;
    }
    for (std::size_t first = 0; first < gpus.size(); ++first) {
      if (joined.of(first) != first) continue;
      std::vector<std::size_t> set;
      for (std::size_t g = 0; g < gpus.size(); ++g) {
        if (joined.of(g) == first) set.push_back(g);
      }
      wire_set(gpus, set);
    }
  }

  /// GPUs that NVLinks join. They are joined directly where each has enough links for all its peers, otherwise by
  /// NVSwitches, which show each pair as many links as the GPU with fewer has.
  void wire_set(const std::vector<std::size_t>& gpus, const std::vector<std::size_t>& set) {
    std::vector<std::uint32_t> widest;
    std::uint32_t most = 0;  // that one GPU would need for all its peers
    bool all_pairs = true;
    for (const std::size_t a : set) {
      std::uint32_t sum = 0, wide = 0;
      for (const std::size_t b : set) {
        if (a == b) continue;
        const std::uint32_t n = nvlinks(gpus[a], gpus[b]);
        sum += n;
        wide = std::max(wide, n);
        all_pairs = all_pairs && n > 0;
      }
      most = std::max(most, sum);
      widest.push_back(wide);
    }
    const auto vertex = [&](std::size_t g) { return draft_.gpus()[g]; };
    if (most <= links_.links) {
      for (std::size_t a = 0; a < set.size(); ++a) {
        for (std::size_t b = a + 1; b < set.size(); ++b) {
          const std::uint32_t n = nvlinks(gpus[set[a]], gpus[set[b]]);
          if (n > 0) draft_.wire(vertex(set[a]), vertex(set[b]), {LinkKind::nvlink, n * links_.link, nvlink_latency});
        }
      }
      return;
    }
    const std::uint32_t fullest = *std::max_element(widest.begin(), widest.end());
    if (!all_pairs || fullest > links_.links) {
      source_.error(source_.at(matrix_.header), "import.gpu",
                    fmt::format("a GPU has more NVLinks than {} has", links_.name),
                    {fmt::format("They sum up to {}; it has {}.", most, links_.links)});
      return;
    }
    const std::string nvswitch = switches_ == 0 ? "nvswitch" : fmt::format("nvswitch{}", switches_);
    ++switches_;
    for (std::size_t i = 0; i < set.size(); ++i)
      draft_.wire(vertex(set[i]), nvswitch, {LinkKind::nvlink, widest[i] * links_.link, nvlink_latency});
    source_.note(fmt::format("{} NVLinks to every GPU are more than one has: they lead to NVSwitches", fullest));
  }

  /// The matrix shows no NVLinks. Where such GPUs have some, the machine must not silently become one of PCIe alone.
  void wire_told_nvlinks() {
    if (draft_.gpus().size() < 2 || (links_.links == 0 && options_.nvlinks.value_or(0) == 0)) return;
    const bool bridge = links_.kind == PeerLinks::bridge;
    if (!options_.nvlinks && bridge && !matrix_.pcie_alone) {
      source_.note(
          fmt::format("no bridge joins two {}: the matrix shows no NVLink (`topo -mp` would not)", links_.name));
      return;
    }
    const std::string by_switch =
        bridge ? std::string("--nvlinks 0 says that no bridge joins them.")
               : fmt::format(
                     "--nvlinks {} says that all NVLinks of each GPU lead to NVSwitches; --nvlinks 0, that these "
                     "are cards without.",
                     links_.links);
    if (!options_.nvlinks) {
      source_.error(source_.at(matrix_.header), "import.nvlinks",
                    fmt::format("the matrix shows no NVLink, and {} has {}", links_.name, links_.links),
                    {"`nvidia-smi topo -m` shows them; `topo -mp` leaves them out.", by_switch});
      return;
    }
    const std::uint32_t told = *options_.nvlinks;
    if (told > links_.links || (told > 0 && bridge)) {
      source_.error(source_.at(matrix_.header), "import.nvlinks",
                    bridge ? fmt::format("--nvlinks cannot say which {} a bridge joins", links_.name)
                           : fmt::format("--nvlinks {} is more than {} has", told, links_.name),
                    {bridge ? std::string("The matrix of `nvidia-smi topo -m` shows it.")
                            : fmt::format("It has {}.", links_.links)});
      return;
    }
    for (const std::string& g : draft_.gpus()) {
      if (told > 0) draft_.wire(g, "nvswitch", {LinkKind::nvlink, told * links_.link, nvlink_latency});
    }
    source_.note(
        told == 0 ? std::string("PCIe alone joins the GPUs, as --nvlinks 0 says")
                  : fmt::format("the {} NVLinks of each GPU, which the matrix leaves out, lead to NVSwitches", told));
  }

  Source& source_;
  const ImportOptions& options_;
  const GpuLinks& links_;
  SmiMatrix matrix_;
  NodeDraft draft_;
  std::size_t switches_ = 0;  ///< sets of NVSwitches
};

/// The GPU that lines beside the matrix name, as `nvidia-smi -L` and `nvidia-smi` print it.
const GpuLinks* listed(Source& source) {
  const GpuLinks* found = nullptr;
  for (const TextLine& line : lines_of(source.text())) {
    const GpuLinks* here = gpu_links_in(line.text);
    if (here == nullptr || here == found) continue;
    if (found != nullptr) {
      source.error({line.number, 1}, "import.gpu", "the file names GPUs of two kinds",
                   {fmt::format("They are {} and {}; --gpu says which links count.", found->name, here->name)});
      return nullptr;
    }
    found = here;
  }
  if (found != nullptr) source.note(fmt::format("the file calls its GPUs {}", found->name));
  return found;
}

}  // namespace

std::optional<FabricSpec> read_smi_topology(Source& source, const ImportOptions& options) {
  const GpuLinks* links = options.gpu ? gpu_links_named(*options.gpu) : listed(source);
  if (links == nullptr) {
    if (!source.clean()) return std::nullopt;
    source.error({1, 1}, "import.gpu", "the matrix does not say which GPUs these are, nor how fast their links are",
                 {fmt::format("Name the GPU with --gpu, one of {}.", gpu_link_names())});
    return std::nullopt;
  }
  std::optional<SmiMatrix> matrix = read_smi_matrix(source);
  if (!matrix) return std::nullopt;
  return Wiring(source, options, *links, std::move(*matrix)).build();
}

}  // namespace orrery::importing
