#include "validate/run_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "validate/cell_words.hpp"

namespace orrery {
namespace {

struct Known {
  std::string_view gpu;
  std::uint64_t memory;      ///< GB as labelled; 0: any
  std::string_view device;   ///< shipped
  std::string_view cluster;  ///< shipped
};
/// The first match counts.
constexpr std::array<Known, 10> machines = {{{"v100", 0, "v100", "dgx-1v"},
                                             {"a100", 40, "a100-40", "dgx-a100"},
                                             {"a100", 0, "a100-80", "dgx-a100"},
                                             {"h100", 96, "h100-96", "dgx-h100"},
                                             {"h100", 0, "h100", "dgx-h100"},
                                             {"h200", 0, "h200", "dgx-h100"},
                                             {"b200", 0, "b200", "dgx-b200"},
                                             {"b300", 0, "b300", "dgx-b200"},
                                             {"gb200", 0, "gb200", "gb200-nvl72"},
                                             {"gb300", 0, "gb300", "gb200-nvl72"}}};

/// Whether the text is a memory size of such a part: "96gb", "80 gb".
bool is_memory(std::string_view text) {
  if (!text.ends_with("gb")) return false;
  text.remove_suffix(2);
  if (text.ends_with(' ')) text.remove_suffix(1);
  return number_of_word(text) > 0;
}

/// Reads "H100-SXM", "NVIDIA H100 80GB SXM5", "A100 (PCIe-connected)". Cards for PCIe are other devices than modules.
const Known* known(const MeasuredRun& run) {
  CellWords words(run.gpu, "-");
  words.take("nvidia");
  const std::string name(words.next());
  words.take(name);
  while (words.take_if([](std::string_view w) {
    return w == "sxm" || (w.size() == 4 && w.starts_with("sxm")) || w == "hgx" || w == "dgx" || is_memory(w);
  })) {
  }
  words.take_remarks([](std::string_view r) {
    return is_memory(r) || r == "pcie-connected" || r == "dgx2-h" || r == "source label; prose says b200" ||
           r == "96gb hbm2e, 2.4 tb/s, 500w grand teton";
  });
  if (!words.done()) return nullptr;
  for (const Known& k : machines) {
    if (name == k.gpu && (k.memory == 0 || run.gpu_mem_gb == k.memory)) return &k;
  }
  return nullptr;
}

/// The number that `text` begins with, which is removed from it.
std::optional<double> leading_number(std::string_view& text) {
  double value = 0.0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || !(value > 0.0)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// The links between the GPUs of a node.
struct NodeLinks {
  bool pcie = false;
  std::optional<Bandwidth> at_most;  ///< each way
};
/// Reads "PCIe", or NVLink with what it leads to: "NVLink4 NVSwitch", "NVLink5 NVL72 rack domain", "NVLink3 (4 links
/// inter-GPU)" of 25 GB/s each way (50 from the fifth generation on), "NVLink4 900 GB/s" both ways together.
std::optional<NodeLinks> node_links(std::string_view cell) {
  CellWords words(cell);
  NodeLinks out;
  static constexpr std::array generations = {"nvlink", "nvlink2", "nvlink3", "nvlink4", "nvlink5"};
  const bool fifth = words.next() == "nvlink5";
  if (words.take("pcie")) {
    out.pcie = true;
    return words.done() ? std::optional(out) : std::nullopt;
  }
  if (!words.take_if([](std::string_view w) {
        return std::find(generations.begin(), generations.end(), w) != generations.end();
      })) {
    return std::nullopt;
  }
  if (words.take("fully")) {
    if (!words.take("connected")) return std::nullopt;
  } else if (words.take("hybrid")) {
    if (!words.take("cube") || !words.take("mesh")) return std::nullopt;
  } else if (words.take("nvl72")) {
    if (words.take("rack") && !words.take("domain")) return std::nullopt;
  } else if (!words.take("nvswitch")) {
    std::string_view number = words.next();
    if (const std::optional<double> both = leading_number(number); both && number.empty()) {
      words.take(words.next());
      if (!words.take("gb/s")) return std::nullopt;
      out.at_most = Bandwidth::of(*both * 1e9 / 2.0);
    }
  }
  words.take_remarks([&](std::string_view r) {
    if (const std::optional<double> links = leading_number(r)) {
      if (r != " links" && r != " links inter-gpu") return false;
      out.at_most = *links * Bandwidth::of(fifth ? 50e9 : 25e9);
      return true;
    }
    return r == "nvl72" || r == "dgx a100" || r == "dgx2-h" || r == "some pairs via pcie/sys";
  });
  return words.done() ? std::optional(out) : std::nullopt;
}

/// Whether a remark on a network only names its place, and nothing that would change its bandwidth.
bool names_place(std::string_view remark) {
  for (const std::string_view change : {"subscri", "block", "shar", "taper", "half", "limit", "only", ":", "%"}) {
    if (remark.find(change) != std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

std::optional<Bandwidth> network_share(const std::string& text, std::uint32_t per_node) {
  std::string_view rest = text;
  const std::optional<double> first = leading_number(rest);
  if (!first) return std::nullopt;
  double ports = 1.0;
  double rate = *first;
  if (rest.starts_with("x")) {
    rest.remove_prefix(1);
    const std::optional<double> each_port = leading_number(rest);
    if (!each_port) return std::nullopt;
    ports = *first;
    rate = *each_port;
  }
  CellWords words(rest);
  if (!words.take("gb/s")) return std::nullopt;
  const auto technology = [&] {
    while (words.take_if([](std::string_view w) {
      constexpr std::array known = {"edr",  "hdr",  "ndr", "xdr",      "infiniband",
                                    "roce", "rdma", "efa", "ethernet", "omni-path"};
      return std::find(known.begin(), known.end(), w) != known.end();
    })) {
    }
  };
  technology();
  bool each = false;
  if (words.take("per")) {
    each = words.take("gpu");
    if (!each && !words.take("node")) return std::nullopt;
  } else if (!words.take("node-node")) {
    return std::nullopt;
  }
  technology();
  words.take_remarks(names_place);
  if (!words.done()) return std::nullopt;
  return Bandwidth::of(ports * rate * 1e9 / 8.0 / (each ? 1.0 : per_node));
}

RunCluster run_cluster(const MeasuredRun& run, const Library& library) {
  RunCluster out;
  const Known* at = known(run);
  if (at == nullptr || !run.gpus) {
    out.reason = run.gpus ? fmt::format("no device file is for the GPU \"{}\"", run.gpu) : "not published: gpus";
    return out;
  }
  Diagnostics d;
  std::optional<ClusterSpec> cluster = library.cluster(std::string(at->cluster), ".", std::nullopt, d);
  const std::optional<DeviceSpec> device = library.device(std::string(at->device), d);
  if (!cluster || !device) throw Error("the data directory lacks a device or cluster of the table\n" + render(d));
  cluster->device = *device;
  if (run.gpu_mem_gb) cluster->device.memory = static_cast<double>(*run.gpu_mem_gb) * gibibyte;
  // A rack of trays has levels inside. The other machines are boxes, which may have fewer GPUs than the shipped one.
  if (run.gpus_per_node && cluster->levels.size() == 2) {
    cluster->devices_per_node = static_cast<std::uint32_t>(*run.gpus_per_node);
    cluster->levels.front().size = cluster->devices_per_node;
  }
  if (!run.gpus_per_node && cluster->levels.size() == 2 && *run.gpus > 1) out.filled.emplace_back("gpus_per_node");
  Bandwidth& inside_node = cluster->levels.front().bandwidth;
  if (run.intra_link.empty()) {
    if (*run.gpus > 1) out.filled.emplace_back("intra_link");
  } else if (const auto links = node_links(run.intra_link)) {
    if (links->pcie) inside_node = cluster->host_link.value_or(inside_node);
    if (links->at_most) inside_node = std::min(inside_node, *links->at_most);
  } else {
    out.reason = fmt::format("the links \"{}\" of a node are not understood", run.intra_link);
    return out;
  }
  std::uint64_t inside = 1;  // GPUs that reach each other without the outermost network
  for (std::size_t l = 0; l + 1 < cluster->levels.size(); ++l) inside *= cluster->levels[l].size;
  if (!run.inter_net.empty()) {
    const auto share = network_share(run.inter_net, cluster->devices_per_node);
    if (!share) {
      out.reason = fmt::format("the network \"{}\" is not understood", run.inter_net);
      return out;
    }
    cluster->levels.back().bandwidth = *share;
  } else if (*run.gpus > inside) {
    out.filled.emplace_back("inter_net");
  }
  out.cluster = resized(std::move(*cluster), static_cast<std::uint32_t>(*run.gpus), d);
  if (!out.cluster) out.reason = d.list().front().message;
  return out;
}

}  // namespace orrery
