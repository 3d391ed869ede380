#include <algorithm>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

bool is_kernel(const Block& block, const Op& op, KernelKind kind) {
  const auto* compute = std::get_if<Compute>(&op.action);
  return compute != nullptr && block.kernels[compute->kernel].kind == kind;
}

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
  const BlockId forward = s.blocks(Phase::forward).layer;
  const BlockId backward = s.blocks(Phase::backward).layer;
  if (s.drafts.empty() || forward == backward) return "there is no schedule";
  if (!only_compute(s, forward) || !only_compute(s, backward)) return "a layer's blocks have more than compute";
  if (recomputed_ops(s, backward) != 0) return "a layer is already recomputed";
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

/// The attention core alone, right before its backward.
void recompute_core(BlockBuilder& b, const Draft& forward, const Draft& backward) {
  const auto core = std::find_if(forward.block.ops.begin(), forward.block.ops.end(), [&](const Op& op) {
    return is_kernel(forward.block, op, KernelKind::attention_unfused_forward);
  });
  for (std::uint32_t i = 0; i < backward.block.ops.size(); ++i) {
    b.copy_seams(backward, i);
    if (is_kernel(backward.block, backward.block.ops[i], KernelKind::attention_unfused_backward)) {
      again(b, forward, static_cast<std::uint32_t>(core - forward.block.ops.begin()));
    }
    b.copy_op(backward, i);
  }
}

bool changes(const State& s) {
  switch (s.plan.recompute) {
    case Recompute::none: return false;
    // Flash attention keeps no scores that could be made again.
    case Recompute::selective: return *s.plan.attention == AttentionKernel::unfused;
    case Recompute::full: return true;
  }
  return false;
}

void run(State& s) {
  if (!changes(s)) return;
  const Draft& forward = s[s.blocks(Phase::forward).layer];
  Draft& backward = s[s.blocks(Phase::backward).layer];
  BlockBuilder b(s, backward);
  if (s.plan.recompute == Recompute::full) {
    recompute_all(s, b, forward, backward);
  } else {
    recompute_core(b, forward, backward);
  }
  backward = std::move(b.draft());
}

/// The backward block makes again what the plan says: nothing, the attention
/// core, or the whole layer.
std::string after(const State& s) {
  std::size_t expected = 0;
  if (changes(s)) {
    expected = s.plan.recompute == Recompute::full ? s[s.blocks(Phase::forward).layer].block.ops.size() : 1;
  }
  if (recomputed_ops(s, s.blocks(Phase::backward).layer) != expected) return "a layer recomputes the wrong ops";
  return {};
}

}  // namespace

LoweringPass recomputation() { return {"recomputation", before, run, after}; }

}  // namespace orrery::lowering
