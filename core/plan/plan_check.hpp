#pragma once

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// Largest size of a mesh axis, of the whole mesh, of a microbatch, and largest number of microbatches per step. The
/// limit is far above any machine, and keeps every count that a Program derives from a plan inside its type.
inline constexpr std::uint64_t plan_size_limit = std::uint64_t{1} << 20;

/// Largest pipeline size x microbatches per step.  A Program lists every
/// microbatch on every stage (160 bytes or less each), so this bounds what
/// lowering a small file may ask for, to less than 1 GB.  64 stages of 65,536
/// microbatches are within it.
inline constexpr std::uint64_t stage_microbatch_limit = std::uint64_t{1} << 22;

/// Largest pipeline size: code that walks a Program stores something for every pair of stages.
inline constexpr std::uint64_t stage_limit = 2048;

/// Where plan, model, workload and (if given) cluster meet: the structural
/// rules that `lower` and pricing rely on.  Adds one diagnostic per violated
/// rule, with the numbers and the nearest valid values; codes begin with "plan."
/// (docs/diagnostics.md), and positions point into plan.origin.  Adds nothing
/// when the plan is valid, resolved or not: an `auto` violates no rule.
///
/// `cluster` adds two rules: the mesh covers its devices exactly, and its
/// device supports the workload's precision.
/// Whether the plan fits in memory is not checked here: that is an answer of
/// estimate and simulate, not an input error.
///
/// check_model and check_workload (core/spec/spec_check.hpp) test model and workload by themselves. Never crashes,
/// whatever the numbers. A rule that builds on a broken one is left out until that one is mended.
void check(const Plan&, const ModelSpec&, const Workload&, const ClusterSpec* cluster, Diagnostics&);

}  // namespace orrery
