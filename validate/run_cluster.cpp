#include "validate/run_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace orrery {
namespace {

struct Known {
  std::string_view gpu;      ///< the cell begins with it
  std::uint64_t memory;      ///< GB as labelled; 0: any
  std::string_view device;   ///< shipped
  std::string_view cluster;  ///< shipped
};
/// First match counts.
constexpr std::array<Known, 10> machines = {{{"V100", 0, "v100", "dgx-1v"},
                                             {"A100", 40, "a100-40", "dgx-a100"},
                                             {"A100", 0, "a100-80", "dgx-a100"},
                                             {"H100", 96, "h100-96", "dgx-h100"},
                                             {"H100", 0, "h100", "dgx-h100"},
                                             {"H200", 0, "h200", "dgx-h100"},
                                             {"B200", 0, "b200", "dgx-b200"},
                                             {"B300", 0, "b300", "dgx-b200"},
                                             {"GB200", 0, "gb200", "gb200-nvl72"},
                                             {"GB300", 0, "gb300", "gb200-nvl72"}}};

const Known* known(const MeasuredRun& run) {
  for (const Known& k : machines) {
    if (run.gpu.starts_with(k.gpu) && (k.memory == 0 || run.gpu_mem_gb == k.memory)) return &k;
  }
  return nullptr;
}

/// The number that `text` begins with, taken off it.
std::optional<double> leading_number(std::string_view& text) {
  double value = 0.0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || !(value > 0.0)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// "NVLink3 (4 links inter-GPU)": so many links of a GPU, 25 GB/s each way.
std::optional<Bandwidth> links_between(std::string_view text) {
  constexpr std::string_view begin = "NVLink3 (";
  if (!text.starts_with(begin)) return std::nullopt;
  text.remove_prefix(begin.size());
  const std::optional<double> links = leading_number(text);
  if (!links || !text.starts_with(" links")) return std::nullopt;
  return *links * Bandwidth::of(25e9);
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
  if (rest.starts_with(" ")) rest.remove_prefix(1);
  if (!rest.starts_with("Gb/s")) return std::nullopt;
  const bool each = rest.find("per GPU") != std::string_view::npos;
  const bool node = rest.find("per node") != std::string_view::npos || rest.find("node-node") != std::string_view::npos;
  if (each == node) return std::nullopt;
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
  // A rack of trays has levels inside; the others are boxes, which may have fewer GPUs than the shipped one.
  if (run.gpus_per_node && cluster->levels.size() == 2) {
    cluster->devices_per_node = static_cast<std::uint32_t>(*run.gpus_per_node);
    cluster->levels.front().size = cluster->devices_per_node;
  }
  if (!run.gpus_per_node && cluster->levels.size() == 2 && *run.gpus > 1) out.filled.emplace_back("gpus_per_node");
  if (run.intra_link.starts_with("PCIe")) {
    cluster->levels.front().bandwidth = cluster->host_link.value_or(cluster->levels.front().bandwidth);
  } else if (const auto links = links_between(run.intra_link)) {
    cluster->levels.front().bandwidth = std::min(cluster->levels.front().bandwidth, *links);
  } else if (run.intra_link.empty() && *run.gpus > 1) {
    out.filled.emplace_back("intra_link");
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
