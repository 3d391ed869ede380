#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"

namespace orrery {

/// FLOPs of one training step by the convention of reports, independent of any plan.
///
///     F = 3 T (L (2 h d (2 a + 2 k) + 2 w h f + 4 s a d) + 2 h V)
///
///     T tokens of the step   L layers   h hidden   a heads   k kv heads   d head size
///     f ffn   w matrices of the feed-forward layer (2, SwiGLU 3)   s sequence length
///     V vocabulary, without padding
///
/// A prediction module adds a layer, its projection and another head: 3 T (layer + 4 h^2 + 2 h V).
///
/// Where adapters are trained in place of the weights, products with frozen weights count twice (forward, and the
/// gradient of the input), not three times: F = T (4 P + 12 L s a d + 6 P_a) with P weights of the layers' products and
/// the head's, P_a of adapters.
///
/// 2 per multiply-add, backward twice forward, full (not causal) attention, LM
/// head counted, no recomputation.  For GPT (f = 4 h, a d = h) this is
/// 72 T L h^2 (1 + s / 6 h + V / 12 h L): Korthikanti et al., "Reducing
/// activation recomputation in large transformer models", MLSys 2023.
[[nodiscard]] double model_flops(const ModelSpec&, const Workload&);

/// FLOPs of one step as all ranks execute them: GEMMs and attention of the Program by the same convention, with
/// recomputation and vocabulary padding. The second form takes the number of runs of each block, summed over classes.
[[nodiscard]] double program_flops(const Program&);
[[nodiscard]] double program_flops(const Program&, const std::vector<std::uint64_t>& block_runs);

/// Fills what follows from step_time and peak_memory_bytes: gpus, tokens per second, utilizations, capacity, fits,
/// cost. Without a cluster it fills only the rates of tokens.
void add_rates(Report&, const PlannedRun&, const Program&, double executed_flops);

}  // namespace orrery
