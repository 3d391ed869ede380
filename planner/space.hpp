#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// One value of the dimension "attention and recomputation".  Selective
/// recomputation drops the scores, which the flash kernel never keeps, so that
/// pair is not in the space.
struct KernelChoice {
  AttentionKernel attention = AttentionKernel::flash;
  Recompute recompute = Recompute::none;
  friend bool operator==(const KernelChoice&, const KernelChoice&) = default;
};

/// One value of the dimensions "schedule, sharding and overlap", in which
/// choices that make no difference on a mesh are listed once.
struct RunChoice {
  ScheduleName schedule = ScheduleName::one_f_one_b;
  bool sequence_parallel = false;
  std::uint32_t zero_stage = 0;
  bool overlap_gradients = false;
  friend bool operator==(const RunChoice&, const RunChoice&) = default;
};

/// All plans on one mesh: the product of its lists, in this order (the last
/// list runs fastest).
struct MeshSpace {
  Mesh mesh;                                    ///< axes of size 1 are not listed
  std::vector<std::uint32_t> microbatch_sizes;  ///< ascending
  std::vector<std::vector<std::uint32_t>> stage_layers;
  std::vector<RunChoice> runs;
  std::vector<KernelChoice> kernels;

  [[nodiscard]] std::uint64_t count() const {
    return std::uint64_t{microbatch_sizes.size()} * stage_layers.size() * runs.size() * kernels.size();
  }
};

/// Every plan that the planner considers: finite, ordered, countable.
///
/// The dimensions, outermost first:
///  * mesh: data x tensor x pipeline = number of devices, where tensor divides
///    heads, kv_heads and ffn, pipeline is at most the number of layers, and
///    data divides the global batch; every order of the axes, of which those
///    that lay every communication group alike on the cluster's levels are
///    listed once (the first in the order pipeline, data, tensor from outside);
///  * microbatch size: every divisor of a replica's batch;
///  * stages: `uneven_stages` below;
///  * schedule: GPipe, 1F1B (one of them, 1F1B, without pipeline); sequence
///    parallelism off, on (on only where tensor > 1 divides the sequence);
///    ZeRO 0, 1 and overlap of gradient reduction off, on (only where data > 1);
///  * attention unfused, flash (unfused only with attention dropout) and
///    recomputation none, selective (unfused only), full.
///
/// The gradient bucket is no dimension: `resolve` gives it by rule.
struct Space {
  std::vector<Bytes> gradient_bucket;      ///< of the plans on each mesh
  std::vector<std::uint64_t> level_units;  ///< devices in one unit of each network level, innermost first
  std::vector<MeshSpace> meshes;
  std::vector<std::uint64_t> first;  ///< first[i]: number of the first plan on meshes[i]
  std::uint64_t count = 0;
  std::uint64_t orders_left_out = 0;  ///< meshes that differ from a listed one in the order of axes only
};

/// Stage splits of `layers` over `stages`, uneven in the first and the last:
/// with q = layers / stages (rounded down) and r the rest, first and last each
/// hold from max(1, q - reach) to q + min(1, r) layers, and the stages between
/// share the remainder as equally as possible, larger shares first; every such
/// split in which each stage holds at least one layer.  Ascending in (first,
/// last).  With two stages, the first holds from max(1, q - reach) to
/// q + r + reach and the last the remainder, at least 1.
/// Requires 1 <= stages <= layers.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> uneven_stages(std::uint64_t layers, std::uint32_t stages,
                                                                    std::uint32_t reach);

/// How many layers weigh as much as the embedding or the head, rounded up:
/// vocabulary x hidden over the matrix elements of a layer.  The reach of the
/// space's stage splits, at most `stage_reach_limit`.
[[nodiscard]] std::uint32_t stage_reach(const ModelSpec&);
inline constexpr std::uint32_t stage_reach_limit = 4;

/// The complete space of a model on all devices of a cluster.  Every plan in
/// it passes check().  Empty (count 0) where no factorisation is possible.
[[nodiscard]] Space make_space(const ModelSpec&, const Workload&, const ClusterSpec&);

/// Plan number `number`, resolved, of the space (0 <= number < space.count).
[[nodiscard]] Plan plan_at(const Space&, std::uint64_t number);

/// Number of the plan in the space, or space.count when it is not in it.  The
/// plan must be resolved; name, origin and gradient bucket do not matter.
[[nodiscard]] std::uint64_t number_of(const Space&, const Plan&);

/// What the space holds, dimension by dimension, for a person.
[[nodiscard]] std::string describe(const Space&);

/// One line naming every decision of a plan:
/// "data 8 x pipeline 4 x tensor 8, microbatch 1, 1f1b, layers 20 20 20 20, ...".
[[nodiscard]] std::string describe(const Plan&);

}  // namespace orrery
