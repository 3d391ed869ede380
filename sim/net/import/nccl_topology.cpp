#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <pugixml.hpp>
#include <set>

#include "core/base/units_text.hpp"
#include "sim/net/import/gpu_link_rows.hpp"

// Reads <system> of NCCL (version 1) and RCCL (1 and 2): a <cpu> for each NUMA node, <pci> inside, and <gpu> and
// <nic><net> in those. A dump has all of them. The skeletons that clouds ship have <pci> alone, and the kind of a
// device follows from its class.

namespace orrery::importing {
namespace {

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
      source_.error({1, 1}, "import.kind", "this is not a topology of NCCL", {"Its root element must be <system>."});
      return std::nullopt;
    }
    if (const std::string version = system.attribute("version").value(); version != "1" && version != "2") {
      source_.error(place(system), "import.version", "the version of this topology is not known",
                    {fmt::format("It is \"{}\"; 1 is read, and RCCL's 2.", brief(version))});
      return std::nullopt;
    }
    std::set<std::string> machines;
    for (const pugi::xml_node cpu : system.children("cpu")) {
      const std::string host = fmt::format("host{}", hosts_.size());
      hosts_.push_back({host, socket_bandwidth(cpu.attribute("arch").value(), cpu.attribute("vendor").value(),
                                               cpu.attribute("familyid").as_int(), cpu.attribute("modelid").as_int())});
      if (const std::string hash = cpu.attribute("host_hash").value(); !hash.empty()) machines.insert(hash);
      for (const pugi::xml_node child : cpu.children()) visit(child, host, 0);
    }
    if (machines.size() > 1) {
      source_.error(place(system), "import.nodes", "this dump covers several machines; only a dump of one can be read",
                    {fmt::format("Its <cpu> have {} different values of host_hash.", machines.size())});
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
    add_links(system);
    source_.note("latencies are nominal");
    if (!source_.clean()) return std::nullopt;
    return draft_.finish(source_, options_, place(system));
  }

 private:
  struct Gpu {
    std::uint64_t bus = 0;
    int number = 0;  ///< `dev`, or its place
    pugi::xml_node gpu, pci;
    std::string parent, host;
  };

