#pragma once

#include <cstdint>
#include <span>

#include "core/base/dtype.hpp"
#include "core/base/ids.hpp"
#include "core/plan/mesh.hpp"
#include "core/program/buffer.hpp"
#include "core/program/kernel.hpp"
#include "core/program/program.hpp"
#include "core/program/shard.hpp"
#include "core/spec/workload.hpp"
#include "exec/kernels/routing_counts.hpp"
#include "exec/kernels/scratch.hpp"

namespace orrery {

class DataSource;

/// Where an operand lies in its global tensor. Only kernels for which `needs_place` is true look at it: their results
/// depend on the rank.
struct Place {
  const Shard* shard = nullptr;           ///< null: the operand is the whole tensor
  Box box;                                ///< of the shard, on this rank and microbatch
  std::uint64_t first = 0;                ///< element of the box at which the operand begins
  const ParameterTable* table = nullptr;  ///< of a parameter's weights, gradients and states
  AxisList flat_split;                    ///< with table: cut of every segment of it
  std::uint64_t flat_first = 0;           ///< with table: element of the rank's buffer at which the operand begins
  std::uint32_t layer = 0;                ///< with table: which layer the instance belongs to
};

/// One operand in memory. Elements are contiguous. Types may differ inside one kernel (bf16 factors, f32 sum).
/// Arithmetic is in f64 where the kernel's compute type is f64, otherwise in f32, and results are rounded on the way
/// out (nearest, ties to even).
struct Operand {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::uint64_t count = 0;
  bool accumulate = false;  ///< the op's view accumulates (gemm: C += instead of C =)
  Place place;
};

/// What a kernel may depend on besides its operands.
struct KernelContext {
  std::uint64_t step = 1;  ///< step of the data and the dropout key; counts from 1
  std::uint32_t layer = 0;
  std::uint32_t microbatch = 0;
  Rank rank{};
  const Mesh* mesh = nullptr;           ///< initialize, count_targets, trust ratios, Adafactor
  const Workload* workload = nullptr;   ///< hyperparameters and seed: optimizer, dropout, initialize, data
  const DataSource* data = nullptr;     ///< load_tokens, load_targets, count_targets
  KernelScratch* scratch = nullptr;     ///< always; one per thread
  std::span<const Rotation> rotations;  ///< of the Program: rope, latent heads
  RoutingCounts* routing = nullptr;     ///< route_choices: what it does is counted here, unless null
  /// route_choices on a device, in its memory: choices of each expert, then those kept of each, are added to; or null.
  std::uint64_t* routing_there = nullptr;
};

/// Whether the kernel looks at Operand::place.
[[nodiscard]] bool needs_place(const Kernel&);

/// Runs one kernel on this thread.  Operands stand in the order of the kernel's
/// row in core/program/kernel_table.cpp.  The result depends on the operands and the context alone, never
/// on other threads.  Fields of the context that the kind does not name above
/// may be null.
void run_kernel(const Kernel&, std::span<const Operand>, const KernelContext&);

}  // namespace orrery
