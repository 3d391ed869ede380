#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"
#include "core/plan/plan.hpp"
#include "core/program/kernel.hpp"
#include "core/record/software_costs.hpp"

namespace orrery {

/// Positive values on a grid of one to three sizes.
///
/// Between grid points a value is interpolated linearly in the logarithms of sizes and value (a power law between
/// neighbours). Outside the grid it keeps the value of the border, so a rate stays a rate.
struct RateTable {
  std::vector<std::vector<double>> axes;  ///< each strictly increasing, all > 0
  std::vector<double> values;             ///< row-major over the axes, all > 0
  friend bool operator==(const RateTable&, const RateTable&) = default;
};

/// The value at (x) or (x, y) or (x, y, z); sizes below 1 count as 1.
/// Requires a table with as many axes as sizes.
[[nodiscard]] double interpolate(const RateTable&, double x);
[[nodiscard]] double interpolate(const RateTable&, double x, double y);
[[nodiscard]] double interpolate(const RateTable&, double x, double y, double z);

/// Output tile of one thread block, and how close a kernel built on it comes to
/// the peak when tiles, waves and depth fill it.
struct GemmTile {
  std::uint32_t rows = 1;
  std::uint32_t columns = 1;
  double efficiency = 1.0;  ///< of the datasheet peak
  friend bool operator==(const GemmTile&, const GemmTile&) = default;
};

/// How a device's matrix product falls short of its peak.
struct GemmEfficiency {
  DType compute = DType::bf16;
  std::uint32_t units = 1;      ///< tiles in flight: streaming multiprocessors
  double depth_half = 0.0;      ///< K0: depth at which start and end of a tile halve the rate
  std::vector<GemmTile> tiles;  ///< the library takes the best for the shape; at least one
  friend bool operator==(const GemmEfficiency&, const GemmEfficiency&) = default;
};

/// How flash attention falls short of the matrix peak, on executed flops:
///
///     e = e0 * d / (d + D) * s / (s + S)      (the last factor under a causal mask alone)
///
///     d, s  head width, keys of a sequence     e0  efficiency when both are long
///     D     width at which the softmax takes as long as the products
///     S     length at which tiles cut by the mask take as long as whole ones
struct AttentionEfficiency {
  DType compute = DType::bf16;
  double forward_efficiency = 1.0;  ///< e0
  double backward_efficiency = 1.0;
  double head_half = 0.0;      ///< D
  double sequence_half = 0.0;  ///< S
  friend bool operator==(const AttentionEfficiency&, const AttentionEfficiency&) = default;
};

/// Measured rate of one kind of kernel.
///   gemm       flop/s over rows, columns, depth; one table per transposition
///   attention  executed flop/s over sequence length, head size
///   others     moved bytes/s over moved bytes (memory_traffic)
struct KernelRate {
  KernelKind kind = KernelKind::gemm;
  DType compute = DType::f32;
  bool transpose_a = false;
  bool transpose_b = false;
  bool dropout = false;  ///< of kernels with KernelOptions::dropout
  RateTable rate;
  friend bool operator==(const KernelRate&, const KernelRate&) = default;
};

/// Messages between two ranks of one process or node, where they were measured. Otherwise the network levels of the
/// cluster stand in their place.
struct MessageRate {
  Seconds latency;         ///< latency of one step of a collective among ranks that arrive together
  Seconds latency_shared;  ///< the same with more ranks than cores
  Seconds wake;            ///< latency of a message whose receiver has long been waiting, as between pipeline stages
  RateTable send;          ///< bytes/s of one message over its bytes, latency apart
  RateTable copy;          ///< the same for a step in which every rank sends and receives
  RateTable add;           ///< the same for a step that also adds what comes in
  friend bool operator==(const MessageRate&, const MessageRate&) = default;
};

/// Generations of NVIDIA's devices. NCCL's tuning tables differ between them.
enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell };

