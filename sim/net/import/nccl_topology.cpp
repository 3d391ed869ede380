#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <pugixml.hpp>
#include <set>

#include "core/base/units_text.hpp"
#include "sim/net/import/gpu_links.hpp"
#include "sim/net/import/node_draft.hpp"

// <system> of NCCL (version 1): a <cpu> for each NUMA node, <pci> inside, <gpu> and <nic><net> in those.  A dump has
// all of them; the skeletons that clouds ship have <pci> alone, and which is what follows from its class.

namespace orrery::importing {
namespace {

/// Bandwidth of a lane in one direction, by transfers per second: PCI Express base specification, 8b/10b below 8 GT/s,
/// 128b/130b from there, 242 of 256 bytes of a flit at 64 GT/s.
double lane_bandwidth(double gigatransfers) {
  const double coding = gigatransfers < 8.0 ? 0.8 : gigatransfers < 64.0 ? 128.0 / 130.0 : 242.0 / 256.0;
  return gigatransfers * 1e9 / 8.0 * coding;
}

/// What NCCL (graph/topo.h, 2.28) counts with between two sockets.
Bandwidth socket_bandwidth(const pugi::xml_node& cpu) {
  const std::string arch = cpu.attribute("arch").value(), vendor = cpu.attribute("vendor").value();
  const int family = cpu.attribute("familyid").as_int(), model = cpu.attribute("modelid").as_int();
  double gigabytes = 16.0;  // AMD
  if (arch == "ppc64") gigabytes = 32.0;
  if (arch == "arm64") gigabytes = 6.0;
  if (vendor == "GenuineIntel") {
    gigabytes = family != 6 || model < 0x55 ? 6.0 : model < 0x8f ? 10.0 : model < 0xcf ? 22.0 : 40.0;
  }
  return Bandwidth::of(gigabytes * 1e9);
}

class Reader {
 public:
  Reader(Source& source, const ImportOptions& options) : source_(source), options_(options) {}

  std::optional<FabricSpec> read() {
    pugi::xml_document document;
    const pugi::xml_parse_result parsed = document.load_buffer(source_.text().data(), source_.text().size());
    if (!parsed) {
      source_.error(source_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(parsed.offset, 0))), "import.syntax",
                    fmt::format("not valid XML: {}", parsed.description()));
      return std::nullopt;
    }
    const pugi::xml_node system = document.child("system");
    if (!system) {
      source_.error({1, 1}, "import.kind", "this is no topology of NCCL", {"Its root element is <system>."});
      return std::nullopt;
    }
    if (const std::string version = system.attribute("version").value(); version != "1") {
      source_.error(place(system), "import.version", "the version of this topology is not known",
                    {fmt::format("It is \"{}\"; 1 is read.", version)});
      return std::nullopt;
    }
    for (const pugi::xml_node cpu : system.children("cpu")) {
      const std::string host = fmt::format("host{}", hosts_.size());
      hosts_.push_back({host, socket_bandwidth(cpu)});
      for (const pugi::xml_node child : cpu.children()) visit(child, host, 0);
    }
    if (!source_.clean()) return std::nullopt;
    for (std::size_t a = 0; a < hosts_.size(); ++a) {
      for (std::size_t b = a + 1; b < hosts_.size(); ++b) {
        draft_.wire(hosts_[a].first, hosts_[b].first,
                    {LinkKind::socket, std::min(hosts_[a].second, hosts_[b].second), socket_latency});
      }
    }
    if (hosts_.size() > 1) source_.note("bandwidths between sockets are those that NCCL assumes for such processors");
    number_gpus();
    add_nvlinks(system);
    source_.note("latencies are nominal");
    if (!source_.clean()) return std::nullopt;
    return draft_.finish(source_, options_, place(system));
  }

 private:
  struct Gpu {
    std::string bus;
    int number = 0;  ///< `dev`, or its place
    pugi::xml_node gpu, pci;
    std::string parent;
  };

