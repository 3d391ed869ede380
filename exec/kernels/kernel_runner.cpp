#include "exec/kernels/kernel_runner.hpp"

#include "core/base/diagnostics.hpp"
#include "exec/kernels/cpu/kernels.hpp"

namespace orrery {
namespace {

/// Kernels whose arithmetic has a type.
template <class T>
void run_typed(const Kernel& k, std::span<const Operand> o, const KernelContext& c) {
  KernelScratch& scratch = *c.scratch;
  switch (k.kind) {
    case KernelKind::load_tokens: return cpu::load_tokens(k, o, c);
    case KernelKind::load_targets: return cpu::load_targets(k, o, c);
    case KernelKind::load_segments: return cpu::load_segments(k, o, c);
    case KernelKind::load_patches: return cpu::load_patches(k, o, c);
    case KernelKind::count_targets: return cpu::count_targets(k, o, c);
    case KernelKind::fill: return cpu::fill(o);
    case KernelKind::initialize: return cpu::initialize(o, c);
    case KernelKind::initialize_scale: return cpu::initialize_scale(o, c);
    case KernelKind::embed_forward: return cpu::embed_forward<T>(k, o);
    case KernelKind::embed_backward: return cpu::embed_backward<T>(k, o, scratch);
    case KernelKind::position_forward: return cpu::position_forward<T>(k, o, scratch);
    case KernelKind::position_backward: return cpu::position_backward<T>(k, o, scratch);
    case KernelKind::segment_forward: return cpu::segment_forward<T>(k, o, scratch);
    case KernelKind::segment_backward: return cpu::segment_backward<T>(k, o, scratch);
    case KernelKind::class_token_forward: return cpu::class_token_forward<T>(k, o, scratch);
    case KernelKind::class_token_backward: return cpu::class_token_backward<T>(k, o, scratch);
    case KernelKind::layer_norm_forward: return cpu::norm_forward<T>(k, o, false, scratch);
    case KernelKind::layer_norm_backward_input: return cpu::norm_backward_input<T>(k, o, false, scratch);
    case KernelKind::layer_norm_backward_weight: return cpu::norm_backward_weight<T>(k, o, false, scratch);
    case KernelKind::rms_norm_forward: return cpu::norm_forward<T>(k, o, true, scratch);
    case KernelKind::rms_norm_backward_input: return cpu::norm_backward_input<T>(k, o, true, scratch);
    case KernelKind::rms_norm_backward_weight: return cpu::norm_backward_weight<T>(k, o, true, scratch);
    case KernelKind::norm_sums: return cpu::norm_sums<T>(k, o, scratch);
    case KernelKind::norm_squares: return cpu::norm_squares<T>(k, o, scratch);
    case KernelKind::norm_gradient_sums: return cpu::norm_gradient_sums<T>(k, o, scratch);
    case KernelKind::gemm: return cpu::gemm<T>(k, o, scratch);
    case KernelKind::bias_forward: return cpu::bias_forward<T>(k, o, scratch);
    case KernelKind::bias_backward: return cpu::bias_backward<T>(k, o, scratch);
    case KernelKind::rope_forward: return cpu::rope<T>(k, o, false, scratch);
    case KernelKind::rope_backward: return cpu::rope<T>(k, o, true, scratch);
    case KernelKind::attention_unfused_forward: return cpu::attention_unfused_forward<T>(k, o, c);
    case KernelKind::attention_unfused_backward: return cpu::attention_unfused_backward<T>(k, o, c);
    case KernelKind::attention_flash_forward: return cpu::attention_flash_forward<T>(k, o, c);
    case KernelKind::attention_flash_backward: return cpu::attention_flash_backward<T>(k, o, c);
    case KernelKind::latent_heads_forward: return cpu::latent_heads_forward<T>(k, o, scratch);
    case KernelKind::latent_heads_backward: return cpu::latent_heads_backward<T>(k, o, scratch);
    case KernelKind::pack_keys_values: return cpu::pack_keys_values(k, o);
    case KernelKind::attention_part_forward: return cpu::attention_part_forward<T>(k, o, c);
    case KernelKind::attention_part_backward: return cpu::attention_part_backward<T>(k, o, c);
    case KernelKind::unpack_gradients: return cpu::unpack_gradients<T>(k, o, scratch);
    case KernelKind::split_keys_values: return cpu::split_keys_values(k, o);
    case KernelKind::attention_scores_forward: return cpu::attention_scores_forward<T>(k, o, c);
    case KernelKind::attention_softmax_forward: return cpu::attention_softmax_forward<T>(k, o, scratch);
    case KernelKind::attention_values_forward: return cpu::attention_values_forward<T>(k, o, scratch);
    case KernelKind::attention_values_backward: return cpu::attention_values_backward<T>(k, o, scratch);
    case KernelKind::attention_softmax_backward: return cpu::attention_softmax_backward<T>(k, o, scratch);
    case KernelKind::attention_scores_backward: return cpu::attention_scores_backward<T>(k, o, scratch);
    case KernelKind::attention_pairs_backward: return cpu::attention_pairs_backward<T>(k, o, scratch);
    case KernelKind::attention_merge: return cpu::attention_merge<T>(k, o, scratch);
    case KernelKind::swap_blocks: return cpu::swap_blocks(k, o);
    case KernelKind::add_to: return cpu::add_to<T>(o);
    case KernelKind::convert: return cpu::convert_to<T>(o);
    case KernelKind::gelu_forward: return cpu::gelu_forward<T>(o);
    case KernelKind::gelu_backward: return cpu::gelu_backward<T>(o);
    case KernelKind::swiglu_forward: return cpu::swiglu_forward<T>(k, o);
    case KernelKind::swiglu_backward: return cpu::swiglu_backward<T>(k, o);
    case KernelKind::route_tokens: return cpu::route_tokens(k, o, c);
    case KernelKind::choose_experts: return cpu::choose_experts<T>(k, o, scratch);
    case KernelKind::route_choices: return cpu::route_choices(k, o, c);
    case KernelKind::gates_forward: return cpu::gates_forward<T>(k, o, scratch);
    case KernelKind::gates_backward: return cpu::gates_backward<T>(k, o, c);
    case KernelKind::dispatch_forward: return cpu::dispatch_forward(k, o);
    case KernelKind::dispatch_backward: return cpu::dispatch_backward<T>(k, o, scratch);
    case KernelKind::combine_forward: return cpu::combine_forward<T>(k, o, scratch);
    case KernelKind::combine_backward: return cpu::combine_backward<T>(k, o, scratch);
    case KernelKind::expert_gemm: return cpu::expert_gemm<T>(k, o, scratch);
    case KernelKind::residual_forward: return cpu::residual_forward<T>(k, o, c);
    case KernelKind::dropout_forward: return cpu::dropout_forward<T>(k, o, c);
    case KernelKind::dropout_backward: return cpu::dropout_backward<T>(k, o);
    case KernelKind::cross_entropy_max: return cpu::cross_entropy_max<T>(k, o, scratch);
    case KernelKind::cross_entropy_sum: return cpu::cross_entropy_sum<T>(k, o, scratch);
    case KernelKind::cross_entropy_loss: return cpu::cross_entropy_loss(k, o);
    case KernelKind::cross_entropy_backward: return cpu::cross_entropy_backward<T>(k, o, scratch);
    case KernelKind::mean_loss: return cpu::mean_loss(o);
    case KernelKind::add_losses: return cpu::add_losses(k, o);
    case KernelKind::sum_squares: return cpu::sum_squares<T>(k, o);
    case KernelKind::clip_factor: return cpu::clip_factor(k, o, c);
    case KernelKind::advance_step: return cpu::advance_step(k, o);
    case KernelKind::sgd_update: return cpu::sgd_update<T>(k, o, c);
    case KernelKind::adam_update: return cpu::adam_update<T>(k, o, c);
    case KernelKind::lamb_moments: return cpu::lamb_moments<T>(k, o, c);
    case KernelKind::lamb_update: return cpu::lamb_update<T>(k, o, c);
    case KernelKind::lars_norms: return cpu::lars_norms<T>(k, o, c);
    case KernelKind::lars_update: return cpu::lars_update<T>(k, o, c);
    case KernelKind::adafactor_squares: return cpu::adafactor_squares<T>(k, o, c);
    case KernelKind::adafactor_moments: return cpu::adafactor_moments<T>(k, o, c);
    case KernelKind::adafactor_update: return cpu::adafactor_update<T>(k, o, c);
  }
}

}  // namespace

bool needs_place(const Kernel& k) {
  switch (k.kind) {
    case KernelKind::load_tokens:
    case KernelKind::load_targets:
    case KernelKind::load_segments:
    case KernelKind::load_patches:
    case KernelKind::class_token_forward:
    case KernelKind::class_token_backward:
    case KernelKind::latent_heads_forward:
    case KernelKind::latent_heads_backward:
    case KernelKind::initialize:
    case KernelKind::embed_forward:
    case KernelKind::embed_backward:
    case KernelKind::position_forward:
    case KernelKind::position_backward:
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
    case KernelKind::route_tokens:
    case KernelKind::route_choices:
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward:
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_pairs_backward:
    case KernelKind::cross_entropy_max:
    case KernelKind::cross_entropy_sum:
    case KernelKind::cross_entropy_backward:
    case KernelKind::lamb_moments:
    case KernelKind::lamb_update:
    case KernelKind::lars_norms:
    case KernelKind::adafactor_squares:
    case KernelKind::adafactor_moments:
    case KernelKind::adafactor_update: return true;
    case KernelKind::lars_update: return k.depth > 0;
    case KernelKind::gates_backward: return k.options.loads;
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
    case KernelKind::residual_forward:
    case KernelKind::dropout_forward: return k.options.dropout;
    case KernelKind::segment_forward:
    case KernelKind::segment_backward:
    case KernelKind::count_targets:
    case KernelKind::fill:
    case KernelKind::initialize_scale:
    case KernelKind::layer_norm_forward:
    case KernelKind::layer_norm_backward_input:
    case KernelKind::layer_norm_backward_weight:
    case KernelKind::rms_norm_forward:
    case KernelKind::rms_norm_backward_input:
    case KernelKind::rms_norm_backward_weight:
    case KernelKind::norm_sums:
    case KernelKind::norm_squares:
    case KernelKind::norm_gradient_sums:
    case KernelKind::gemm:
    case KernelKind::bias_forward:
    case KernelKind::bias_backward:
    case KernelKind::pack_keys_values:
    case KernelKind::unpack_gradients:
    case KernelKind::split_keys_values:
    case KernelKind::attention_softmax_forward:
    case KernelKind::attention_values_forward:
    case KernelKind::attention_values_backward:
    case KernelKind::attention_softmax_backward:
    case KernelKind::attention_scores_backward:
    case KernelKind::attention_merge:
    case KernelKind::swap_blocks:
    case KernelKind::add_to:
    case KernelKind::convert:
    case KernelKind::gelu_forward:
    case KernelKind::gelu_backward:
    case KernelKind::swiglu_forward:
    case KernelKind::swiglu_backward:
    case KernelKind::choose_experts:
    case KernelKind::gates_forward:
    case KernelKind::dispatch_forward:
    case KernelKind::dispatch_backward:
    case KernelKind::combine_forward:
    case KernelKind::combine_backward:
    case KernelKind::expert_gemm:
    case KernelKind::dropout_backward:
    case KernelKind::cross_entropy_loss:
    case KernelKind::mean_loss:
    case KernelKind::add_losses:
    case KernelKind::sum_squares:
    case KernelKind::clip_factor:
    case KernelKind::advance_step:
    case KernelKind::sgd_update:
    case KernelKind::adam_update: return false;
  }
  return false;
}

void run_kernel(const Kernel& kernel, std::span<const Operand> operands, const KernelContext& context) {
  ORRERY_ASSERT(context.scratch != nullptr);
  if (kernel.compute == DType::f64) {
    run_typed<double>(kernel, operands, context);
  } else {
    run_typed<float>(kernel, operands, context);
  }
}

}  // namespace orrery
