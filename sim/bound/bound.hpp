#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "sim/bound/coverage.hpp"
#include "sim/bound/family_bound.hpp"
#include "sim/bound/host_memory.hpp"
#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Looks at a plan without lowering it.
///
/// Memory in closed form, exact where memory_is_exact, else a lower bound:
///
///     peak(r) = persistent(r) + max((n - 1) K + P_f, n K + P_b)
///
///     n         microbatches in flight before the first backward pass (microbatches_in_flight, stage_memory.hpp)
///     K         live bytes that one forward pass leaves on the rank
///     P_f, P_b  peak inside a forward or a backward pass, from its start
///
/// Several chunks on a rank hold n K each before the first backward pass, which is the last chunk's.  ZeRO-2 and 3 add
/// the whole copies that a layer's block holds.
///
/// Time is a lower bound on `estimate`, the larger of
///   compute  backward_ends (GPipe, 1F1B) or rank_ends over spans of the blocks, then what cannot be hidden of
///            gradient reductions, norm, update and gathers of updated weights;
///   lanes    the work of the busiest collective lane of any rank.
/// With ZeRO-2 and 3 passes also clear gradient copies, and wait for gathers that nothing runs ahead of and, without
/// overlap, for reductions.  With copies to and from host memory, and gathers one layer ahead, each block lasts as long
/// as what is copied or gathered beside it (copied_passes.hpp).
/// Leaves out: the loss, step counters, and what ranks wait for beyond the chains that backward_ends looks at; closer()
/// knows those too.
///
/// The price of a layer's, embedding's and head's blocks is worked out once per
/// choice that changes it and remembered, so a plan costs about as many steps
/// as it has stages.  Looking at plans of one mesh in a row is fastest.  Use
/// one Bounder per thread.
class Bounder {
 public:
  Bounder(const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);
  ~Bounder();
  Bounder(Bounder&&) noexcept;
  /// Another one for the same case, for another thread; both know what any_order worked out.
  [[nodiscard]] Bounder beside() const;
  Bounder& operator=(Bounder&&) noexcept;

  // All require a resolved plan that passes check() with model, workload and cluster, and that bound_covers().

  /// Peak bytes of each pipeline rank.
  [[nodiscard]] std::vector<std::uint64_t> stage_peaks(const Plan&);
  /// The largest of them.
  [[nodiscard]] std::uint64_t peak_memory(const Plan&);
  /// At least so much the ranks of the fullest node keep in its host, on the tiers that the plan has
  /// (host_memory.hpp); or of all plans like it with more eighths of what it offloads.
  [[nodiscard]] std::uint64_t host_memory(const Plan&, HostHeld = HostHeld::plan);
  /// At most the step time of estimate().
  [[nodiscard]] Picoseconds step_time(const Plan&);
  /// The same without the update, its gathers and copies: for plans that differ in where states and parameters live.
  [[nodiscard]] Picoseconds time_before_update(const Plan&);
  /// A bound on all plans like this one, of ZeRO 2 or 3 with overlap and, of the latter, weights that are kept, in
  /// chunks of parameters or not: those that gather them again, ahead or not, reduce without overlap, or have
  /// parameters in host memory, or states where this one has all of them there.
  [[nodiscard]] Picoseconds any_sharded(const Plan&);
  /// A bound on all plans like this one with as many or more eighths of states and, if this one has some, of parameters
  /// in host memory.
  [[nodiscard]] Picoseconds more_offloaded(const Plan&);
  /// And closer, as closer() is.
  [[nodiscard]] Picoseconds closer_more_offloaded(const Plan&);
  /// Both, and closer: with the passes of all ranks one by one in the schedule's order (pass_walk.hpp).
  struct Look {
    Picoseconds step = 0;
    std::uint64_t peak = 0;
  };
  /// A plan whose passes need more than `capacity` is not looked at further: its peak exceeds the capacity, and its
  /// step is that of step_time().
  [[nodiscard]] Look closer(const Plan&, std::uint64_t capacity = ~std::uint64_t{0});

  /// How much of a plan's memory is looked at: in closed form, or pass by pass as closer() does.
  enum class Memory : std::uint8_t { closed_form, passes };
  /// Raises the counts of the plan's recomputed layers (recompute_layers, which it has) as far as its pipeline ranks
  /// need to fit in `capacity` bytes, rank by rank in the order of recompute_one_more.  With fewer it does not fit;
  /// with these it may not, unless memory_is_exact.  False where it does not fit even with all.
  [[nodiscard]] bool recompute_fewest(Plan&, std::uint64_t capacity, Memory);
  /// The same for the eighths of activations in host memory, which the plan has at least one of.
  [[nodiscard]] bool offload_fewest(Plan&, std::uint64_t capacity, Memory);
  /// Whether an eighth more of states on the host never shortens the step (docs/planner.md): on every pipeline rank the
  /// host takes longer for what it is given than the device for all that it updates.  The plan offloads states; it has
  /// more of them than parameters there.
  [[nodiscard]] bool host_is_slower(const Plan&);
  /// memory_is_exact, with the workload of the case.
  [[nodiscard]] bool knows_memory(const Plan&) const;