  Position place(const pugi::xml_node& n) const {
    return source_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(n.offset_debug(), 0)));
  }

  /// "0x030200" and "0x0302" are both of GPUs.
  static std::uint32_t class_of(const char* text) {
    const std::string digits = std::string(text).starts_with("0x") ? std::string(text).substr(2) : text;
    return static_cast<std::uint32_t>(std::strtoul(digits.substr(0, 4).c_str(), nullptr, 16));
  }
  static bool is_gpu(std::uint32_t pci_class) { return pci_class == 0x0302 || pci_class == 0x0300; }

  Link pcie(const pugi::xml_node& pci) {
    int width = pci.attribute("link_width").as_int();
    if (width <= 0 || width > 32) width = 16;
    double speed = std::strtod(pci.attribute("link_speed").value(), nullptr);
    if (!(speed >= 2.0 && speed <= 256.0)) {
      speed = 8.0;
      source_.note("PCIe links of unknown speed are taken for 8 GT/s, as NCCL does");
    }
    return {LinkKind::pcie, Bandwidth::of(width * lane_bandwidth(speed)), pcie_latency};
  }

  void visit(const pugi::xml_node& node, const std::string& parent, int depth) {
    const std::string_view name = node.name();
    if (node.type() != pugi::node_element) return;
    if (name == "nic") return nets(node, parent, std::nullopt);
    if (name != "pci") {
      source_.note(fmt::format("<{}> is left out", brief(name)));
      return;
    }
    if (depth > 32) {
      source_.error(place(node), "import.depth", "PCIe switches stand too deep inside each other", {"At most 32 do."});
      return;
    }
    const std::uint32_t pci_class = class_of(node.attribute("class").value());
    const std::string bus = node.attribute("busid").value();
    if (bus.empty() || !buses_.insert(bus).second) {
      source_.error(place(node), "import.bus",
                    bus.empty() ? "a device has no busid" : fmt::format("two devices have the busid {}", brief(bus)));
      return;
    }
    if (const pugi::xml_node gpu = node.child("gpu")) {
      if (!gpu.attribute("rank")) {
        source_.note("GPUs without a rank are left out, as NCCL does");
        return;
      }
      gpus_.push_back({bus, gpu.attribute("dev").as_int(-1), gpu, node, parent});
    } else if (const pugi::xml_node nic = node.child("nic")) {
      nets(nic, parent, pcie(node));
    } else if (is_gpu(pci_class)) {
      gpus_.push_back({bus, -1, {}, node, parent});
    } else if (pci_class >> 8 == 0x02) {
      if (left_out(options_, bus)) return;
      const std::string vertex = fmt::format("port{}", draft_.nics().size());
      draft_.nic({vertex, options_.nic});
      draft_.wire(vertex, parent, pcie(node));
    } else if (pci_class == 0x0604) {
      const std::string vertex = fmt::format("switch{}", switches_++);
      draft_.wire(vertex, parent, pcie(node));
      for (const pugi::xml_node child : node.children()) {
        if (std::string_view(child.name()) == "pcilink") {
          source_.note("links between PCIe switches (<pcilink>) are left out: no bandwidth is given");
        } else {
          visit(child, vertex, depth + 1);
        }
      }
    } else if (pci_class != 0x0680) {
      source_.note(fmt::format("PCI devices of class 0x{:04x} are left out", pci_class));
    }
  }

  void nets(const pugi::xml_node& nic, const std::string& parent, std::optional<Link> link) {
    for (const pugi::xml_node net : nic.children("net")) {
      if (!net.attribute("dev")) {
        source_.note("networks (<net>) without a dev are left out, as NCCL does");
        continue;
      }
      if (left_out(options_, net.attribute("name").value())) continue;
      double megabits = net.attribute("speed").as_double();
      if (!(megabits > 0.0) || megabits > 1e8) {
        megabits = 10000.0;
        source_.note("ports of unknown speed are taken for 10 Gbit/s, as NCCL does");
      }
      const Bandwidth port = Bandwidth::of(megabits * 1e6 / 8.0);
      const std::string vertex = fmt::format("port{}", draft_.nics().size());
      draft_.nic({vertex, port});
      draft_.wire(vertex, parent, link.value_or(Link{LinkKind::pcie, port, pcie_latency}));
    }
  }

  /// By dev, or in a skeleton by bus, as CUDA_DEVICE_ORDER=PCI_BUS_ID numbers them.
  void number_gpus() {
    std::stable_sort(gpus_.begin(), gpus_.end(), [](const Gpu& a, const Gpu& b) {
      return std::pair(a.number, a.number < 0 ? a.bus : "") < std::pair(b.number, b.number < 0 ? b.bus : "");
    });
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (i > 0 && gpus_[i].number >= 0 && gpus_[i].number == gpus_[i - 1].number) {
        source_.error(place(gpus_[i].gpu), "import.device", fmt::format("two GPUs have dev {}", gpus_[i].number));
      }
      const std::string vertex = fmt::format("gpu{}", i);
      vertex_of_.emplace(gpus_[i].bus, vertex);
      draft_.gpu(vertex);
      draft_.wire(vertex, gpus_[i].parent, pcie(gpus_[i].pci));
    }
  }

  void add_nvlinks(const pugi::xml_node& system) {
    bool any = false;
    std::map<std::pair<std::string, std::string>, std::pair<int, pugi::xml_node>> peers;
    for (const Gpu& g : gpus_) {
      if (!g.gpu) continue;
      any = true;
      const std::string& from = vertex_of_.at(g.bus);
      for (const pugi::xml_node link : g.gpu.children("nvlink")) {
        const int count = link.attribute("count").as_int();
        const GpuLinks* links =
            options_.gpu ? gpu_links_named(*options_.gpu) : gpu_links_of(g.gpu.attribute("sm").as_uint());
        if (links == nullptr) {
          source_.error(place(g.gpu), "import.gpu", "the speed of this GPU's NVLinks is not known",
                        {fmt::format("Its sm is \"{}\"; name a GPU that has such links: --gpu, of {}.",
                                     brief(g.gpu.attribute("sm").value()), gpu_link_names())});
          return;
        }
        if (count < 1 || count > 36) {
          source_.error(place(link), "import.value", "an <nvlink> does not say how many links it stands for",
                        {fmt::format("count is \"{}\"; 1 to 36 are read.", brief(link.attribute("count").value()))});
          return;
        }
        const Link nvlink{LinkKind::nvlink, count * links->nvlink, nvlink_latency};
        const std::string target = link.attribute("target").value();
        const std::uint32_t target_class = class_of(link.attribute("tclass").value());
        if (std::string(link.attribute("tclass").value()).starts_with("0x068001")) {
          draft_.wire(from, host_of(g), nvlink);
        } else if (target_class == 0x0680 || target.starts_with("fffffff")) {
          draft_.wire(from, "nvswitch", nvlink);
        } else if (vertex_of_.count(target) == 0) {
          source_.error(place(link), "import.target", "an <nvlink> leads to no GPU of this file",
                        {fmt::format("Its target is {}.", brief(target))});
          return;
        } else {
          const std::string& to = vertex_of_.at(target);
          const auto [at, first] = peers.try_emplace(std::minmax(from, to), count, link);
          if (first) {
            draft_.wire(from, to, nvlink);
          } else if (at->second.first != count) {
            source_.error(place(link), "import.value",
                          fmt::format("{} and {} do not agree how many NVLinks join them", from, to),
                          {fmt::format("One says {}, the other {}.", at->second.first, count)});
            return;
          }
        }
      }
      for (const pugi::xml_node c2c : g.gpu.children("c2c")) {
        const double gigabytes = c2c.attribute("bw").as_double() * c2c.attribute("count").as_double(1.0) / 1000.0;
        if (!(gigabytes > 0.0) || gigabytes > 1e6) {
          source_.error(place(c2c), "import.value", "a <c2c> has no bandwidth",
                        {fmt::format("bw is \"{}\".", brief(c2c.attribute("bw").value()))});
          return;
        }
        draft_.wire(from, host_of(g), {LinkKind::nvlink, Bandwidth::of(gigabytes * 1e9), nvlink_latency});
      }
    }
    if (any || gpus_.empty()) return;
    // A skeleton: NCCL would find the NVLinks when it runs.
    if (!options_.gpu) {
      source_.error(place(system), "import.gpu",
                    "this file has PCI devices alone; which NVLinks its GPUs have it cannot say",
                    {fmt::format("Name the GPU: --gpu, of {}.", gpu_link_names())});
      return;
    }
    const GpuLinks& links = *gpu_links_named(*options_.gpu);
    if (links.compute_capability <= 70) {
      source_.error(place(system), "import.gpu",
                    fmt::format("how NVLinks join {} GPUs is not the same in all boxes", links.name),
                    {"Import a dump (NCCL_TOPO_DUMP_FILE) or `nvidia-smi topo -m`; models/fabric has a DGX-1V."});
      return;
    }
    for (const std::string& g : draft_.gpus()) {
      draft_.wire(g, "nvswitch", {LinkKind::nvlink, links.nvlinks * links.nvlink, nvlink_latency});
    }
    source_.note(fmt::format("the {} NVLinks of each {} lead to NVSwitches", links.nvlinks, links.name));
  }

  /// The processor above a GPU.
  std::string host_of(const Gpu& g) const {
    std::size_t number = 0;
    for (pugi::xml_node up = g.pci; up; up = up.parent()) {
      if (std::string_view(up.name()) != "cpu") continue;
      for (pugi::xml_node before = up.previous_sibling("cpu"); before; before = before.previous_sibling("cpu"))
        ++number;
    }
    return hosts_[number].first;
  }

  Source& source_;
  const ImportOptions& options_;
  NodeDraft draft_;
  std::vector<std::pair<std::string, Bandwidth>> hosts_;
  std::vector<Gpu> gpus_;
  std::map<std::string, std::string> vertex_of_;  ///< of a bus
  std::set<std::string> buses_;
  std::size_t switches_ = 0;
};

}  // namespace

std::optional<FabricSpec> read_nccl_topology(Source& source, const ImportOptions& options) {
  return Reader(source, options).read();
}

}  // namespace orrery::importing
