#pragma once

#include "exec/kernels/device/adafactor.hpp"
#include "exec/kernels/device/adapters.hpp"
#include "exec/kernels/device/attention.hpp"
#include "exec/kernels/device/attention_parts.hpp"
#include "exec/kernels/device/attention_sinks.hpp"
#include "exec/kernels/device/base_weights.hpp"
#include "exec/kernels/device/choices.hpp"
#include "exec/kernels/device/cross_entropy.hpp"
#include "exec/kernels/device/elementwise.hpp"
#include "exec/kernels/device/embedding.hpp"
#include "exec/kernels/device/expert_product.hpp"
#include "exec/kernels/device/expert_rows.hpp"
#include "exec/kernels/device/flash_attention.hpp"
#include "exec/kernels/device/fp8_product.hpp"
#include "exec/kernels/device/gates.hpp"
#include "exec/kernels/device/has_kernel.hpp"
#include "exec/kernels/device/latent_heads.hpp"
#include "exec/kernels/device/loss_once.hpp"
#include "exec/kernels/device/norm.hpp"
#include "exec/kernels/device/optimizer.hpp"
#include "exec/kernels/device/query_key_norm.hpp"
#include "exec/kernels/device/rearrange.hpp"
#include "exec/kernels/device/ring_scores.hpp"
#include "exec/kernels/device/rounded_product.hpp"
#include "exec/kernels/device/trust_ratio.hpp"

namespace orrery::device {

/// C[rows, columns] (=, +=) op(A) op(B) (+ bias).
template <class Launcher>
bool run_gemm(Launcher& l, const Kernel& k, const NamedOperands& o) {
  if (k.kind != KernelKind::gemm) return false;
  const Operand& c = o[N::c];
  Product p;
  p.rows = k.rows;
  p.columns = k.columns;
  p.depth = k.depth;
  p.a = {Elements(o[N::a]), k.options.transpose_a, k.options.transpose_a ? k.rows : k.depth, 0};
  p.b = {Elements(o[N::b]), k.options.transpose_b, k.options.transpose_b ? k.depth : k.columns, 0};
  p.c = {Elements(c), false, k.columns, 0};
  p.bias = elements_if(o, N::bias);
  p.add = c.accumulate;
  p.compute = k.compute;
  if (l.makes_fp8() && fits_fp8(k, c)) {
    round_factors(l, k, p);
    l.multiply(p);
  } else if (p.a.x.dtype != p.b.x.dtype) {
    multiply_rounded(l, p);
  } else {
    l.multiply(p);
  }
  return true;
}

/// Launches a kernel for which has_kernel is true, of a launcher that gets all of its kernels so, in a stream's order.
template <class T, class Launcher>
void launch_kernel(Launcher& l, KeptSums& kept, const Kernel& k, std::span<const Operand> operands,
                   const KernelContext& c) {
  if (run_loss_once<T>(l, kept, k, operands)) return;
  const NamedOperands o(k, operands);
  const bool done =
      run_gemm(l, k, o) || run_elementwise<T>(l, k, o, c) || run_norms<T>(l, k, o, c) ||
      run_embeddings<T>(l, k, o, c) || run_attention<T>(l, k, o, c) || run_flash_attention<T>(l, k, o, c) ||
      run_losses<T>(l, k, o, c) || run_optimizer<T>(l, k, o, c) || run_trust_ratios<T>(l, k, o, c) ||
      run_adafactor<T>(l, k, o, c) || run_query_key_norms<T>(l, k, o, c) || run_latent_heads<T>(l, k, o, c) ||
      run_attention_sinks<T>(l, k, o, c) || run_adapters<T>(l, k, o, c) || run_attention_parts<T>(l, k, o, c) ||
      run_rearranging<T>(l, k, o, c) || run_ring_scores<T>(l, k, o, c) || run_base_weights<T>(l, k, o, c) ||
      run_expert_rows<T>(l, k, o, c) || run_gates<T>(l, k, o, c) || run_choices<T>(l, k, o, c) ||
      run_expert_products<T>(l, k, o, c);
  ORRERY_ASSERT(done, name_of(k.kind));
}

/// Likewise, a kernel by itself.
template <class T, class Launcher>
void launch_kernel(Launcher& l, const Kernel& k, std::span<const Operand> operands, const KernelContext& c) {
  KeptSums none;
  launch_kernel<T>(l, none, k, operands, c);
}

}  // namespace orrery::device
