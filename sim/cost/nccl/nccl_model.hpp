#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/units.hpp"
#include "sim/cost/nccl/nccl_graph.hpp"
#include "sim/cost/nccl/nccl_tables.hpp"

namespace orrery {

/// Collectives that NCCL tunes; it makes all others of sends and receives.
enum class NcclCollective : std::uint8_t { broadcast, reduce, all_gather, reduce_scatter, all_reduce };
[[nodiscard]] std::string_view name_of(NcclCollective);

/// An algorithm and a protocol with their cost by NCCL's model.
struct NcclWay {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::simple;
  Seconds latency;
  Bandwidth bandwidth;  ///< bytes of the whole vector in a second
  friend bool operator==(const NcclWay&, const NcclWay&) = default;
};

/// Algorithms that must not be taken, by NcclAlgorithm.
using NcclExcluded = std::array<bool, nccl_algorithm_count>;
[[nodiscard]] NcclExcluded all_but(NcclAlgorithm);

/// Every algorithm and protocol that a group can take, in the order of their enumerators.
///
///     bandwidth  B = c w, w within nodes for up to two nodes and CollNet, between them else
///       Ring           LL min(M, B / 2)   LL128 min(0.92 B, c r)   Simple B,   times p / s
///       Tree           T = min(0.92 B, c m):  LL min(T / 3.8, M)   LL128 min(7/9 T, c r), 120/128 T between nodes
///       Simple T,
///                      times 1/2
///       NVLS, NVLSTree c min(e w (c - 1) / c x, b y, z),  times p / s (all-gather, reduce-scatter: 1)
///       CollNetDirect  c w / ((f + 1) / 2), f = g / c, 0.85 of it since Hopper, times 1/2;  all-gather,
///       reduce-scatter: g min(w, 0.9 b) CollNetChain   c w / 2     PAT  0.75 B
///     latency    a + steps inside i + steps between (h + o)
///       Ring           s - k inside, k between; broadcast, reduce: one step
///       Tree           2 (g - 1) inside, 2 floor(log2 N) between     NVLSTree  1 and 2 floor(log2 N)     NVLS  1 and 1
///       CollNetDirect  2 (min(1, g - 1) i + 0.4 us (g - 1)) + one between     CollNetChain  2 (g - 1) and 1
///       PAT            floor(log2 N) / 3.5 between, 2.8 us p
///
///     c, w, b  channels, GB/s of one inside and between nodes     M, r, m, z  most of LL, a channel's most (tables)
///     p, N, g  ranks, nodes, ranks of a node     s  steps: 2 (p - 1) all-reduce, p - 1 all-gather and reduce-scatter,
///     p else k  steps of s between nodes: 2 (N - 1), N - 1     a, i, h  base latency, of a step inside, between
///     (tables) e  NVLS's efficiency     x  2 for all-reduce, (g - 1) / g else     y  2 for NVLSTree on two nodes, else
///     1 o  the network's own latency, twice for Simple; 0 here
///
/// On one node b limits no NVLS: with it NCCL would not take NVLS for 5 to 7 GPUs, as it was seen to.  In its place an
/// all-reduce there moves at most 0.735 of what NCCL counts of a device's links (most_nvls_share).
/// Source: NVIDIA, NCCL 2.28.9, src/graph/tuning.cc, ncclTopoTuneModel.  Leaves out hosts with AMD's and other
/// processors, PCIe inside a node, tuner plugins, and fp8, for which rings of more than 8 are not taken.
[[nodiscard]] std::vector<NcclWay> nccl_ways(NcclCollective, const NcclTopology&);

/// Time of one way.
///
///     T = l q + n / (B f)
///
///     l, B  latency and bandwidth     n  bytes of the whole vector     f  tree_correction for a tree's all-reduce,
///     else 1 q     1.4 (1.9 before Hopper) for an all-reduce by Ring, Simple, between nodes, from n = 64 c p on, else
///     1; c channels
///
/// Grows with n.  Source: as nccl_ways, ncclTopoGetAlgoTime.
[[nodiscard]] Seconds nccl_time(NcclCollective, const NcclTopology&, const NcclWay&, Bytes whole);

/// NCCL's choice: the way of least time, and the first among equals. Ring always exists unless it is excluded; the
/// choice is empty where everything is.
struct NcclChoice {
  NcclWay way;
  Seconds time;
  Seconds moving;  ///< part of it that more bandwidth would shorten
  friend bool operator==(const NcclChoice&, const NcclChoice&) = default;
};
[[nodiscard]] std::optional<NcclChoice> nccl_choice(NcclCollective, const NcclTopology&, Bytes whole,
                                                    const NcclExcluded& = {});

}  // namespace orrery
