#include "sim/cost/nccl/nccl_tables.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {

std::string_view name_of(NcclAlgorithm a) {
  constexpr std::array<std::string_view, nccl_algorithm_count> names{
      "Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
  return names[static_cast<std::size_t>(a)];
}

std::string_view name_of(NcclProtocol p) {
  constexpr std::array<std::string_view, nccl_protocol_count> names{"LL", "LL128", "Simple"};
  return names[static_cast<std::size_t>(p)];
}

namespace nccl_tables {
namespace {

/// LL, LL128, Simple.
using Protocols = std::array<double, nccl_protocol_count>;
/// In the order of NcclAlgorithm.
using Algorithms = std::array<Protocols, nccl_algorithm_count>;
/// One node, two, more.
using ByNodes = std::array<double, 3>;
/// In the order of GpuGeneration.
using Generations = std::array<ByNodes, 4>;

constexpr Protocols none{0, 0, 0};
constexpr Protocols simple(double t) { return {0, 0, t}; }

constexpr Algorithms base{{{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, none, none, none, none, {8.0, 8.0, 8.0}}};
constexpr Algorithms nvlink{
    {{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, simple(3.7), simple(2.8), simple(25.0), simple(25.0), simple(4.0)}};
constexpr Algorithms pci{{{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, simple(3.7), simple(2.8), none, none, simple(4.0)}};
constexpr Algorithms network{
    {{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}, simple(31.0), simple(30.0), simple(18.0), simple(20.9), simple(14.0)}};

constexpr Generations ll{{{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
constexpr Generations ring_ll128{{{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}}};
constexpr Generations tree_ll128{{{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
constexpr Generations tree{{{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
constexpr Generations nvls_tree{{{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 43.8}}};

/// 64 B, 128 B, ... 256 MiB.
constexpr std::size_t corrections = 23;
constexpr std::array<std::array<double, corrections>, nccl_protocol_count> correction{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

std::size_t at(NcclAlgorithm a) { return static_cast<std::size_t>(a); }
std::size_t at(NcclProtocol p) { return static_cast<std::size_t>(p); }
double of(const Generations& table, GpuGeneration g, std::uint32_t nodes) {
  return table[static_cast<std::size_t>(g)][std::min<std::uint32_t>(nodes, 3) - 1];
}

}  // namespace

double base_latency(NcclAlgorithm a, NcclProtocol p) { return base[at(a)][at(p)]; }

double link_latency(NcclLink link, NcclAlgorithm a, NcclProtocol p) {
  switch (link) {
    case NcclLink::nvlink: return nvlink[at(a)][at(p)];
    case NcclLink::pci: return pci[at(a)][at(p)];
    case NcclLink::network: return network[at(a)][at(p)];
  }
  return 0.0;
}

// Between nodes the first row, for Intel hosts, stands for every GPU.
double most_ll(GpuGeneration g, std::uint32_t nodes) { return of(ll, nodes == 1 ? g : GpuGeneration::volta, nodes); }
double most_ring_ll128(GpuGeneration g, std::uint32_t nodes) { return of(ring_ll128, g, nodes); }
double most_tree_ll128(GpuGeneration g, std::uint32_t nodes) { return of(tree_ll128, g, nodes); }
double most_tree(GpuGeneration g, std::uint32_t nodes) { return of(tree, g, nodes); }
double most_nvls_tree(GpuGeneration g, std::uint32_t nodes) { return of(nvls_tree, g, nodes); }

double nvls_efficiency(GpuGeneration g) {
  switch (g) {
    case GpuGeneration::volta:
    case GpuGeneration::ampere: return 0.0;
    case GpuGeneration::hopper: return 0.85;
    case GpuGeneration::blackwell: return 0.74;
  }
  return 0.0;
}

double tree_correction(NcclProtocol p, double bytes) {
  const auto& of_protocol = correction[at(p)];
  if (bytes <= 64.0) return bytes < 64.0 ? 1.0 : of_protocol[0];
  const double place = std::log2(bytes / 64.0);
  const double below = std::floor(place);
  const auto k = static_cast<std::size_t>(below);
  // There is no correction after the last power of two, and the table does not blend into one.
  if (k >= corrections) return 1.0;
  const double next = k + 1 < corrections ? of_protocol[k + 1] : 1.0;
  return of_protocol[k] + (place - below) * (next - of_protocol[k]);
}

std::span<const double> speeds_inside(GpuGeneration g) {
  static constexpr std::array<double, 7> older{40, 30, 20, 15, 12, 6, 3};
  static constexpr std::array<double, 11> hopper{60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
  static constexpr std::array<double, 12> blackwell{90, 80, 60, 50, 40, 30, 24, 20, 15, 12, 6, 3};
  switch (g) {
    case GpuGeneration::volta:
    case GpuGeneration::ampere: return older;
    case GpuGeneration::hopper: return hopper;
    case GpuGeneration::blackwell: return blackwell;
  }
  return older;
}

std::span<const double> speeds_between() {
  static constexpr std::array<double, 14> speeds{48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 1.2};
  return speeds;
}

double nvlink_share(GpuGeneration g) {
  switch (g) {
    case GpuGeneration::volta:
    case GpuGeneration::ampere: return 20.0 / 25.0;
    case GpuGeneration::hopper: return 20.6 / 25.0;
    case GpuGeneration::blackwell: return 40.1 / 50.0;
  }
  return 1.0;
}

}  // namespace nccl_tables
}  // namespace orrery
