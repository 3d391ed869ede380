#include "core/program/kernel.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {

std::string_view name_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::load_tokens: return "load_tokens";
    case KernelKind::load_targets: return "load_targets";
    case KernelKind::load_segments: return "load_segments";
    case KernelKind::load_patches: return "load_patches";
    case KernelKind::count_targets: return "count_targets";
    case KernelKind::fill: return "fill";
    case KernelKind::initialize: return "initialize";
    case KernelKind::initialize_scale: return "initialize_scale";
    case KernelKind::embed_forward: return "embed_forward";
    case KernelKind::embed_backward: return "embed_backward";
    case KernelKind::position_forward: return "position_forward";
    case KernelKind::position_backward: return "position_backward";
    case KernelKind::segment_forward: return "segment_forward";
    case KernelKind::segment_backward: return "segment_backward";
    case KernelKind::class_token_forward: return "class_token_forward";
    case KernelKind::class_token_backward: return "class_token_backward";
    case KernelKind::layer_norm_forward: return "layer_norm_forward";
    case KernelKind::layer_norm_backward_input: return "layer_norm_backward_input";
    case KernelKind::layer_norm_backward_weight: return "layer_norm_backward_weight";
    case KernelKind::rms_norm_forward: return "rms_norm_forward";
    case KernelKind::rms_norm_backward_input: return "rms_norm_backward_input";
    case KernelKind::rms_norm_backward_weight: return "rms_norm_backward_weight";
    case KernelKind::norm_sums: return "norm_sums";
    case KernelKind::norm_squares: return "norm_squares";
    case KernelKind::norm_gradient_sums: return "norm_gradient_sums";
    case KernelKind::gemm: return "gemm";
    case KernelKind::bias_forward: return "bias_forward";
    case KernelKind::bias_backward: return "bias_backward";
    case KernelKind::rope_forward: return "rope_forward";
    case KernelKind::rope_backward: return "rope_backward";
    case KernelKind::attention_unfused_forward: return "attention_unfused_forward";
    case KernelKind::attention_unfused_backward: return "attention_unfused_backward";
    case KernelKind::attention_flash_forward: return "attention_flash_forward";
    case KernelKind::attention_flash_backward: return "attention_flash_backward";
    case KernelKind::latent_heads_forward: return "latent_heads_forward";
    case KernelKind::latent_heads_backward: return "latent_heads_backward";
    case KernelKind::pack_keys_values: return "pack_keys_values";
    case KernelKind::attention_part_forward: return "attention_part_forward";
    case KernelKind::attention_part_backward: return "attention_part_backward";
    case KernelKind::unpack_gradients: return "unpack_gradients";
    case KernelKind::split_keys_values: return "split_keys_values";
    case KernelKind::attention_scores_forward: return "attention_scores_forward";
    case KernelKind::attention_softmax_forward: return "attention_softmax_forward";
    case KernelKind::attention_values_forward: return "attention_values_forward";
    case KernelKind::attention_values_backward: return "attention_values_backward";
    case KernelKind::attention_softmax_backward: return "attention_softmax_backward";
    case KernelKind::attention_scores_backward: return "attention_scores_backward";
    case KernelKind::attention_pairs_backward: return "attention_pairs_backward";
    case KernelKind::attention_merge: return "attention_merge";
    case KernelKind::swap_blocks: return "swap_blocks";
    case KernelKind::add_to: return "add_to";
    case KernelKind::convert: return "convert";
    case KernelKind::gelu_forward: return "gelu_forward";
    case KernelKind::gelu_backward: return "gelu_backward";
    case KernelKind::swiglu_forward: return "swiglu_forward";
    case KernelKind::swiglu_backward: return "swiglu_backward";
    case KernelKind::route_tokens: return "route_tokens";
    case KernelKind::choose_experts: return "choose_experts";
    case KernelKind::route_choices: return "route_choices";
    case KernelKind::gates_forward: return "gates_forward";
    case KernelKind::gates_backward: return "gates_backward";
    case KernelKind::dispatch_forward: return "dispatch_forward";
    case KernelKind::dispatch_backward: return "dispatch_backward";
    case KernelKind::combine_forward: return "combine_forward";
    case KernelKind::combine_backward: return "combine_backward";
    case KernelKind::expert_gemm: return "expert_gemm";
    case KernelKind::residual_forward: return "residual_forward";
    case KernelKind::dropout_forward: return "dropout_forward";
    case KernelKind::dropout_backward: return "dropout_backward";
    case KernelKind::cross_entropy_max: return "cross_entropy_max";
    case KernelKind::cross_entropy_sum: return "cross_entropy_sum";
    case KernelKind::cross_entropy_loss: return "cross_entropy_loss";
    case KernelKind::cross_entropy_backward: return "cross_entropy_backward";
    case KernelKind::mean_loss: return "mean_loss";
    case KernelKind::add_losses: return "add_losses";
    case KernelKind::sum_squares: return "sum_squares";
    case KernelKind::clip_factor: return "clip_factor";
    case KernelKind::advance_step: return "advance_step";
    case KernelKind::sgd_update: return "sgd_update";
    case KernelKind::adam_update: return "adam_update";
    case KernelKind::lamb_moments: return "lamb_moments";
    case KernelKind::lamb_update: return "lamb_update";
    case KernelKind::lars_norms: return "lars_norms";
    case KernelKind::lars_update: return "lars_update";
    case KernelKind::adafactor_squares: return "adafactor_squares";
    case KernelKind::adafactor_moments: return "adafactor_moments";
    case KernelKind::adafactor_update: return "adafactor_update";
  }
  return "";
}

