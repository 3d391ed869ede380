#pragma once

#include "exec/kernels/cpu/brought_keys.hpp"
#include "exec/kernels/device/flash_attention.hpp"

/// Attention of a rank's queries on keys and values that were brought to it from a rank of the context axis, and how
/// parts become one (exec/kernels/cpu/attention_part.cpp has the formulas).
namespace orrery::device {

/// context, lse (own) and those of a part become those of both; a block for each (sequence, head, query).
template <class T>
struct MergeParts {
  FlashShape s;
  Elements context, lse, part, part_lse;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::uint64_t query = row % s.length, head = row / s.length % s.heads, sequence = row / s.length / s.heads;
    const T own_lse = lse.load<T>(row), other_lse = part_lse.load<T>(row);
    if (other_lse == -std::numeric_limits<T>::infinity()) return;  // the part saw none of the keys
    const T high = own_lse < other_lse ? other_lse : own_lse;
    const T own = std::exp(own_lse - high), other = std::exp(other_lse - high);
    const T total = own + other;
    b.sync();  // all have read
    for (std::uint64_t c = b.thread(); c < s.value; c += b.threads()) {
      const std::uint64_t i = s.context_at(query, sequence, head) + c;
      context.store(i, (context.load<T>(i) * own + part.load<T>(i) * other) / total);
    }
    if (b.thread() == 0) lse.store(row, high + std::log(total));
  }
};

/// Attention dropout; a part's own fields hold other values than its rate and site.
[[nodiscard]] inline ProbabilityMask part_mask(const Kernel& k, const KernelContext& c, const Place& qkv) {
  Kernel drop = k;
  drop.site = 1;
  drop.parameter = k.options.dropout ? c.workload->attention_dropout : 0.0;
  return probability_mask(drop, c, qkv);
}

template <class T, class Launcher>
bool run_attention_parts(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto x = [&](N name) { return Elements(o[name]); };
  const bool forward = k.kind == KernelKind::attention_part_forward;
  if (k.kind != KernelKind::attention_merge && !forward && k.kind != KernelKind::attention_part_backward) return false;
  const FlashShape shape(k, 1);
  if (k.kind == KernelKind::attention_merge) {
    for_each_row(l, k.rows * shape.heads, MergeParts<T>{shape, x(N::context), x(N::lse), x(N::part), x(N::part_lse)},
                 64);
    return true;
  }
  const Operand& qkv = o[N::qkv];
  const FlashSides sides(shape, k.depth / k.batch, qkv.place, cpu::brought_from(k, o[N::kv].place));
  const ProbabilityMask dropout = part_mask(k, c, qkv.place);
  const cpu::Heads heads(k);
  const cpu::ScoreRule<T> rule(k, qkv.place, heads);
  const auto scale = static_cast<T>(heads.scale);
  const auto inverse = static_cast<T>(k.options.dropout ? 1.0 / (1.0 - c.workload->attention_dropout) : 1.0);
  if (forward) {
    flash_forward<T>(l, k,
                     {sides, x(N::qkv), x(N::kv), x(N::context), x(N::lse), elements_if(o, N::sinks), dropout, rule,
                      scale, inverse});
    return true;
  }
  flash_backward<T>(
      l, k,
      {sides, x(N::dcontext), x(N::qkv), x(N::kv), x(N::context), x(N::lse), x(N::dq), x(N::dkv), Elements{},
       shape.heads * shape.dim, shape.group * shape.dim, o[N::dq].accumulate, dropout, rule, scale, inverse});
  return true;
}

}  // namespace orrery::device