  Position place(const pugi::xml_node& n) const {
    return source_.at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(n.offset_debug(), 0)));
  }

  Link pcie(const pugi::xml_node& pci) {
    int width = pci.attribute("link_width").as_int();
    if (width <= 0 || width > 32) width = 16;
    double speed = std::strtod(pci.attribute("link_speed").value(), nullptr);
    if (!(speed >= 2.0 && speed <= 256.0)) {
      speed = 8.0;
      source_.note("PCIe links of unknown speed are taken for 8 GT/s, as NCCL does");
    }
    return {LinkKind::pcie, width * lane_bandwidth(speed), pcie_latency};
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
    const PciKind kind = pci_kind_of(node.attribute("class").value());
    const std::string bus = node.attribute("busid").value();
    const std::optional<std::uint64_t> number = bus_number(bus);
    if (!number || !buses_.insert(*number).second) {
      source_.error(place(node), "import.bus",
                    !number ? "a device has no busid" : fmt::format("two devices have the busid {}", brief(bus)));
      return;
    }
    if (const pugi::xml_node gpu = node.child("gpu")) {
      if (!gpu.attribute("rank")) {
        source_.note("GPUs without a rank are left out, as NCCL does");
        return;
      }
      gpus_.push_back({*number, gpu.attribute("dev").as_int(-1), gpu, node, parent, hosts_.back().first});
    } else if (const pugi::xml_node nic = node.child("nic")) {
      nets(nic, parent, pcie(node));
    } else if (kind == PciKind::gpu) {
      gpus_.push_back({*number, -1, {}, node, parent, hosts_.back().first});
    } else if (kind == PciKind::nic) {
      if (draft_.leaves_out(options_, bus)) return;
      const std::string vertex = fmt::format("port{}", draft_.nics().size());
      draft_.nic({vertex, options_.nic, bus});
      draft_.wire(vertex, parent, pcie(node));
    } else if (kind == PciKind::bridge) {
      const std::string vertex = fmt::format("switch{}", switches_++);
      draft_.wire(vertex, parent, pcie(node));
      for (const pugi::xml_node child : node.children()) {
        if (std::string_view(child.name()) == "pcilink") {
          source_.note("links between PCIe switches (<pcilink>) are left out: no bandwidth is given");
        } else {
          visit(child, vertex, depth + 1);
        }
      }
    } else if (kind != PciKind::nvswitch) {
      source_.note(fmt::format("PCI devices of class {} are left out", brief(node.attribute("class").value())));
    }
  }

  void nets(const pugi::xml_node& nic, const std::string& parent, std::optional<Link> link) {
    for (const pugi::xml_node net : nic.children("net")) {
      if (!net.attribute("dev")) {
        source_.note("networks (<net>) without a dev are left out, as NCCL does");
        continue;
      }
      const std::string name = net.attribute("name").value();
      if (draft_.leaves_out(options_, name)) continue;
      double megabits = net.attribute("speed").as_double();
      if (!(megabits > 0.0) || megabits > 1e8) {
        megabits = 10000.0;
        source_.note("ports of unknown speed are taken for 10 Gbit/s, as NCCL does");
      }
      const Bandwidth port = Bandwidth::of(megabits * 1e6 / 8.0);
      const std::string vertex = fmt::format("port{}", draft_.nics().size());
      draft_.nic({vertex, port, name});
      draft_.wire(vertex, parent, link.value_or(Link{LinkKind::pcie, port, pcie_latency}));
    }
  }

  /// Numbers GPUs by dev, or in a skeleton by bus, as CUDA_DEVICE_ORDER=PCI_BUS_ID does.
  void number_gpus() {
    std::stable_sort(gpus_.begin(), gpus_.end(), [](const Gpu& a, const Gpu& b) {
      return std::pair(a.number, a.number < 0 ? a.bus : 0) < std::pair(b.number, b.number < 0 ? b.bus : 0);
    });
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (i > 0 && gpus_[i].number >= 0 && gpus_[i].number == gpus_[i - 1].number) {
        source_.error(place(gpus_[i].gpu), "import.device", fmt::format("two GPUs have dev {}", gpus_[i].number));
      }
      const std::string vertex = fmt::format("gpu{}", i);
      draft_.gpu(vertex);
      draft_.wire(vertex, gpus_[i].parent, pcie(gpus_[i].pci));
    }
  }

  void add_links(const pugi::xml_node& system) {
    if (std::none_of(gpus_.begin(), gpus_.end(), [](const Gpu& g) { return static_cast<bool>(g.gpu); })) {
      add_links_of_skeleton(system);
      return;
    }
    std::vector<DumpedGpu> dumped;
    bool any = false, expected = false;
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      const Gpu& g = gpus_[i];
      DumpedGpu out{draft_.gpus()[i], g.host, g.bus, links_of(g), {}};
      for (const pugi::xml_node row : g.gpu.children()) {
        if (row.type() != pugi::node_element) continue;
        const std::optional<GpuLinkRow> read = link_row(row, g, out.links);
        if (!read) return;
        out.rows.push_back(*read);
      }
      any = any || !out.rows.empty();
      expected = expected || (out.links != nullptr && out.links->kind != PeerLinks::bridge);
      dumped.push_back(std::move(out));
    }
    if (gpus_.size() > 1 && expected && !any)
      source_.note("no GPU has a row of NVLinks or xGMI links, so that PCIe alone joins them");
    wire_gpu_links(dumped, source_, draft_);
  }

  const GpuLinks* links_of(const Gpu& g) const {
    if (options_.gpu) return gpu_links_named(*options_.gpu);
    if (const std::string gcn = g.gpu.attribute("gcn").value(); !gcn.empty()) return gpu_links_of_gcn(gcn);
    if (const GpuLinks* known = gpu_links_of_device(g.pci.attribute("device").value());
        known != nullptr && known->links > 0)
      return known;
    return gpu_links_of_sm(g.gpu.attribute("sm").value());
  }

  /// Reads <nvlink>, <xgmi> or <c2c> of a GPU; empty after a mistake.
  std::optional<GpuLinkRow> link_row(const pugi::xml_node& row, const Gpu& g, const GpuLinks* links) {
    const std::string name = row.name();
    if (name == "c2c") {
      const double gigabytes = row.attribute("bw").as_double() * row.attribute("count").as_double(1.0) / 1000.0;
      if (!(gigabytes > 0.0) || gigabytes > 1e6) {
        source_.error(place(row), "import.value", "a <c2c> has no bandwidth",
                      {fmt::format("bw is \"{}\".", brief(row.attribute("bw").value()))});
        return std::nullopt;
      }
      return GpuLinkRow{PciKind::processor, {}, 0, Bandwidth::of(gigabytes * 1e9), place(row)};
    }
    if (name != "nvlink" && name != "xgmi") {
      source_.error(place(row), "import.key", fmt::format("<{}> of a GPU is not known", brief(name)),
                    {"<nvlink>, <xgmi> and <c2c> are."});
      return std::nullopt;
    }
    if (links == nullptr || links->links == 0) {
      const bool amd = static_cast<bool>(g.gpu.attribute("gcn"));
      source_.error(
          place(g.gpu), "import.gpu", "the speed of this GPU's links is not known",
          {fmt::format(
              "Its {} is \"{}\"{}", amd ? "gcn" : "sm", brief(g.gpu.attribute(amd ? "gcn" : "sm").value()),
              amd ? "." : fmt::format("; name a GPU that has such links with --gpu, one of {}.", gpu_link_names()))});
      return std::nullopt;
    }
    const int count = row.attribute("count").as_int();
    if (count < 1 || count > 36) {
      source_.error(place(row), "import.value", fmt::format("an <{}> does not say how many links it stands for", name),
                    {fmt::format("count is \"{}\"; 1 to 36 are read.", brief(row.attribute("count").value()))});
      return std::nullopt;
    }
    const std::string target = row.attribute("target").value(), target_class = row.attribute("tclass").value();
    PciKind to = pci_kind_of(target_class);
    const std::optional<std::uint64_t> bus = bus_number(target);
    // This follows NCCL, which takes a target that it cannot see for an NVSwitch.
    if (target.starts_with("fffffff")) to = PciKind::nvswitch;
    if (to == PciKind::unknown) to = bus && buses_.count(*bus) != 0 ? PciKind::gpu : PciKind::nvswitch;
    if ((to != PciKind::gpu && to != PciKind::nvswitch && to != PciKind::processor) || (to == PciKind::gpu && !bus)) {
      source_.error(place(row), "import.target", fmt::format("an <{}> leads to no GPU, NVSwitch or processor", name),
                    {fmt::format("Its target is \"{}\", its tclass \"{}\".", brief(target), brief(target_class))});
      return std::nullopt;
    }
    const auto number = static_cast<std::uint32_t>(count);
    return GpuLinkRow{to, bus, number, number * links->link, place(row)};
  }

  /// NCCL would find the NVLinks of a skeleton only when it runs.
  void add_links_of_skeleton(const pugi::xml_node& system) {
    if (gpus_.empty()) return;
    const GpuLinks* named = options_.gpu ? gpu_links_named(*options_.gpu)
                                         : gpu_links_of_device(gpus_.front().pci.attribute("device").value());
    if (named == nullptr) {
      source_.error(place(system), "import.gpu", "this file has only PCI devices, not the NVLinks of its GPUs",
                    {fmt::format("Name the GPU with --gpu, one of {}.", gpu_link_names())});
      return;
    }
    const GpuLinks& links = *named;
    if (!options_.gpu) source_.note(fmt::format("the GPUs are {} by their PCI device", links.name));
    if (links.kind == PeerLinks::none) return;
    if (links.kind != PeerLinks::switched) {
      source_.error(place(system), "import.gpu",
                    fmt::format("machines with {} GPUs differ in how NVLinks join them", links.name),
                    {"Import a dump (NCCL_TOPO_DUMP_FILE) or `nvidia-smi topo -m`; models/fabric has a DGX-1V."});
      return;
    }
    for (const std::string& g : draft_.gpus()) {
      draft_.wire(g, "nvswitch", {LinkKind::nvlink, links.links * links.link, nvlink_latency});
    }
    source_.note(fmt::format("the {} NVLinks of each {} lead to NVSwitches", links.links, links.name));
  }

  Source& source_;
  const ImportOptions& options_;
  NodeDraft draft_;
  std::vector<std::pair<std::string, Bandwidth>> hosts_;
  std::vector<Gpu> gpus_;
  std::set<std::uint64_t> buses_;
  std::size_t switches_ = 0;
};

}  // namespace

std::optional<FabricSpec> read_nccl_topology(Source& source, const ImportOptions& options) {
  return Reader(source, options).read();
}

}  // namespace orrery::importing
