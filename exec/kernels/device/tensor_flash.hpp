#pragma once

#include "exec/kernels/device/run_tensor_flash.hpp"
#include "exec/kernels/device/tensor_attention_backward.hpp"

namespace orrery::device {

template <class Element>
[[nodiscard]] Element* memory_of(const NamedOperands& o, OperandName name) {
  return static_cast<Element*>(o[name].data);
}

/// Launches one kind of attention for a type and a width of tiles; false where a block's shared memory is too small.
template <DType type, int width, bool general, class Launcher>
class TensorFlash {
 public:
  TensorFlash(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c)
      : l_(l),
        o_(o),
        attention_{FlashShape(k, 1),
                   memory_of<const std::uint16_t>(o, N::qkv),
                   probability_mask(k, c, o[N::qkv].place),
                   cpu::ScoreRule<float>(k, o[N::qkv].place, cpu::Heads(k)),
                   static_cast<float>(cpu::Heads(k).scale),
                   kept_factor<float>(k),
                   0} {}

  bool forward() {
    using Body = TensorFlashForward<Attention>;
    if (!choose_places(1, Body::keys_of_tile)) return false;
    const Body body{attention_, memory_of<std::uint16_t>(o_, N::context), memory_of<float>(o_, N::lse),
                    elements_if(o_, N::sinks)};
    launch(body, attention_.s.heads, Attention::shared_bytes(1, Body::keys_of_tile, attention_.places));
    return true;
  }
  bool backward() {
    using Base = TensorGradients<type, width, general>;
    using Queries = TensorFlashQueries<Base>;
    using Keys = TensorFlashKeys<Base>;
    if (!choose_places(2, Queries::next_rows)) return false;
    const FlashShape& s = attention_.s;
    const std::uint64_t all_rows = s.batch * s.heads * s.length;
    auto* dots = static_cast<float*>(l_.scratch(all_rows * sizeof(float)));
    const auto* dcontext = memory_of<const std::uint16_t>(o_, N::dcontext);
    for_each(l_, all_rows, ContextDots<type>{s, memory_of<const std::uint16_t>(o_, N::context), dcontext, dots});
    const Base base{attention_,
                    dcontext,
                    memory_of<const float>(o_, N::lse),
                    dots,
                    memory_of<std::uint16_t>(o_, N::dqkv),
                    memory_of<float>(o_, N::dq_accumulator)};
    launch(Queries{base}, s.heads, Attention::shared_bytes(2, Queries::next_rows, attention_.places));
    launch(Keys{base}, s.kv_heads, Attention::shared_bytes(2, Keys::next_rows, attention_.places));
    return true;
  }

 private:
  using Attention = TensorAttention<type, width, general>;
  bool choose_places(std::uint64_t tiles, std::uint64_t rows_of_next) {
    for (const std::uint32_t places : {2U, 1U}) {
      attention_.places = places;
      if (Attention::shared_bytes(tiles, rows_of_next, places) <= l_.shared_limit()) return true;
    }
    return false;
  }
  template <class Body>
  void launch(const Body& body, std::uint64_t heads, std::uint64_t shared) {
    const FlashShape& s = attention_.s;
    const std::uint64_t blocks = s.batch * heads * attention_.blocks_per_head();
    l_.launch_warps(ForEachRow<Body>{body, blocks}, std::min(most_blocks, blocks), Attention::warps, shared);
  }

  Launcher& l_;
  const NamedOperands& o_;
  Attention attention_;
};

template <DType type, int width, bool general, class Launcher>
bool run_tensor_flash_as(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  TensorFlash<type, width, general, Launcher> flash(l, k, o, c);
  return k.kind == KernelKind::attention_flash_forward ? flash.forward() : flash.backward();
}

/// Tiles are as wide as the head needs. What is seldom asked for has the widest.
template <DType type, class Launcher>
bool run_tensor_flash_of(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const FlashShape s(k, 1);
  const std::uint64_t widest = std::max(s.dim, s.value);
  if (k.options.dropout || k.options.alibi || k.softcap > 0.0) return run_tensor_flash_as<type, 128, true>(l, k, o, c);
  if (widest <= 64) return run_tensor_flash_as<type, 64, false>(l, k, o, c);
  if (widest <= 96) return run_tensor_flash_as<type, 96, false>(l, k, o, c);
  return run_tensor_flash_as<type, 128, false>(l, k, o, c);
}

}  // namespace orrery::device
