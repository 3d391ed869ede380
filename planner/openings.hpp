#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/plan/limits.hpp"
#include "planner/appraiser.hpp"

namespace orrery {

class PricedPlans;

/// Coarse plans, and the ways in which one is opened up.

/// One plan for each size of axes that the model and the limits allow, microbatches of one sequence, usual choices.
/// Grids of tensor axes and replicas come later, unless the limits ask for them. Short parts of sequences come only
/// where nothing else is valid.
[[nodiscard]] std::vector<Plan> coarse_shapes(Appraiser&, const SearchLimits&, Dimensions);

/// Gives dimensions that have a value beyond the limits the first one within them.
void put_within(PlannedRun&, const SearchLimits&, Dimensions);

/// Sizes of microbatches that the plan may have, ascending.
[[nodiscard]] std::vector<std::uint32_t> microbatch_sizes(const Plan&, const Workload&);

/// The plan with each of some axes innermost.
[[nodiscard]] std::vector<Plan> orders_of(const Plan&);
/// The plan with the cuts of attention over the context axis that are worth a look.
[[nodiscard]] std::vector<Plan> cuts_of(const Plan&);
/// The plan with and without sequence parallelism.
[[nodiscard]] std::vector<Plan> sequence_cuts_of(const Plan&);
/// The plan with its tensor ranks as grids.
[[nodiscard]] std::vector<Plan> grids_of(const Plan&);
/// The plan under the schedules and numbers of chunks that are worth a look; none without a pipeline.
[[nodiscard]] std::vector<Plan> schedules_of(const Plan&, const ModelSpec&);

/// The plan with the schedule that gathers shared-out weights once for all microbatches of a chunk, in a few chunks.
[[nodiscard]] std::optional<Plan> breadth_first_of(const Plan&, const ModelSpec&);
/// The plan with keys and values that go around: no rank holds all of them.
[[nodiscard]] std::optional<Plan> ring_of(const Plan&);

/// The plan before anything was done about its activations so that it fits.
[[nodiscard]] Plan without_reliefs(Plan);

/// The same with schedules that hold less, the plan's own among them.
[[nodiscard]] std::vector<Plan> lean_schedules_of(const Plan&);

/// The plan with states whole in half of its data ranks, and in each unit of the network's levels (`units` devices).
[[nodiscard]] std::vector<Plan> replicas_of(const Plan&, const std::vector<std::uint64_t>& units);
/// The plan with weights shared out and kept over the step, and both with replicas.
[[nodiscard]] std::vector<Plan> states_of(const Plan&, const std::vector<std::uint64_t>& units);

/// The plan with weights gathered again, or shared out at all; none where they are.
[[nodiscard]] std::optional<Plan> shared_out_further(const Plan&);

/// Ways to make a plan fit, as it is the first: recomputed layers, activations in host memory, both at once with
/// `mixtures` eighths of the layers recomputed, and the modules of layers that may be recomputed alone.
[[nodiscard]] std::vector<Candidate> reliefs(const Plan&, PricedPlans&, std::span<const std::uint32_t> mixtures);
inline constexpr std::uint32_t few_mixtures[] = {4, 7}, all_mixtures[] = {1, 2, 3, 4, 5, 6, 7};
/// Ways that move states and weights to host memory too.
[[nodiscard]] std::vector<Candidate> strong_reliefs(const Plan&);

/// Whether a cluster says how much its hosts hold and how they are linked to its devices.
[[nodiscard]] bool hosts_are_known(const ClusterSpec&);

}  // namespace orrery
