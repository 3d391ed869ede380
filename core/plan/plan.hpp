#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/units.hpp"
#include "core/plan/mesh.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

enum class ScheduleName : std::uint8_t { gpipe, one_f_one_b };
enum class Recompute : std::uint8_t { none, selective, full };
enum class AttentionKernel : std::uint8_t { unfused, flash };
/// Algorithms of a collective; a Plan may override the choice that pricing makes.
enum class CollectiveAlgorithm : std::uint8_t { ring, tree, recursive };

/// The decisions of one parallel run.  Small, hand-writable, printable; fixes
/// no times.  An unset optional is `auto`: `resolve` (planner/) puts a concrete
/// value in its place, and `lower` accepts only resolved plans.
struct Plan {
  std::string name;
  Mesh mesh;
  /// placement[rank] is the device (node-major) that runs the rank; empty: rank i on device i.
  std::vector<std::uint32_t> placement;
  std::uint32_t microbatch_size = 1;  ///< sequences
  ScheduleName schedule = ScheduleName::one_f_one_b;
  std::optional<std::vector<std::uint32_t>> stage_layers;  ///< layers of each pipeline stage
  bool sequence_parallel = false;                          ///< Megatron's, along the tensor axis
  Recompute recompute = Recompute::none;
  std::uint32_t zero_stage = 0;                ///< 0 or 1
  std::optional<Bytes> gradient_bucket;        ///< least bytes of one gradient reduction
  std::optional<bool> overlap_gradients;       ///< reduce buckets beside the last backward pass
  std::optional<AttentionKernel> attention;    ///< kernel set
  std::optional<CollectiveAlgorithm> collective_algorithm;  ///< override only: stays unset in a resolved plan
  Origin origin;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Whether every `auto` has a value (the collective override may stay unset).
[[nodiscard]] bool is_resolved(const Plan&);

/// Microbatches of one step on one data-parallel replica.
/// Requires a checked plan (data x microbatch_size divides the batch).
[[nodiscard]] std::uint64_t microbatches(const Plan&, const Workload&);

/// First (global) layer of `stage` in a resolved plan.
[[nodiscard]] std::uint32_t first_layer(const Plan&, std::uint32_t stage);

/// Vocabulary padded to a multiple of the tensor size.
[[nodiscard]] std::uint64_t padded_vocabulary(const Plan&, const ModelSpec&);

/// A plan with everything it names: what `orrery estimate plan.toml` reads.
struct PlannedRun {
  ModelSpec model;
  Workload workload;
  std::optional<ClusterSpec> cluster;
  Plan plan;
  std::string model_reference;    ///< as the file names it: a built-in name or a path
  std::string cluster_reference;  ///< empty when the file names none
};

}  // namespace orrery
