#include "core/program/verify_operand_table.hpp"

namespace orrery::verifying {

void KernelTable::fill() {
  const double rows = static_cast<double>(k_.rows);
  const double columns = static_cast<double>(k_.columns);
  const double depth = static_cast<double>(k_.depth);
  const double all = rows * columns;
  const double batch = k_.batch;
  const bool bias = k_.options.bias;
  const bool dropout = k_.options.dropout;
  switch (k_.kind) {
    case KernelKind::load_tokens: w("tokens", rows); break;
    case KernelKind::load_targets: w("targets", rows); break;
    case KernelKind::load_segments: w("segments", rows); break;
    case KernelKind::load_patches: w("patches", all); break;
    case KernelKind::count_targets: w("count", 1); break;
    case KernelKind::fill: w("x", any), repeats_ = true; break;
    case KernelKind::initialize: w("parameters", any); break;
    case KernelKind::initialize_scale: w("loss_scale", 2); break;
    case KernelKind::embed_forward: r("tokens", rows), r("table", depth * columns), w("x", all); break;
    case KernelKind::embed_backward: r("tokens", rows), r("dx", all), a("dtable", depth * columns); break;
    case KernelKind::position_forward: a("x", all), r("table", any); break;
    case KernelKind::position_backward: r("dx", all), a("dtable", any); break;
    case KernelKind::segment_forward: r("segments", rows), a("x", all), r("table", depth * columns); break;
    case KernelKind::segment_backward: r("segments", rows), r("dx", all), a("dtable", depth * columns); break;
    case KernelKind::class_token_forward: a("x", all), r("token", columns), r("bias", columns); break;
    case KernelKind::class_token_backward: r("dx", all), a("dtoken", columns), a("dbias", columns); break;
    case KernelKind::layer_norm_forward:
      r("x", all), r("gamma", columns), r("beta", columns);
      if (k_.options.cut) r("sums", rows), r("squares", rows);
      w("y", all), w("stats", 2 * rows);
      break;
    case KernelKind::layer_norm_backward_input:
      r("dy", all), r("x", all), r("gamma", columns), r("stats", 2 * rows);
      if (k_.options.cut) r("gradient sums", 2 * rows);
      residual(all);
      break;
    case KernelKind::layer_norm_backward_weight:
      r("dy", all), r("x", all), r("stats", 2 * rows), a("dgamma", columns), a("dbeta", columns);
      break;
    case KernelKind::rms_norm_forward:
      r("x", all), r("gamma", columns);
      if (k_.options.cut) r("squares", rows);
      w("y", all), w("stats", rows);
      break;
    case KernelKind::rms_norm_backward_input:
      r("dy", all), r("x", all), r("gamma", columns), r("stats", rows);
      if (k_.options.cut) r("gradient sums", rows);
      residual(all);
      break;
    case KernelKind::rms_norm_backward_weight: r("dy", all), r("x", all), r("stats", rows), a("dgamma", columns); break;
    case KernelKind::norm_sums: r("x", all), w("sums", rows); break;
    case KernelKind::norm_squares:
      r("x", all);
      if (k_.options.centered) r("sums", rows);
      w("squares", rows);
      break;
    case KernelKind::norm_gradient_sums: {
      const double per_row = k_.options.centered ? 2 : 1;
      r("dy", all), r("x", all), r("gamma", columns), r("stats", per_row * rows), w("sums", per_row * rows);
      break;
    }
    case KernelKind::gemm:
      r("A", rows * depth), r("B", depth * columns), w("C", all);
      if (bias) r("bias", columns);
      break;
    case KernelKind::bias_forward: r("bias", columns), a("x", all); break;
    case KernelKind::bias_backward: r("dy", all), a("dbias", columns); break;
    case KernelKind::rope_forward:
    case KernelKind::rope_backward:
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
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
    case KernelKind::attention_pairs_backward: attention(); break;
    case KernelKind::add_to: r("x", all), a("sum", all); break;
    case KernelKind::convert: r("x", all), w("y", all); break;
    case KernelKind::swap_blocks: r("x", all * depth), w("y", all * depth); break;
    case KernelKind::gelu_forward: r("pre", all), w("y", all); break;
    case KernelKind::gelu_backward: r("pre", all), a("d", all); break;
    case KernelKind::swiglu_forward: r("pre", 2 * all), w("y", all); break;
    case KernelKind::swiglu_backward: r("pre", 2 * all), r("dy", all), w("dpre", 2 * all); break;
    case KernelKind::route_tokens: w("choice", rows * batch), w("slots", depth), w("experts", depth); break;
    case KernelKind::choose_experts: r("logits", all), w("choice", rows * batch); break;
    case KernelKind::route_choices:
      r("choice", rows * batch), w("slots", depth), w("experts", depth);
      if (k_.options.loads) w("loads", any);
      break;
    case KernelKind::gates_forward: r("logits", all), r("choice", rows * batch), w("gates", rows * batch); break;
    case KernelKind::gates_backward:
      r("dgates", rows * batch), r("logits", all), r("choice", rows * batch);
      if (k_.options.scaled) r("loss_scale", 2);
      if (k_.options.loads) r("loads", any);
      w("dlogits", all);
      break;
    case KernelKind::dispatch_forward: r("x", all), r("slots", depth), w("rows", depth * columns); break;
    case KernelKind::dispatch_backward:
      r("drows", depth * columns), r("slots", depth);
      if (k_.options.residual) r("residual", all);
      w("dx", all);
      break;
    case KernelKind::combine_forward:
      r("rows", depth * columns), r("slots", depth), r("gates", rows * batch);
      if (k_.options.residual) r("residual", all);
      w("y", all);
      break;
    case KernelKind::combine_backward:
      r("dy", all), r("rows", depth * columns), r("slots", depth), r("gates", rows * batch);
      w("drows", depth * columns), w("dgates", rows * batch);
      break;
    case KernelKind::expert_gemm: {
      const bool to_weight = k_.options.transpose_a;
      r("A", rows * depth), r("B", depth * columns * (to_weight ? 1.0 : batch));
      r("experts", to_weight ? depth : rows), w("C", all * (to_weight ? batch : 1.0));
      break;
    }
    case KernelKind::residual_forward:
      r("x", all);
      if (bias) r("bias", columns);
      r("residual", all), w("y", all);
      if (dropout) w("mask", all);
      break;
    case KernelKind::dropout_forward: a("x", all), w("mask", all); break;
    case KernelKind::dropout_backward: r("dy", all), r("mask", all), w("dx", all); break;
    case KernelKind::cross_entropy_max: r("logits", all), w("max", rows); break;
    case KernelKind::cross_entropy_sum:
      r("logits", all), r("max", rows), r("targets", rows), w("sum", rows), w("target_logit", rows);
      break;
    case KernelKind::cross_entropy_loss:
      r("max", rows), r("sum", rows), r("target_logit", rows), r("targets", rows), a("loss", 1);
      break;
    case KernelKind::cross_entropy_backward:
      a("logits", all), r("max", rows), r("sum", rows), r("targets", rows), r("count", 1);
      if (k_.options.scaled) r("loss_scale", 2);
      break;
    case KernelKind::mean_loss: a("loss", 1), r("count", 1); break;
    case KernelKind::add_losses: r("losses", rows), a("loss", 1); break;
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
    case KernelKind::adafactor_update: optimizer(); break;
  }
}

}  // namespace orrery::verifying
