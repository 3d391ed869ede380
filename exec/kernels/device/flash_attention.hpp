#pragma once

#include "exec/kernels/device/flash_backward.hpp"
#include "exec/kernels/device/flash_forward.hpp"
#include "exec/kernels/device/run_tensor_flash.hpp"

namespace orrery::device {

/// The largest tile of 32, 16, 8, ... rows that a block's shared memory holds.
template <class T, class Body, class Launcher>
FlashShape flash_shape(Launcher& l, const Kernel& k) {
  std::uint64_t tile = 32;
  while (tile > 1 && Body::shared_elements(FlashShape(k, tile)) * sizeof(T) > l.shared_limit()) tile /= 2;
  return {k, tile};
}

template <class T, class Launcher>
void flash_forward(Launcher& l, const Kernel& k, FlashForward<T> body) {
  FlashShape& s = body.f.s;
  s.tile = flash_shape<T, FlashForward<T>>(l, k).tile;
  for_each_row(l, s.batch * s.heads * body.f.query_tiles(), body, usual_threads, body.shared_elements(s) * sizeof(T));
}
template <class T, class Launcher>
void flash_backward(Launcher& l, const Kernel& k, FlashGradients<T> g) {
  FlashShape& s = g.f.s;
  s.tile = flash_shape<T, FlashBackwardQueries<T>>(l, k).tile;
  for_each_row(l, s.batch * s.heads * g.f.query_tiles(), FlashBackwardQueries<T>{g}, usual_threads,
               FlashBackwardQueries<T>::shared_elements(s) * sizeof(T));
  s.tile = flash_shape<T, FlashBackwardKeys<T>>(l, k).tile;
  for_each_row(l, s.batch * s.kv_heads * g.f.key_tiles(), FlashBackwardKeys<T>{g}, usual_threads,
               FlashBackwardKeys<T>::shared_elements(s) * sizeof(T));
}

/// Flash attention of packed projections, on ordinary cores where tensor cores do not serve it (run_tensor_flash.hpp).
template <class T, class Launcher>
bool run_flash_attention(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  if (k.kind != KernelKind::attention_flash_forward && k.kind != KernelKind::attention_flash_backward) return false;
  if (run_tensor_flash(l, k, o, c)) return true;
  const cpu::Heads heads(k);
  const FlashSides sides(FlashShape(k, 1));
  const ProbabilityMask dropout = probability_mask(k, c, o[N::qkv].place);
  const cpu::ScoreRule<T> rule(k, o[N::qkv].place, heads);
  const auto scale = static_cast<T>(heads.scale);
  const auto x = [&](N name) { return Elements(o[name]); };
  if (k.kind == KernelKind::attention_flash_forward) {
    flash_forward<T>(l, k,
                     {sides, x(N::qkv), x(N::qkv), x(N::context), x(N::lse), elements_if(o, N::sinks), dropout, rule,
                      scale, kept_factor<T>(k)});
  } else {
    flash_backward<T>(
        l, k,
        {sides, x(N::dcontext), x(N::qkv), x(N::qkv), x(N::context), x(N::lse), x(N::dqkv), x(N::dqkv),
         x(N::dq_accumulator), sides.s.qkv_width, sides.s.group_width, false, dropout, rule, scale, kept_factor<T>(k)});
  }
  return true;
}

}  // namespace orrery::device
