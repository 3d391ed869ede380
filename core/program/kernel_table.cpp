#include "core/program/kernel_table.hpp"

#include "core/base/diagnostics.hpp"
#include "core/program/operand_elements.hpp"

namespace orrery {
namespace {

using namespace elements;
using A = Arithmetic;
using K = KernelKind;
using N = OperandName;
using W = WorkKind;
constexpr OperandRow::Elements any = nullptr;

constexpr OperandRow r(N name, OperandRow::Elements n, When when = When::always) {
  return {name, View::Use::read, n, when};
}
constexpr OperandRow w(N name, OperandRow::Elements n, When when = When::always) {
  return {name, View::Use::write, n, when};
}
constexpr OperandRow a(N name, OperandRow::Elements n, When when = When::always) {
  return {name, View::Use::accumulate, n, when};
}
/// A result that is written or added to.
constexpr OperandRow wa(N name, OperandRow::Elements n) { return {name, View::Use::write, n, When::always, true}; }
constexpr OperandRow many(OperandRow row) {
  row.repeats = true;
  return row;
}

constexpr KernelTraits host{};
constexpr KernelTraits host_placed{.placed = When::always};
constexpr KernelTraits gpu{.gpu = true};
constexpr KernelTraits gpu_placed{.gpu = true, .placed = When::always};
constexpr KernelTraits gpu_dropout{.gpu = true, .placed = When::dropout};
constexpr KernelTraits update{.parameters = true, .gpu = true};
constexpr KernelTraits update_placed{.parameters = true, .gpu = true, .placed = When::always};

constexpr KernelTraits gpu_arithmetic(A how, When placed = When::never) {
  return {.arithmetic = how, .gpu = true, .placed = placed};
}
constexpr KernelTraits gpu_attention(A how) { return gpu_arithmetic(how, When::dropout_or_alibi); }

template <class... Operands>
constexpr KernelRow row(K kind, std::string_view word, W work, KernelTraits traits, Operands... operands) {
  return {kind, word, work, {operands...}, traits};
}

/// In the order of KernelKind.
constexpr std::array<KernelRow, kernel_kind_count> table = {
    row(K::load_tokens, "load_tokens", W::elementwise, host_placed, w(N::tokens, rows)),
    row(K::load_targets, "load_targets", W::elementwise, host_placed, w(N::targets, rows)),
    row(K::load_segments, "load_segments", W::elementwise, host_placed, w(N::segments, rows)),
    row(K::load_patches, "load_patches", W::elementwise, host_placed, w(N::patches, all)),
    row(K::count_targets, "count_targets", W::elementwise, host, w(N::count, one)),
    row(K::fill, "fill", W::elementwise, gpu, many(w(N::x, any))),
    row(K::initialize, "initialize", W::elementwise, host_placed, w(N::parameters, any)),
    row(K::initialize_scale, "initialize_scale", W::elementwise, host, w(N::loss_scale, two)),

    row(K::embed_forward, "embed_forward", W::embedding, gpu_placed, r(N::tokens, rows), r(N::table, depth_columns),
        w(N::x, all)),
    row(K::embed_backward, "embed_backward", W::embedding, gpu_placed, r(N::tokens, rows), r(N::dx, all),
        a(N::dtable, depth_columns)),
    row(K::position_forward, "position_forward", W::embedding, gpu_placed, a(N::x, all), r(N::table, any)),
    row(K::position_backward, "position_backward", W::embedding, gpu_placed, r(N::dx, all), a(N::dtable, any)),
    row(K::segment_forward, "segment_forward", W::embedding, gpu, r(N::segments, rows), a(N::x, all),
        r(N::table, depth_columns)),
    row(K::segment_backward, "segment_backward", W::embedding, gpu, r(N::segments, rows), r(N::dx, all),
        a(N::dtable, depth_columns)),
    row(K::class_token_forward, "class_token_forward", W::embedding, gpu_placed, a(N::x, all), r(N::token, columns),
        r(N::bias, columns, When::biased)),
    row(K::class_token_backward, "class_token_backward", W::embedding, gpu_placed, r(N::dx, all), a(N::dtoken, columns),
        a(N::dbias, columns, When::biased)),

    row(K::layer_norm_forward, "layer_norm_forward", W::norm, gpu, r(N::x, all), r(N::gamma, columns, When::weighted),
        r(N::beta, columns, When::biased), r(N::sums, rows, When::cut), r(N::squares, rows, When::cut), w(N::y, all),
        w(N::stats, two_rows)),
    row(K::layer_norm_backward_input, "layer_norm_backward_input", W::norm, gpu, r(N::dy, all), r(N::x, all),
        r(N::gamma, columns, When::weighted), r(N::stats, two_rows), r(N::gradient_sums, two_rows, When::cut),
        a(N::dx, all, When::no_residual), r(N::residual, all, When::residual), w(N::dx, all, When::residual)),
    row(K::layer_norm_backward_weight, "layer_norm_backward_weight", W::norm, gpu, r(N::dy, all), r(N::x, all),
        r(N::stats, two_rows), a(N::dgamma, columns), a(N::dbeta, columns, When::biased)),
    row(K::rms_norm_forward, "rms_norm_forward", W::norm, gpu, r(N::x, all), r(N::gamma, columns, When::weighted),
        r(N::squares, rows, When::cut), w(N::y, all), w(N::stats, rows)),
    row(K::rms_norm_backward_input, "rms_norm_backward_input", W::norm, gpu, r(N::dy, all), r(N::x, all),
        r(N::gamma, columns, When::weighted), r(N::stats, rows), r(N::gradient_sums, rows, When::cut),
        a(N::dx, all, When::no_residual), r(N::residual, all, When::residual), w(N::dx, all, When::residual)),
    row(K::rms_norm_backward_weight, "rms_norm_backward_weight", W::norm, gpu, r(N::dy, all), r(N::x, all),
        r(N::stats, rows), a(N::dgamma, columns)),
    row(K::norm_sums, "norm_sums", W::norm, gpu, r(N::x, all), w(N::sums, rows)),
    row(K::norm_squares, "norm_squares", W::norm, gpu, r(N::x, all), r(N::sums, rows, When::centered),
        w(N::squares, rows)),
    row(K::norm_gradient_sums, "norm_gradient_sums", W::norm, gpu, r(N::dy, all), r(N::x, all),
        r(N::gamma, columns, When::weighted), r(N::stats, statistics), w(N::sums, statistics)),
    row(K::query_key_norm_forward, "query_key_norm_forward", W::norm, gpu, r(N::x, qkv),
        r(N::query_gamma, query_weights, When::weighted), r(N::key_gamma, key_weights, When::weighted),
        r(N::squares, two_rows, When::cut), w(N::y, qkv), w(N::stats, query_key_statistics)),
    row(K::query_key_norm_backward_input, "query_key_norm_backward_input", W::norm, gpu, r(N::dy, qkv), r(N::x, qkv),
        r(N::query_gamma, query_weights, When::weighted), r(N::key_gamma, key_weights, When::weighted),
        r(N::stats, query_key_statistics), r(N::gradient_sums, two_rows, When::cut), w(N::dx, qkv)),
    row(K::query_key_norm_backward_weight, "query_key_norm_backward_weight", W::norm, gpu, r(N::dy, qkv), r(N::x, qkv),
        r(N::stats, query_key_statistics), a(N::dquery_gamma, query_weights), a(N::dkey_gamma, key_weights)),
    row(K::query_key_squares, "query_key_squares", W::norm, gpu, r(N::x, qkv), w(N::squares, two_rows)),
    row(K::query_key_gradient_sums, "query_key_gradient_sums", W::norm, gpu, r(N::dy, qkv), r(N::x, qkv),
        r(N::query_gamma, query_weights, When::weighted), r(N::key_gamma, key_weights, When::weighted),
        r(N::stats, query_key_statistics), w(N::sums, two_rows)),

    row(K::gemm, "gemm", W::gemm, gpu_arithmetic(A::product), r(N::a, rows_depth), r(N::b, depth_columns),
        wa(N::c, all), r(N::bias, columns, When::bias)),
    row(K::adapter_forward, "adapter_forward", W::gemm, gpu_arithmetic(A::adapter_product), r(N::x, adapter_inputs),
        r(N::weight, adapter_factor), a(N::y, all)),
    row(K::adapter_backward_input, "adapter_backward_input", W::gemm, gpu_arithmetic(A::adapter_product), r(N::dy, all),
        r(N::weight, adapter_factor), w(N::dx, adapter_inputs)),
    row(K::adapter_backward_weight, "adapter_backward_weight", W::gemm, gpu_arithmetic(A::adapter_product),
        r(N::x, adapter_inputs), r(N::dy, all), a(N::dweights, adapter_factor)),
    row(K::bias_forward, "bias_forward", W::elementwise, gpu, r(N::bias, columns), a(N::x, all)),
    row(K::bias_backward, "bias_backward", W::elementwise, gpu, r(N::dy, all), a(N::dbias, columns)),

    row(K::rope_forward, "rope_forward", W::elementwise, gpu_placed, a(N::qkv, qkv)),
    row(K::rope_backward, "rope_backward", W::elementwise, gpu_placed, a(N::dqkv, qkv)),
    row(K::attention_unfused_forward, "attention_unfused_forward", W::attention, gpu_attention(A::attention_forward),
        r(N::qkv, qkv), w(N::context, contexts), w(N::probabilities, scores), w(N::mask, scores, When::dropout),
        w(N::dropped, scores, When::dropout), r(N::sinks, heads, When::sinks), w(N::lse, row_sums, When::sinks)),
    row(K::attention_unfused_backward, "attention_unfused_backward", W::attention, gpu_attention(A::attention_backward),
        r(N::dcontext, contexts), r(N::qkv, qkv), r(N::probabilities, scores), r(N::mask, scores, When::dropout),
        r(N::dropped, scores, When::dropout), w(N::dqkv, qkv), w(N::dscores, scores)),
    row(K::attention_flash_forward, "attention_flash_forward", W::attention, gpu_attention(A::attention_forward),
        r(N::qkv, qkv), w(N::context, contexts), w(N::lse, row_sums), r(N::sinks, heads, When::sinks)),
    row(K::attention_flash_backward, "attention_flash_backward", W::attention, gpu_attention(A::flash_backward),
        r(N::dcontext, contexts), r(N::qkv, qkv), r(N::context, contexts), r(N::lse, row_sums), w(N::dqkv, qkv),
        w(N::dq_accumulator, queries)),
    row(K::attention_sinks_backward, "attention_sinks_backward", W::attention, gpu, r(N::dcontext, contexts),
        r(N::context, contexts), r(N::lse, row_sums), r(N::sinks, heads), a(N::dsinks, heads)),
    row(K::latent_heads_forward, "latent_heads_forward", W::attention, gpu_placed, r(N::queries, queries),
        r(N::pairs, latent_pairs), r(N::key, all), w(N::qkv, qkv)),
    row(K::latent_heads_backward, "latent_heads_backward", W::attention, gpu_placed, r(N::dqkv, qkv),
        w(N::dqueries, queries), w(N::dpairs, latent_pairs), w(N::dkey, all)),

    row(K::pack_keys_values, "pack_keys_values", W::elementwise, gpu, r(N::qkv, qkv), w(N::kv, keys_values)),
    row(K::attention_part_forward, "attention_part_forward", W::attention,
        gpu_arithmetic(A::part_forward, When::always), r(N::qkv, qkv), r(N::kv, brought), w(N::context, contexts),
        w(N::lse, row_sums), r(N::sinks, heads, When::sinks)),
    row(K::attention_part_backward, "attention_part_backward", W::attention,
        gpu_arithmetic(A::part_backward, When::always), r(N::dcontext, contexts), r(N::qkv, qkv), r(N::kv, brought),
        r(N::context, contexts), r(N::lse, row_sums), wa(N::dq, queries), w(N::dkv, brought)),
    row(K::attention_merge, "attention_merge", W::attention, gpu, a(N::context, contexts), a(N::lse, row_sums),
        r(N::part, contexts), r(N::part_lse, row_sums)),
    row(K::unpack_gradients, "unpack_gradients", W::elementwise, gpu, r(N::dq, queries), r(N::dkv, keys_values),
        w(N::dqkv, qkv)),

    row(K::split_keys_values, "split_keys_values", W::elementwise, gpu, r(N::qkv, qkv), w(N::keys, keys),
        w(N::values, values)),
    row(K::attention_scores_forward, "attention_scores_forward", W::attention,
        gpu_arithmetic(A::key_scores, When::always), r(N::qkv, qkv), r(N::keys, brought_keys),
        w(N::scores, brought_scores), w(N::mask, brought_scores, When::dropout)),
    row(K::attention_softmax_forward, "attention_softmax_forward", W::attention, gpu, r(N::scores, brought_scores),
        w(N::probabilities, brought_scores), r(N::mask, brought_scores, When::dropout),
        w(N::weights, brought_scores, When::dropout)),
    row(K::attention_values_forward, "attention_values_forward", W::attention, gpu_arithmetic(A::value_scores),
        r(N::weights, brought_scores), r(N::values, brought_values), wa(N::context, contexts)),
    row(K::attention_values_backward, "attention_values_backward", W::attention, gpu_arithmetic(A::value_scores),
        r(N::dcontext, contexts), r(N::values, brought_values), w(N::dweights, brought_scores)),
    row(K::attention_softmax_backward, "attention_softmax_backward", W::attention, gpu,
        r(N::probabilities, brought_scores), r(N::mask, brought_scores, When::dropout), a(N::dscores, brought_scores)),
    row(K::attention_scores_backward, "attention_scores_backward", W::attention, gpu_arithmetic(A::key_scores),
        r(N::dscores, brought_scores), r(N::keys, brought_keys), wa(N::dq, queries)),
    row(K::attention_pairs_backward, "attention_pairs_backward", W::attention,
        gpu_arithmetic(A::pair_scores, When::always), r(N::dcontext, contexts), r(N::qkv, qkv),
        r(N::weights, brought_scores), r(N::dscores, brought_scores), w(N::dkv, brought)),
    row(K::swap_blocks, "swap_blocks", W::elementwise, gpu, r(N::x, all_depth), w(N::y, all_depth)),
    row(K::share_heads_forward, "share_heads_forward", W::elementwise, gpu_placed, r(N::x, all_depth), w(N::qkv, qkv)),
    row(K::share_heads_backward, "share_heads_backward", W::elementwise, gpu_placed, r(N::dqkv, qkv),
        w(N::dx, all_depth)),
    row(K::add_to, "add_to", W::elementwise, gpu, r(N::x, all), a(N::sum, all)),
    row(K::convert, "convert", W::elementwise, gpu, r(N::x, all), w(N::y, all)),

    row(K::gelu_forward, "gelu_forward", W::elementwise, gpu, r(N::pre, all), w(N::y, all)),
    row(K::gelu_backward, "gelu_backward", W::elementwise, gpu, r(N::pre, all), a(N::d, all)),
    row(K::swiglu_forward, "swiglu_forward", W::elementwise, gpu, r(N::pre, two_all), w(N::y, all)),
    row(K::swiglu_backward, "swiglu_backward", W::elementwise, gpu, r(N::pre, two_all), r(N::dy, all),
        w(N::dpre, two_all)),
    row(K::geglu_forward, "geglu_forward", W::elementwise, gpu, r(N::pre, two_all), w(N::y, all)),
    row(K::geglu_backward, "geglu_backward", W::elementwise, gpu, r(N::pre, two_all), r(N::dy, all),
        w(N::dpre, two_all)),
    row(K::relu_forward, "relu_forward", W::elementwise, gpu, r(N::pre, all), w(N::y, all)),
    row(K::relu_backward, "relu_backward", W::elementwise, gpu, r(N::pre, all), a(N::d, all)),
    row(K::squared_relu_forward, "squared_relu_forward", W::elementwise, gpu, r(N::pre, all), w(N::y, all)),
    row(K::squared_relu_backward, "squared_relu_backward", W::elementwise, gpu, r(N::pre, all), a(N::d, all)),
    row(K::quick_gelu_forward, "quick_gelu_forward", W::elementwise, gpu, r(N::pre, all), w(N::y, all)),
    row(K::quick_gelu_backward, "quick_gelu_backward", W::elementwise, gpu, r(N::pre, all), a(N::d, all)),
    row(K::clip_forward, "clip_forward", W::elementwise, gpu, r(N::pre, all), w(N::y, all)),
    row(K::clip_backward, "clip_backward", W::elementwise, gpu, r(N::pre, all), a(N::d, all)),

    row(K::route_tokens, "route_tokens", W::elementwise, gpu_placed, w(N::choice, choices), w(N::slots, depth),
        w(N::experts, depth)),
    row(K::choose_experts, "choose_experts", W::elementwise, gpu, r(N::logits, all), w(N::choice, choices)),
    row(K::route_choices, "route_choices", W::elementwise, gpu_placed, r(N::choice, choices), w(N::slots, depth),
        w(N::experts, depth), w(N::loads, any, When::loads)),
    row(K::gates_forward, "gates_forward", W::elementwise, gpu, r(N::logits, all), r(N::choice, choices),
        w(N::gates, choices)),
    row(K::gates_backward, "gates_backward", W::elementwise, KernelTraits{.gpu = true, .placed = When::loads},
        r(N::dgates, choices), r(N::logits, all), r(N::choice, choices), r(N::loss_scale, two, When::scaled),
        r(N::loads, any, When::loads), w(N::dlogits, all)),
    row(K::dispatch_forward, "dispatch_forward", W::elementwise, gpu, r(N::x, all), r(N::slots, depth),
        w(N::rows, depth_columns)),
    row(K::dispatch_backward, "dispatch_backward", W::elementwise, gpu, r(N::drows, depth_columns), r(N::slots, depth),
        r(N::residual, all, When::residual), w(N::dx, all)),
    row(K::combine_forward, "combine_forward", W::elementwise, gpu, r(N::rows, depth_columns), r(N::slots, depth),
        r(N::gates, choices), r(N::residual, all, When::residual), w(N::y, all)),
    row(K::combine_backward, "combine_backward", W::elementwise, gpu, r(N::dy, all), r(N::rows, depth_columns),
        r(N::slots, depth), r(N::gates, choices), w(N::drows, depth_columns), w(N::dgates, choices)),
    row(K::expert_gemm, "expert_gemm", W::gemm, gpu_arithmetic(A::expert_product), r(N::a, rows_depth),
        r(N::b, expert_factor), r(N::experts, expert_rows), wa(N::c, expert_results),
        r(N::bias, batch_columns, When::bias)),
    row(K::expert_bias_backward, "expert_bias_backward", W::elementwise, gpu, r(N::dy, all), r(N::experts, rows),
        a(N::dbias, batch_columns)),
    row(K::gate_forward, "gate_forward", W::elementwise, gpu, r(N::x, all), r(N::logits, rows), w(N::y, all)),
    row(K::gate_backward, "gate_backward", W::elementwise, gpu, r(N::dy, all), r(N::x, all), r(N::logits, rows),
        w(N::dx, all), w(N::dlogits, rows)),

    row(K::residual_forward, "residual_forward", W::elementwise, gpu_dropout, r(N::x, all),
        r(N::bias, columns, When::bias), r(N::residual, all), w(N::y, all), w(N::mask, all, When::dropout)),
    row(K::dropout_forward, "dropout_forward", W::elementwise, gpu_dropout, a(N::x, all), w(N::mask, all)),
    row(K::dropout_backward, "dropout_backward", W::elementwise, gpu, r(N::dy, all), r(N::mask, all), w(N::dx, all)),
    row(K::multiply, "multiply", W::elementwise, gpu, r(N::x, all), w(N::y, all)),

    row(K::scale_features_forward, "scale_features_forward", W::elementwise, gpu, r(N::x, all), r(N::gamma, columns),
        w(N::y, all)),
    row(K::scale_features_backward_input, "scale_features_backward_input", W::elementwise, gpu, r(N::dy, all),
        r(N::gamma, columns), w(N::dx, all)),
    row(K::scale_features_backward_weight, "scale_features_backward_weight", W::elementwise, gpu, r(N::dy, all),
        r(N::x, all), a(N::dgamma, columns)),
    row(K::mean_rows_forward, "mean_rows_forward", W::elementwise, gpu, r(N::x, all_depth), w(N::y, all)),
    row(K::mean_rows_backward, "mean_rows_backward", W::elementwise, gpu, r(N::dy, all), w(N::dx, all_depth)),

    row(K::scale_logits, "scale_logits", W::loss, gpu, a(N::logits, all)),
    row(K::cross_entropy_max, "cross_entropy_max", W::loss, gpu_placed, r(N::logits, all), w(N::max, rows)),
    row(K::cross_entropy_sum, "cross_entropy_sum", W::loss, gpu_placed, r(N::logits, all), r(N::max, rows),
        r(N::targets, rows), w(N::sum, rows), w(N::target_logit, rows)),
    row(K::cross_entropy_loss, "cross_entropy_loss", W::loss, gpu, r(N::max, rows), r(N::sum, rows),
        r(N::target_logit, rows), r(N::targets, rows), a(N::loss, one)),
    row(K::cross_entropy_backward, "cross_entropy_backward", W::loss, gpu_placed, a(N::logits, all), r(N::max, rows),
        r(N::sum, rows), r(N::targets, rows), r(N::count, one), r(N::loss_scale, two, When::scaled)),
    row(K::mean_loss, "mean_loss", W::loss, gpu, a(N::loss, one), r(N::count, one)),
    row(K::add_losses, "add_losses", W::loss, gpu, r(N::losses, rows), a(N::loss, one)),

    row(K::sum_squares, "sum_squares", W::optimizer, update, many(r(N::gradient, any)), a(N::norm, one)),
    row(K::clip_factor, "clip_factor", W::optimizer, gpu, r(N::norm, one), a(N::loss_scale, two, When::scaled),
        w(N::factor, two)),
    row(K::advance_step, "advance_step", W::optimizer, gpu, a(N::steps, one), r(N::factor, two, When::factor)),
    row(K::sgd_update, "sgd_update", W::optimizer, update, r(N::gradient, columns), r(N::steps, one),
        r(N::factor, two, When::factor), a(N::weight, columns), a(N::master, columns, When::master),
        a(N::m, columns, When::momentum)),
    row(K::adam_update, "adam_update", W::optimizer, update, r(N::gradient, columns), r(N::steps, one),
        r(N::factor, two, When::factor), a(N::weight, columns), a(N::master, columns, When::master), a(N::m, columns),
        a(N::v, columns), a(N::scales, moment_scales, When::scaled)),

    row(K::lamb_moments, "lamb_moments", W::optimizer, update_placed, r(N::gradient, columns), r(N::steps, one),
        r(N::factor, two, When::factor), r(N::exact, columns), a(N::m, columns), a(N::v, columns),
        a(N::norms, norm_pairs)),
    row(K::lamb_update, "lamb_update", W::optimizer, update_placed, r(N::norms, norm_pairs), r(N::steps, one),
        r(N::factor, two, When::factor), a(N::weight, columns), a(N::master, columns, When::master), r(N::m, columns),
        r(N::v, columns)),
    row(K::lars_norms, "lars_norms", W::optimizer, update_placed, r(N::gradient, columns),
        r(N::factor, two, When::factor), r(N::exact, columns), a(N::norms, norm_pairs)),
    row(K::lars_update, "lars_update", W::optimizer,
        KernelTraits{.parameters = true, .gpu = true, .placed = When::depth}, r(N::gradient, columns), r(N::steps, one),
        r(N::factor, two, When::factor), a(N::weight, columns), a(N::master, columns, When::master), a(N::m, columns),
        r(N::norms, norm_pairs, When::depth)),
    row(K::adafactor_squares, "adafactor_squares", W::optimizer, update_placed, r(N::gradient, columns),
        r(N::factor, two, When::factor), a(N::sums, depth)),
    row(K::adafactor_moments, "adafactor_moments", W::optimizer, update_placed, r(N::gradient, columns),
        r(N::sums, depth), r(N::steps, one), r(N::factor, two, When::factor), a(N::moments, depth), a(N::norms, batch)),
    row(K::adafactor_update, "adafactor_update", W::optimizer, update_placed, r(N::gradient, columns), r(N::steps, one),
        r(N::factor, two, When::factor), a(N::weight, columns), a(N::master, columns, When::master),
        r(N::moments, depth), r(N::norms, batch)),
    row(K::quantize_weight, "quantize_weight", W::elementwise, gpu, r(N::x, all), w(N::codes, base_codes),
        w(N::scales, base_scales)),
    row(K::dequantize_weight, "dequantize_weight", W::elementwise, gpu, r(N::codes, base_codes),
        r(N::scales, base_scales), w(N::y, all)),
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].kind != static_cast<K>(i) || table[i].word.empty()) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

bool holds(When when, const Kernel& k) {
  switch (when) {
    case When::always: return true;
    case When::never: return false;
    case When::bias: return k.options.bias;
    case When::dropout: return k.options.dropout;
    case When::factor: return k.options.factor;
    case When::master: return k.options.master;
    case When::momentum: return k.options.momentum;
    case When::scaled: return k.options.scaled;
    case When::cut: return k.options.cut;
    case When::centered: return k.options.centered;
    case When::loads: return k.options.loads;
    case When::residual: return k.options.residual;
    case When::no_residual: return !k.options.residual;
    case When::sinks: return k.options.sinks;
    case When::dropout_or_alibi: return k.options.dropout || k.options.alibi;
    case When::weighted: return !k.options.unweighted;
    case When::biased: return !k.options.unbiased && !k.options.unweighted;
    case When::depth: return k.depth > 0;
  }
  return false;
}

const KernelRow& row_of(KernelKind kind) { return table[static_cast<std::size_t>(kind)]; }

std::string_view name_of(KernelKind kind) { return row_of(kind).word; }

OperandList operands_of(const Kernel& k) {
  OperandList list;
  for (const OperandRow& operand : row_of(k.kind).operands) {
    if (holds(operand.when, k)) list.add(operand);
  }
  return list;
}

bool is_whole_attention(KernelKind kind) {
  const Arithmetic a = row_of(kind).traits.arithmetic;
  return a == Arithmetic::attention_forward || a == Arithmetic::attention_backward || a == Arithmetic::flash_backward;
}

OperandPlaces::OperandPlaces(const Kernel& k, std::size_t views) : extra_(views) {
  places_.fill(absent);
  const OperandList operands = operands_of(k);
  ORRERY_ASSERT(views >= operands.size() && views < absent, row_of(k.kind).word, views, operands.size());
  extra_ -= operands.size();
  std::size_t next = 0;
  for (const OperandRow& operand : operands) {
    places_[static_cast<std::size_t>(operand.name)] = static_cast<std::uint16_t>(next);
    next += operand.repeats ? extra_ + 1 : 1;
  }
}

}  // namespace orrery
