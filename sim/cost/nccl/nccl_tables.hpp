#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/units.hpp"
#include "core/record/calibration.hpp"

namespace orrery {

/// How NCCL can move a collective.  CollNet reduces in the network's switches (SHARP), NVLS in NVLink's.
enum class NcclAlgorithm : std::uint8_t { tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree, pat };
inline constexpr std::size_t nccl_algorithm_count = 7;
[[nodiscard]] std::string_view name_of(NcclAlgorithm);

/// LL has 4 bytes of data beside each 4 of flag; LL128 has 120 of 128; simple sends whole chunks behind a fence.
enum class NcclProtocol : std::uint8_t { ll, ll128, simple };
inline constexpr std::size_t nccl_protocol_count = 3;
[[nodiscard]] std::string_view name_of(NcclProtocol);

/// The medium of a hop.
enum class NcclLink : std::uint8_t { nvlink, pci, network };

/// Constants of NCCL's tuning model, as of version 2.28.9.
///
/// Latencies in microseconds, bandwidths in GB/s of one channel unless a name says otherwise; `nodes` counts domains
/// that NVLink joins, and tables for nodes have columns for one, two and more. Source: NVIDIA, NCCL 2.28.9,
/// src/graph/tuning.cc, tables at its top.
namespace nccl_tables {

/// Latency of a call before its first step.
[[nodiscard]] double base_latency(NcclAlgorithm, NcclProtocol);
/// Latency of one step over a link; 0 where an algorithm does not use it.
[[nodiscard]] double link_latency(NcclLink, NcclAlgorithm, NcclProtocol);
/// Latency of the host's part in a step between nodes.
inline constexpr double network_overhead = 1.0;
/// The highest rate of the LL protocol, over all channels together.
[[nodiscard]] double most_ll(GpuGeneration, std::uint32_t nodes);
/// Highest rate of a channel.
[[nodiscard]] double most_ring_ll128(GpuGeneration, std::uint32_t nodes);
[[nodiscard]] double most_tree_ll128(GpuGeneration, std::uint32_t nodes);
[[nodiscard]] double most_tree(GpuGeneration, std::uint32_t nodes);
[[nodiscard]] double most_nvls_tree(GpuGeneration, std::uint32_t nodes);
/// Share of a link that reductions inside NVLink's switches reach; 0: the switches cannot reduce.
[[nodiscard]] double nvls_efficiency(GpuGeneration);
/// Share of its bandwidth that a tree's all-reduce of so many bytes reaches. NCCL has a value for each power of two
/// from 64 B to 256 MiB and keeps it up to the next. Here the value moves to the next one in proportion to the
/// logarithm of the size, so that time does not fall where bytes grow.
[[nodiscard]] double tree_correction(NcclProtocol, double bytes);
/// Rates that the search for channels tries, the largest first.
[[nodiscard]] std::span<const double> speeds_inside(GpuGeneration);
[[nodiscard]] std::span<const double> speeds_between();
/// Bytes of a vector that NVLS reduces in a second, as a share of what NCCL counts of a device's links. This is not
/// NCCL's figure but what 5 to 8 GPUs were measured to reach on Hopper and Blackwell alike
/// (traces/measured/collectives.csv).
inline constexpr double most_nvls_share = 0.735;
/// The share of an NVLink of 25 GB/s (50 GB/s since Blackwell) that NCCL counts.
[[nodiscard]] double nvlink_share(GpuGeneration);

}  // namespace nccl_tables
}  // namespace orrery
