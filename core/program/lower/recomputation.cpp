#include <algorithm>

#include "core/program/lower/modules_again.hpp"
#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

std::size_t recomputed_ops(const State& s, BlockId id) {
  const std::vector<Kernel>& kernels = s[id].block.kernels;
  return static_cast<std::size_t>(
      std::count_if(kernels.begin(), kernels.end(), [](const Kernel& k) { return k.pass == Pass::recompute; }));
}

bool only_compute(const State& s, BlockId id) {
  const std::vector<Op>& ops = s[id].block.ops;
  return std::all_of(ops.begin(), ops.end(), [](const Op& op) { return std::holds_alternative<Compute>(op.action); });
}

std::string before(const State& s) {
  for (const LayerKind& kind : s.kinds) {
    const BlockId forward = s.blocks(Phase::forward)[kind].plain;
    const BlockId backward = s.blocks(Phase::backward)[kind].plain;
    if (s.drafts.empty() || forward == backward) return "there is no schedule";
    if (!only_compute(s, forward) || !only_compute(s, backward)) return "a layer's blocks have more than compute";
    if (recomputed_ops(s, backward) != 0) return "a layer is already recomputed";
  }
  return {};
}

void again(BlockBuilder& b, const Draft& forward, std::uint32_t op) {
  b.copy_op(forward, op);
  b.draft().block.kernels.back().pass = Pass::recompute;
}

/// The whole forward block once more in front of the backward block; its
/// result goes to a buffer of its own.
void recompute_all(State& s, BlockBuilder& b, const Draft& forward, const Draft& backward) {
  const auto n = static_cast<std::uint32_t>(forward.block.ops.size());
  for (std::uint32_t i = 0; i < n; ++i) {
    b.copy_seams(forward, i);
    again(b, forward, i);
  }
  b.copy_seams(forward, n);
  for (View& v : b.draft().block.views) {
    if (v.buffer == s.hidden && v.layer_shift == 1) {
      v.buffer = s.recomputed;
      v.layer_shift = 0;
    }
  }
  for (std::uint32_t i = 0; i < backward.block.ops.size(); ++i) {
    b.copy_seams(backward, i);
    b.copy_op(backward, i);
  }
}

BlockId copy_of(State& s, BlockId of) {
  Draft draft = s[of];
  draft.block.name += ".recomputed";
  s.drafts.push_back(std::move(draft));
  return BlockId{static_cast<std::uint32_t>(s.drafts.size() - 1)};
}

/// Where only some layers of a kind recompute, they have blocks of their own: they differ in the forward pass too, in
/// what is left alive.
BlockId recomputing(const State& s, const LayerKind& kind, Phase phase) {
  const ModuleBlocks& blocks = s.blocks(phase);
  return blocks[kind].recomputed != no_block ? blocks[kind].recomputed : blocks[kind].plain;
}

void recompute(State& s, const LayerKind& kind) {
  const Share share = share_of(s.recomputes, kind);
  if (share == Share::none) return;
  if (share == Share::some) {
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight}) {
      ModuleBlocks& blocks = s.blocks(phase);
      if (blocks[kind].plain != no_block) blocks[kind].recomputed = copy_of(s, blocks[kind].plain);
    }
  }
  const Draft& forward = s[recomputing(s, kind, Phase::forward)];
  Draft& backward = s[recomputing(s, kind, Phase::backward)];
  if (s.plan.recompute == Recompute::full) {
    BlockBuilder b(s, backward);
    recompute_all(s, b, forward, backward);
    backward = std::move(b.draft());
    return;
  }
  ModulesAgain modules(s, forward, modules_made_again(s.plan));
  modules.put_into(backward);
  const BlockId weight = recomputing(s, kind, Phase::weight);
  if (weight != no_block) modules.put_into(s[weight]);
}

void run(State& s) {
  for (const LayerKind& kind : s.kinds) recompute(s, kind);
  for (Draft& draft : s.drafts) draft.parts.clear();
}

/// The backward block makes again what the plan says: nothing, the whole layer, or some of its ops.
std::string after(const State& s) {
  for (const LayerKind& kind : s.kinds) {
    const Share share = share_of(s.recomputes, kind);
    const std::size_t all = s[s.blocks(Phase::forward)[kind].plain].block.ops.size();
    const std::size_t again = recomputed_ops(s, recomputing(s, kind, Phase::backward));
    const bool full = s.plan.recompute == Recompute::full;
    const bool core = !full && share != Share::none && modules_made_again(s.plan) == set_of(RecomputeModule::core_attn);
    const bool right = share == Share::none ? again == 0 : full ? again == all : core ? again == 1 : again < all;
    if (!right) return "a layer recomputes the wrong ops";
    if (share == Share::some && recomputed_ops(s, s.blocks(Phase::backward)[kind].plain) != 0) {
      return "a layer recomputes needlessly";
    }
  }
  return {};
}

}  // namespace

LoweringPass recomputation() { return {"recomputation", before, run, after}; }

}  // namespace orrery::lowering
