#include "exec/kernels/device/has_kernel.hpp"

#include <algorithm>

namespace orrery::device {

bool has_kernel(const Kernel& k, std::span<const Operand> operands) {
  if (std::any_of(operands.begin(), operands.end(), [](const Operand& o) { return o.dtype == DType::f8; })) {
    return k.kind == KernelKind::fill || (k.kind == KernelKind::adam_update && k.options.scaled);
  }
  switch (k.kind) {
    case KernelKind::fill:
    case KernelKind::embed_forward:
    case KernelKind::embed_backward:
    case KernelKind::position_forward:
    case KernelKind::position_backward:
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
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
    case KernelKind::add_to:
    case KernelKind::convert:
    case KernelKind::gelu_forward:
    case KernelKind::gelu_backward:
    case KernelKind::swiglu_forward:
    case KernelKind::swiglu_backward:
    case KernelKind::residual_forward:
    case KernelKind::dropout_forward:
    case KernelKind::dropout_backward:
    case KernelKind::cross_entropy_max:
    case KernelKind::cross_entropy_sum:
    case KernelKind::cross_entropy_loss:
    case KernelKind::cross_entropy_backward:
    case KernelKind::mean_loss:
    case KernelKind::add_losses:
    case KernelKind::sum_squares:
    case KernelKind::clip_factor:
    case KernelKind::advance_step:
    case KernelKind::sgd_update:
    case KernelKind::adam_update:
    case KernelKind::lamb_moments:
    case KernelKind::lamb_update:
    case KernelKind::lars_norms:
    case KernelKind::lars_update:
    case KernelKind::adafactor_squares:
    case KernelKind::adafactor_moments:
    case KernelKind::adafactor_update: return true;
    // These kernels read the data set, make initial weights or route tokens, or have no body yet.
    case KernelKind::load_tokens:
    case KernelKind::load_targets:
    case KernelKind::load_segments:
    case KernelKind::load_patches:
    case KernelKind::count_targets:
    case KernelKind::initialize:
    case KernelKind::initialize_scale:
    case KernelKind::segment_forward:
    case KernelKind::segment_backward:
    case KernelKind::class_token_forward:
    case KernelKind::class_token_backward:
    case KernelKind::latent_heads_forward:
    case KernelKind::latent_heads_backward:
    case KernelKind::pack_keys_values:
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward:
    case KernelKind::attention_merge:
    case KernelKind::unpack_gradients:
    case KernelKind::split_keys_values:
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_softmax_forward:
    case KernelKind::attention_values_forward:
    case KernelKind::attention_values_backward:
    case KernelKind::attention_softmax_backward:
    case KernelKind::attention_scores_backward:
    case KernelKind::attention_pairs_backward:
    case KernelKind::swap_blocks:
    case KernelKind::route_tokens:
    case KernelKind::choose_experts:
    case KernelKind::route_choices:
    case KernelKind::gates_forward:
    case KernelKind::gates_backward:
    case KernelKind::dispatch_forward:
    case KernelKind::dispatch_backward:
    case KernelKind::combine_forward:
    case KernelKind::combine_backward:
    case KernelKind::expert_gemm: return false;
  }
  return false;
}

}  // namespace orrery::device