std::string_view name_of(Pass pass) {
  switch (pass) {
    case Pass::setup: return "setup";
    case Pass::forward: return "forward";
    case Pass::recompute: return "recompute";
    case Pass::input_gradient: return "input_gradient";
    case Pass::weight_gradient: return "weight_gradient";
    case Pass::loss: return "loss";
    case Pass::optimizer: return "optimizer";
  }
  return "";
}

std::uint32_t score_width(const Kernel& k) {
  const std::uint32_t value = k.value_dim > 0 ? k.value_dim : k.head_dim;
  switch (k.kind) {
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_scores_backward: return k.head_dim;
    case KernelKind::attention_values_forward:
    case KernelKind::attention_values_backward: return value;
    case KernelKind::attention_pairs_backward: return k.head_dim + value;
    default: return 0;
  }
}

KernelFlops flops_of(const Kernel& k) {
  switch (k.kind) {
    case KernelKind::gemm: {
      const double f =
          2.0 * static_cast<double>(k.rows) * static_cast<double>(k.columns) * static_cast<double>(k.depth);
      return {f, f};
    }
    case KernelKind::expert_gemm: {
      const double f = 2.0 * k.parameter * static_cast<double>(k.columns) *
                       static_cast<double>(k.options.transpose_a ? k.rows : k.depth);
      return {f, f};
    }
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_unfused_backward:
    case KernelKind::attention_flash_backward: {
      ORRERY_ASSERT(k.batch > 0, k.batch);
      const double s = static_cast<double>(k.rows) / k.batch;
      // Scores and context take 2 s^2 d and 2 s^2 e per head and sequence, where d and e are the widths of a key and a
      // value.
      const double product = 2.0 * static_cast<double>(k.rows) * s * k.heads;
      const double scores = product * k.head_dim;
      const double forward = scores + product * static_cast<double>(k.value_dim > 0 ? k.value_dim : k.head_dim);
      const bool backward =
          k.kind == KernelKind::attention_unfused_backward || k.kind == KernelKind::attention_flash_backward;
      // Backward has two products for each. Flash also recomputes the scores, a fifth product (Dao et al. 2022), which
      // is executed but not counted as the model's.
      const double counted = backward ? 2.0 * forward : forward;
      const double products = k.kind == KernelKind::attention_flash_backward ? counted + scores : counted;
      const double visible = k.options.causal ? (s + 1.0) / (2.0 * s) : 1.0;
      return {counted, products * visible};
    }
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward: {
      ORRERY_ASSERT(k.batch > 0, k.batch);
      const double value = k.value_dim > 0 ? k.value_dim : k.head_dim;
      const double scores = 2.0 * k.batch * k.heads * k.head_dim;  // per pair
      const double forward = scores + 2.0 * k.batch * k.heads * value;
      const double all = static_cast<double>(k.rows) / k.batch * (static_cast<double>(k.depth) / k.batch);
      const bool backward = k.kind == KernelKind::attention_part_backward;
      return {forward * all * (backward ? 2.0 : 1.0), k.parameter * (backward ? 2.0 * forward + scores : forward)};
    }
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_scores_backward:
    case KernelKind::attention_values_forward:
    case KernelKind::attention_values_backward:
    case KernelKind::attention_pairs_backward: {
      ORRERY_ASSERT(k.batch > 0, k.batch);
      const double pairs = static_cast<double>(k.rows) * static_cast<double>(k.depth) / k.batch * k.heads;
      const double f = 2.0 * pairs * score_width(k);  // masked or not
      return {f, f};
    }
    default: return {};  // elementwise kernels: not counted by convention, priced by bytes
  }
}

double busiest_flops(const Kernel& k) {
  const double executed = flops_of(k).executed;
  if (k.kind == KernelKind::expert_gemm) {
    return 2.0 * static_cast<double>(k.rows) * static_cast<double>(k.columns) * static_cast<double>(k.depth);
  }
  const bool part = k.kind == KernelKind::attention_part_forward || k.kind == KernelKind::attention_part_backward;
  return part ? executed / k.parameter * static_cast<double>(k.columns) : executed;
}

}  // namespace orrery