/// How long collectives take over one kind of link, given what NCCL's own tuning model says they take:
///
///     T(t) = max(floor, stretch t + fill (1 - exp(-t / fill_time)))
///
///     t     time by NCCL's model     floor      one launch after the other, however few the bytes
///     fill  what pipelines lose while they are short, all of it from times of some `fill_time` on
///
/// T grows with t, and T / t does not. So among two algorithms NCCL's choice stays the faster one, no collective gets
/// cheaper with more bytes, and parts never cost less than the whole.
struct LinkCurve {
  Seconds floor;
  double stretch = 1.0;
  Seconds fill;
  Seconds fill_time;
  double pairs = 1.0;  ///< factor of the time of bytes sent from one device to another: messages, all-to-alls
  friend bool operator==(const LinkCurve&, const LinkCurve&) = default;
};

/// Constants for collectives by NCCL's tuning model (sim/cost/nccl), on devices that NVLink and switches join.
struct NcclConstants {
  GpuGeneration generation = GpuGeneration::hopper;
  LinkCurve node;     ///< groups whose members NVLink joins
  LinkCurve network;  ///< all others
  friend bool operator==(const NcclConstants&, const NcclConstants&) = default;
};

/// What a training process holds of one kind of device beside its tensors.
struct ProcessMemory {
  Bytes context;       ///< CUDA context and loaded kernels
  Bytes communicator;  ///< buffers of one communicator of the process (one for each group of ranks it is in)
  Bytes workspace;     ///< of the matrix product library, taken from the caching allocator
  std::string source;
  friend bool operator==(const ProcessMemory&, const ProcessMemory&) = default;
};

/// A node's disk as it was measured; replaces the figures of the cluster's file.
struct DiskRate {
  Bandwidth read, write;  ///< of one node
  Seconds latency;        ///< of one copy, before its first byte
  friend bool operator==(const DiskRate&, const DiskRate&) = default;
};

/// Constants that turn a Program's work into time on one kind of device. `orrery calibrate` measures them, or they are
/// shipped under models/calibration.
///
/// Measured rates win; where a kernel has none, the roofline with the
/// efficiencies below is used.  All efficiencies lie in (0, 1].
struct Calibration {
  std::string name;
  std::string device;   ///< DeviceSpec::name it belongs to
  std::string machine;  ///< what it was measured on; empty for shipped constants
  std::string date;     ///< ISO date of the measurement or of the sources
  std::string source;
  double spread = 0.0;  ///< relative: median over points of (upper - lower quartile) / median; 0 when not measured

  std::vector<GemmEfficiency> gemm;            ///< at most one per type
  std::vector<AttentionEfficiency> attention;  ///< at most one per type
  double memory_efficiency = 1.0;              ///< of the memory bandwidth, elementwise kernels
  Seconds launch;                              ///< gap before every kernel, measured ones too

  std::vector<double> level_efficiency;  ///< of each network level's bandwidth; the last counts for further levels
  Seconds collective_launch;             ///< once per collective
  std::vector<CollectiveAlgorithm> algorithms;  ///< offered by the library, in order of preference; empty: all
  std::optional<NcclConstants> nccl;            ///< in place of collective_launch and algorithms where NVLink is
  std::optional<Bandwidth> host_bandwidth;      ///< copies between device and host

  std::optional<DiskRate> disk;  ///< where the cluster has one

  std::vector<KernelRate> kernels;
  std::optional<MessageRate> messages;
  std::uint32_t cores = 0;             ///< number on the measured machine, shared by its CPU ranks; 0: as the device
                                       ///< says
  double busy_compute_slowdown = 1.0;  ///< >= 1: time of matrix products with all cores busy over time alone
  double busy_memory_slowdown = 1.0;   ///< >= 1: the same for all other kernels
  SoftwareCosts software;              ///< of the program that trains
  std::optional<ProcessMemory> memory;
  std::vector<Calibration> others{};  ///< one for each entry of ClusterSpec::other_nodes, for its devices; in no file
  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// Bytes that a kernel really moves, given the size of all views it names.
///
/// Most kernels move their views once: `touched`. Lookups read only the rows they look up, not the whole table. Unfused
/// attention passes its s x s matrices through memory between its products, the softmax and the dropout. Beyond the
/// views an element of the matrix is read or written 3 times forward (4 with dropout) and 5 times backward (6 with
/// dropout).
///
/// Source: counted from the kernels' steps: scores written, softmax (read,
/// write), dropout (read, write, mask), product (read); backward likewise.
[[nodiscard]] Bytes memory_traffic(const Kernel&, Bytes touched);

}  // namespace orrery