  /// How the plan's mesh lays the axes that cut blocks.  any_recompute_on_mesh, any_schedule and any_state are
  /// the same where it is.
  [[nodiscard]] BlockLayout block_layout(const Plan&);

  // Lower bounds for all plans that share some choices, whatever their schedule, chunks, stages, ZeRO stage and
  // overlap. The given plan is any of them.  Where it has recompute_layers they are lower bounds for all counts of them
  // with which the plan fits in the capacity; where what it offloads is open, for all eighths of that, and with
  // activations among it for the counts that the pipelines' recomputed_eighths make; where its chunks of parameters
  // are, with them and without.

  /// Fills in what the others need of the pipelines.
  void weigh(std::vector<FamilyPipeline>&, const Plan&);
  /// Plans with these sizes of axes, tensor algorithm, microbatch size and block choices, in whatever order of axes:
  /// passes in the best of the pipelines that fits, each collective over one axis at its best place in the network,
  /// those over several axes free; the smallest states.  ZeRO-2 and 3 also reduce gradients after every microbatch.
  /// `plain_zero`: the highest ZeRO stage up to 1 that any of them has; `capacity` of a device.
  /// A peak above the capacity where no pipeline fits.
  /// A bound above `enough` need not be the closest.
  [[nodiscard]] FamilyBound any_order(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                      std::uint64_t capacity,
                                      Picoseconds enough = std::numeric_limits<Picoseconds>::max());
  /// Plans with these sizes of axes, tensor algorithm and microbatch size, whatever their block choices: matrix
  /// products alone, and memory for states alone.  A bound above `enough` need not be the closest, another may be 0.
  [[nodiscard]] FamilyBound any_block(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                      std::uint64_t capacity,
                                      Picoseconds enough = std::numeric_limits<Picoseconds>::max());
  /// Those of any_recompute whatever the attention kernel and the algorithm of the context axis: passes in which the
  /// attention core and messages along that axis take no time.
  /// A bound above `enough` need not be the closest, another may be 0.
  [[nodiscard]] FamilyBound any_attention(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                          std::uint64_t capacity,
                                          Picoseconds enough = std::numeric_limits<Picoseconds>::max());
  /// Those of any_order with whatever is recomputed or waits in host memory: passes without any of that, which are no
  /// slower (docs/planner.md), and memory for states alone.  A bound above `enough` need not be the closest, another
  /// may be 0.
  [[nodiscard]] FamilyBound any_recompute(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                          std::uint64_t capacity,
                                          Picoseconds enough = std::numeric_limits<Picoseconds>::max());
  /// Those of any_recompute on this mesh: of layers alone.
  [[nodiscard]] FamilyBound any_recompute_on_mesh(const Plan&, std::uint32_t plain_zero,
                                                  const std::vector<FamilyPipeline>&, std::uint64_t capacity,
                                                  Picoseconds enough);
  /// Plans on this mesh.  A bound above `enough` need not be the closest, another may be 0.
  [[nodiscard]] FamilyBound any_schedule(const Plan&, std::uint32_t plain_zero, const std::vector<FamilyPipeline>&,
                                         std::uint64_t capacity,
                                         Picoseconds enough = std::numeric_limits<Picoseconds>::max());
  /// The same for each of the pipelines, and for each way of keeping weights and gradients, alone; what ZeRO-2 and 3
  /// move takes what they say.  A bound above `enough` need not be the closest.
  [[nodiscard]] std::vector<FamilyBounds::ByKeeping> each_keeping(
      const Plan&, std::uint32_t plain_zero, std::span<const FamilyPipeline>, const ShardPrices&,
      std::uint64_t capacity, Picoseconds enough = std::numeric_limits<Picoseconds>::max());
  /// each_keeping is the same on meshes with axes of the same sizes where this and block_layout are.
  [[nodiscard]] ShardPrices shard_prices(const Plan&);
  /// Plans on this mesh with this schedule and these stages: passes alone, with entry and drain.
  [[nodiscard]] Picoseconds any_state(const Plan&);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One look with storage of its own.
[[nodiscard]] Seconds bound(const Plan&, const ModelSpec&, const Workload&, const ClusterSpec&, const Calibration&);

}  // namespace orrery
