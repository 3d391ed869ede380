#include "core/program/lower/gathers_and_reductions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/program/lower/buckets.hpp"
#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

BlockId build_clear_of(State& s, const Module& of) {
  const Module* trained = s.trained(of);
  if (trained == nullptr) return no_block;
  const Module& m = *trained;
  BlockBuilder b(s, s.program.parameter_tables[m.table].module + ".clear", Pass::optimizer, Section::setup);
  b.compute(s.kernel(KernelKind::fill, Pass::optimizer, 1, s.program[m.gradients].count), {write(m.gradients)});
  return b.finish(s);
}

}  // namespace

void build_clear(State& s) { s.blocks(Phase::clear) = same_module_blocks(s, build_clear_of); }

namespace {

std::string before(const State& s) {
  if (s.stages.empty()) return "there is no schedule";
  for (const Stage& stage : s.stages) {
    if (stage.step.empty()) return fmt::format("stage {} has no schedule", stage.number);
    if (stage.chunks.size() != stage.own_chunks || count(stage.step, Phase::reduce) != 0) {
      return fmt::format("stage {} already reduces gradients", stage.number);
    }
  }
  return {};
}

/// Counts the valid targets of the step over all replicas and clears the losses.
BlockId build_begin(State& s) {
  BlockBuilder b(s, "step.begin", Pass::loss, Section::loss);
  b.compute(s.kernel(KernelKind::fill, Pass::loss, 1, 1), {write(s.scalar.loss)});
  b.compute(s.kernel(KernelKind::count_targets, Pass::loss, 1, 1), {write(s.scalar.count)});
  std::vector<Operand> counts = {update(s.scalar.count)};
  if (s.predictions > 0) {
    b.compute(s.kernel(KernelKind::fill, Pass::loss, 1, s.predictions), {write(s.scalar.prediction_loss)});
    counts.push_back(update(s.scalar.prediction_count));
  }
  for (std::uint32_t k = 1; k <= s.predictions; ++k) {
    Kernel ahead = s.kernel(KernelKind::count_targets, Pass::loss, 1, 1);
    ahead.site = static_cast<std::uint8_t>(k);
    b.compute(ahead, {Operand{s.scalar.prediction_count, View::Use::write, 0, k - 1, 1, {}}});
  }
  if (s.is_several(s.batch_group)) b.collective(Collective::Kind::all_reduce, s.batch_group, counts);
  return b.finish(s);
}

BlockId build_mean_loss(State& s) {
  BlockBuilder b(s, "loss.mean", Pass::loss, Section::loss);
  std::vector<Operand> losses = {update(s.scalar.loss)};
  if (s.predictions > 0) losses.push_back(update(s.scalar.prediction_loss));
  if (s.is_several(s.token_group)) b.collective(Collective::Kind::all_reduce, s.token_group, losses);
  if (s.two_way) b.collective(Collective::Kind::all_reduce, s.heads_group, losses);
  b.compute(s.kernel(KernelKind::mean_loss, Pass::loss, 1, 1), {update(s.scalar.loss), read(s.scalar.count)});
  for (std::uint32_t k = 0; k < s.predictions; ++k) {
    b.compute(s.kernel(KernelKind::mean_loss, Pass::loss, 1, 1),
              {Operand{s.scalar.prediction_loss, View::Use::accumulate, 0, k, 1, {}},
               Operand{s.scalar.prediction_count, View::Use::read, 0, k, 1, {}}});
  }
  if (s.predictions > 0) {
    Kernel sum = s.kernel(KernelKind::add_losses, Pass::loss, s.predictions, 1);
    sum.parameter = prediction_weight(s.model, s.workload);
    b.compute(sum, {read(s.scalar.prediction_loss), update(s.scalar.loss)});
  }
  return b.finish(s);
}

/// Cuts the stage's chunks into buckets, in the order in which the last backward pass completes them. Returns their
/// numbers, and for each chunk where its buckets begin.
struct Buckets {
  std::vector<std::uint32_t> all;
  std::vector<std::pair<std::size_t, std::size_t>> of_chunk;  ///< positions in `all`
};
Buckets cut(State& s, Stage& stage) {
  Buckets out;
  out.of_chunk.resize(stage.own_chunks);
  for (std::uint32_t c = stage.own_chunks; c-- > 0;) {
    out.of_chunk[c].first = out.all.size();
    for (const Chunk& bucket : build_buckets(s, stage.number, Chunk(stage.chunks[c]))) {
      out.all.push_back(static_cast<std::uint32_t>(stage.chunks.size()));
      stage.chunks.push_back(bucket);
    }
    out.of_chunk[c].second = out.all.size();
  }
  return out;
}

/// Each bucket is reduced as soon as a backward pass has completed its gradients, or all buckets are reduced at the
/// end. Weights are gathered upwards, because the next forward pass needs the embedding first.
///
/// The last backward pass completes the gradients. With ZeRO-2 and 3 every backward pass does, because whole gradients
/// live no longer than that. Where it is split, the gradients that its first part has made are reduced before its
/// weight gradients.
void communicate(const State& s, Stage& stage, const Buckets& buckets, std::vector<Action>& out) {
  const bool each_microbatch = s.zero >= 2;
  // The last backward, or weight gradient, of the chunk completes its gradients.
  const Phase phase = s.split_backward ? Phase::weight : Phase::backward;
  std::vector<std::size_t> lasts(stage.own_chunks);
  for (std::size_t i = 0; i < stage.step.size(); ++i) {
    if (stage.step[i].phase == phase) lasts[stage.step[i].chunk] = i;
  }
  for (std::size_t i = 0; i < stage.step.size(); ++i) {
    const Action& a = stage.step[i];
    const bool last = a.phase == phase && lasts[a.chunk] == i;
    const bool first = each_microbatch && s.split_backward && a.phase == Phase::backward;
    if (!first && (a.phase != phase || !(each_microbatch || (last && *s.plan.overlap_gradients)))) {
      out.push_back(a);
      continue;
    }
    for (std::size_t b = buckets.of_chunk[a.chunk].first; b < buckets.of_chunk[a.chunk].second; ++b) {
      out.push_back({a.phase, buckets.all[b], a.microbatch});
      out.push_back({first ? Phase::reduce_first : Phase::reduce, buckets.all[b], each_microbatch ? a.microbatch : 0});
      if (last && combines(s) && *s.plan.overlap_gradients) out.push_back({Phase::combine, buckets.all[b], 0});
    }
  }
  if (!*s.plan.overlap_gradients) {
    for (const std::uint32_t b : buckets.all) {
      if (!each_microbatch) out.push_back({Phase::reduce, b, 0});
      if (combines(s)) out.push_back({Phase::combine, b, 0});
    }
  }
  if (s.two_way) {
    // Both ranks of a pair hold the same two stages, and both take the lower one first.
    const std::uint32_t lower = s.map.stage(stage.number, 0) < s.map.stage(stage.number, 1) ? 0 : 1;
    for (const std::uint32_t c : {lower, 1 - lower}) {
      for (std::size_t b = buckets.of_chunk[c].first; b < buckets.of_chunk[c].second; ++b) {
        out.push_back({Phase::sum_pipes, buckets.all[b], 0});
      }
    }
  }
  if (gathers_updated(s)) {
    for (auto b = buckets.all.rbegin(); b != buckets.all.rend(); ++b) out.push_back({Phase::gather, *b, 0});
  }
}

void run(State& s) {
  build_clear(s);
  const BlockId begin = build_begin(s);
  const BlockId mean_loss = build_mean_loss(s);
  for (Stage& stage : s.stages) {
    const bool last = std::any_of(stage.chunks.begin(), stage.chunks.end(), [](const Chunk& c) { return c.head; });
    stage.blocks[static_cast<std::size_t>(Phase::begin)] = begin;
    stage.blocks[static_cast<std::size_t>(Phase::mean_loss)] = mean_loss;
    std::vector<Action> step;
    step.reserve(stage.step.size() + 5 * std::size_t{s.program.layers} + 16);
    if (last) step.push_back({Phase::begin, 0, 0});
    for (std::uint32_t c = 0; c < stage.own_chunks; ++c) step.push_back({Phase::clear, c, 0});
    if (s.reduce_gradients) {
      const Buckets buckets = cut(s, stage);
      communicate(s, stage, buckets, step);
    } else {
      step.insert(step.end(), stage.step.begin(), stage.step.end());
    }
    if (last) step.push_back({Phase::mean_loss, 0, 0});
    stage.step = std::move(step);
  }
}

/// Gradients are cleared before the first backward and reduced once where ranks
/// hold parts of them, after the module's last backward; with ZeRO-2 and 3 after
/// every backward.  With ZeRO-1 and 2 weights are gathered once.
std::string after(const State& s) {
  for (const Stage& stage : s.stages) {
    std::string wrong = covered(stage, Phase::clear, 0);
    const std::uint32_t reductions = s.zero >= 2 ? s.program.microbatches : 1;
    for (std::uint32_t m = 0; m < reductions && wrong.empty(); ++m) {
      const auto times = [&](std::uint32_t c) {
        return s.reduce_gradients && (s.zero < 2 || s.map.runs(c, m, s.program.microbatches)) ? 1U : 0U;
      };
      wrong = covered(stage, Phase::reduce, m, times);
      if (!wrong.empty() || s.zero < 2 || !s.split_backward) continue;
      wrong = covered(stage, Phase::reduce_first, m, times);
    }
    if (wrong.empty()) wrong = covered(stage, Phase::combine, 0, combines(s) ? 1 : 0);
    if (wrong.empty()) wrong = covered(stage, Phase::sum_pipes, 0, s.two_way ? 1 : 0);
    if (wrong.empty()) wrong = covered(stage, Phase::gather, 0, gathers_updated(s) ? 1 : 0);
    if (!wrong.empty()) return wrong;
    // No gradients are added to layers whose gradients are reduced.
    std::vector<bool> reduced(s.program.layers);
    bool backward = false, summed = false;
    for (const Action& a : stage.step) {
      const Chunk& c = stage.chunks[a.chunk];
      if (a.phase == Phase::clear && backward) return fmt::format("stage {} clears gradients late", stage.number);
      const bool adds = a.phase == Phase::backward || a.phase == Phase::weight;
      backward = backward || adds;
      if (adds && summed) return fmt::format("stage {} sums the gradients of both pipes too early", stage.number);
      summed = summed || a.phase == Phase::sum_pipes;
      for (std::uint32_t l = c.low_layer; l < c.low_layer + c.layers; ++l) {
        if (adds && reduced[l]) return fmt::format("layer {} is reduced too early", l);
        if (a.phase == (s.zero >= 2 ? Phase::combine : Phase::reduce)) reduced[l] = true;
      }
    }
  }
  return {};
}

}  // namespace

LoweringPass gathers_and_reductions() { return {"parameter_gathers_and_gradient_reductions", before, run, after}; }

}  // namespace orrery::lowering
