#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/compute_order.hpp"
#include "core/plan/plan.hpp"
#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// What a schedule sees of a plan.
struct PipelineShape {
  std::uint32_t ranks = 1, chunks = 1, microbatches = 1;
  ActionTimes times = {};  ///< for which a searched order is short
};

/// Compute order of every pipeline rank: forward, backward and, where the
/// schedule splits backward, weight actions alone.  Authors of a schedule write
/// nothing else: messages and memory follow from it.  Every chunk runs each
/// microbatch forward once, later backward once, later its weight gradients.
using Orders = std::vector<std::vector<Action>>;
using Schedule = Orders (*)(const PipelineShape&);

/// All forwards, then all backwards (Huang et al., GPipe, NeurIPS 2019).
Orders schedule_gpipe(const PipelineShape&);

/// Stage i runs min(m, p - 1 - i) forwards ahead, then one forward, one
/// backward (Narayanan et al., SC '21).
Orders schedule_1f1b(const PipelineShape&);

/// 1F1B with twice as many forwards ahead, min(m, 2 (p - 1 - i)): messages move
/// beside compute, for up to 2 p - 1 microbatches in flight instead of p.
Orders schedule_eager_1f1b(const PipelineShape&);

/// Rounds of p microbatches, each round chunk after chunk, as 1F1B
/// (Narayanan et al., SC '21).  Requires microbatches to be a multiple of ranks.
Orders schedule_interleaved(const PipelineShape&);

/// Chunk after chunk all microbatches forward, then all back (Lamy-Poirier,
/// Breadth-First Pipeline Parallelism, MLSys 2023).
Orders schedule_breadth_first(const PipelineShape&);

/// Zero bubble, H1 and H2 (Qi et al., ICLR 2024): 1F1B with once or twice the
/// forwards ahead, and rank i holds back i or 2 i weight gradients to fill the end.
Orders schedule_zb_h1(const PipelineShape&);
Orders schedule_zb_h2(const PipelineShape&);

/// Zero bubble on a V of two chunks per rank (Qi et al., Pipeline Parallelism
/// with Controllable Memory, 2024): the order for equal times of forward, input
/// and weight gradient, or, where it waits, one found by search for the shape's times.
Orders schedule_zb_v(const PipelineShape&);

/// On a V, a pattern that repeats for every microbatch and holds (p + 2) / 2 or (p + 4) / 3 microbatches of a rank's
/// share (the same source).
Orders schedule_v_half(const PipelineShape&);
Orders schedule_v_min(const PipelineShape&);

/// DualPipe cut in the middle, on a V (DeepSeek-AI, DualPipe, 2025): forwards and backwards of the two chunks stand
/// next to each other. Requires microbatches of at least twice the ranks.
Orders schedule_dualpipe_v(const PipelineShape&);

/// How long orders of a split backward pass take at the shape's times, in exact
/// integers: all stages cost the same, messages move beside compute, nobody waits to send.
struct OrderTimes {
  std::int64_t span = 0;      ///< largest over ranks, from first start to last end
  std::int64_t makespan = 0;  ///< from 0 to the last end
};
[[nodiscard]] OrderTimes times_of(const Orders&, const PipelineShape&, const StageMap&);

/// A list scheduler's orders for the V, tried with several tastes. The result is the order with the shortest span, then
/// makespan; `best` unless one is shorter. Deterministic.
[[nodiscard]] Orders search_zb_v(const PipelineShape&, Orders best);

/// Two pipelines in opposite directions, in units of p microbatches that fit
/// into each other without gaps where a backward takes as long as a forward (Li
/// and Hoefler, Chimera, SC '21).
Orders schedule_chimera(const PipelineShape&);

/// Two pipelines in opposite directions, forwards of one beside backwards of the
/// other and weight gradients in the last bubbles (DeepSeek-V3 Technical Report, 2024).
Orders schedule_dualpipe(const PipelineShape&);

/// Null for a custom schedule.
[[nodiscard]] Schedule schedule_of(ScheduleName);

/// Compute order of a plan, custom or not, for that many microbatches.
[[nodiscard]] Orders orders_of(const Plan&, std::uint32_t microbatches);

/// The same as an order that can be written down.
[[nodiscard]] ComputeOrder compute_order(const Plan&, std::uint32_t microbatches);

}  // namespace orrery::lowering
