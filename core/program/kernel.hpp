#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/dtype.hpp"

namespace orrery {

/// What a Compute op computes. T is rows (tokens on this rank). The operands stand in [..] in the order of the op's
/// views; (x) stands only with its option. r, w, a: read, write, read and write. Token rows run position-major: row =
/// position * sequences + sequence, so a cut along the sequence length is a contiguous range of rows.
enum class KernelKind : std::uint8_t {
  // Data and scalars.
  load_tokens,    ///< [w tokens]                 rows; site: so many positions ahead, 0 behind the sequence's end
  load_targets,   ///< [w targets]                rows; -1: not counted in the loss; site: as above, -1 behind the end
  load_segments,  ///< [w segments]               rows; what kind of token stands there (BERT's sentence A or B)
  load_patches,   ///< [w patches]                rows of positions from 1 on, columns = local pixels of a patch
  count_targets,  ///< [w count]                  valid targets of the sequences that batch_axes give the rank; site
  fill,           ///< [w x ...]                  x = 0
  initialize,     ///< [w parameters]             from the parameter table, keyed by global element
  initialize_scale,  ///< [w loss_scale]             {scale, steps since the last change}

  // Embedding: rows = T, columns = hidden, depth = local vocabulary.
  embed_forward,         ///< [r tokens, r table, w x]   rows of other vocabulary shards give 0
  embed_backward,        ///< [r tokens, r dx, a dtable]
  position_forward,      ///< [a x, r table]             x += table[position]
  position_backward,     ///< [r dx, a dtable]
  segment_forward,       ///< [r segments, a x, r table]   x += table[segment]; depth = segments of the table
  segment_backward,      ///< [r segments, r dx, a dtable]
  class_token_forward,   ///< [a x, r token, r bias]    x = token at position 0, else x += bias; batch rows a position
  class_token_backward,  ///< [r dx, a dtoken, a dbias]

  // Norms: rows = T, columns = hidden.  stats: {mean, 1/deviation} or {1/rms} per row.
  layer_norm_forward,          ///< [r x, r gamma, r beta, w y, w stats]
  layer_norm_backward_input,   ///< [r dy, r x, r gamma, r stats, a dx | residual: r residual, w dx]   dx += ...
  layer_norm_backward_weight,  ///< [r dy, r x, r stats, a dgamma, a dbeta]
  rms_norm_forward,            ///< [r x, r gamma, w y, w stats]
  rms_norm_backward_input,     ///< [r dy, r x, r gamma, r stats, a dx | residual: r residual, w dx]
  rms_norm_backward_weight,    ///< [r dy, r x, r stats, a dgamma]

  // The same kernels where an axis cuts the columns (option cut). depth is the width of a whole row. The norms' kernels
  // take sums over that width as operands: these kernels make the sums over the local columns, and the axis then adds
  // them up. Layer norms are centered.
  //   layer_norm_forward  [r x, r gamma, r beta, r sums, r squares, w y, w stats];  rms: [r x, r gamma, r squares, ..]
  //   .._backward_input   [r dy, r x, r gamma, r stats, r gradient sums, a dx]
  norm_sums,           ///< [r x, w sums]                       of x
  norm_squares,        ///< [r x, (centered: r sums), w squares]  of (x - mean)^2
  norm_gradient_sums,  ///< [r dy, r x, r gamma, r stats, w sums] per row {of g, of g z} or {of g z}; g = dy gamma

  // C[rows, columns] (=, +=) op(A)[rows, depth] op(B)[depth, columns] (+ bias[columns])
  gemm,           ///< [r A, r B, w|a C, (bias: r bias)]
  bias_forward,   ///< [r bias, a x]              rows, columns: x += bias on every row
  bias_backward,  ///< [r dy, a dbias]            rows, columns: column sums

  // Attention on packed qkv[T, kv_heads, heads/kv_heads + 2, head_dim]: queries of
  // the group, then its key, then its value.  batch sequences of rows/batch tokens.
  // Rope rotates features (i, i + head_dim/2) by position * theta^(-2 i / head_dim).
  // With value_dim, values and contexts are that wide instead of head_dim.
  // Probabilities, mask, dropped and dscores are [batch, heads, query, key], lse is
  // [batch, heads, query], dq_accumulator [batch, heads, query, head_dim].
  rope_forward,                ///< [a qkv]                    rotates queries and keys in place
  rope_backward,               ///< [a dqkv]
  attention_unfused_forward,   ///< [r qkv, w context, w probabilities, (dropout: w mask, w dropped)]
  attention_unfused_backward,  ///< [r dcontext, r qkv, r probabilities, (dropout: r mask, r dropped), w dqkv, w
                               ///< dscores]
  attention_flash_forward,     ///< [r qkv, w context, w lse]
  attention_flash_backward,    ///< [r dcontext, r qkv, r context, r lse, w dqkv, w dq_accumulator]

  // Heads of latent attention, put together to packed qkv with kv_heads = heads. The parts are queries [T, heads,
  // head_dim], pairs [T, heads, head_dim - columns + value_dim] of key and value, and one key [T, columns] that all
  // heads share. The last `columns` features of a query rotate, and so does the shared key, which is the last part of
  // every key.
  latent_heads_forward,   ///< [r queries, r pairs, r key, w qkv]
  latent_heads_backward,  ///< [r dqkv, w dqueries, w dpairs, w dkey]   dkey sums over the local heads

  // Attention of this rank's queries on keys and values that were brought to it. rows counts tokens of the queries,
  // depth tokens of the keys: kv[depth, kv_heads, key and value]. The mask is causal by the global positions that the
  // shards of qkv and kv give. columns: pairs of query and key that the busiest rank multiplies, per sequence and head;
  // parameter: their mean over ranks. site: how many places back along the context axis the keys come from. With
  // `ring`, site mod ring of these places are inside the rank's ring of that many consecutive ranks, and the keys come
  // from site / ring rings back. Dropout's rate is the workload's. dq is [T, heads, head_dim]. Queries that see none of
  // the keys get 0 and a log-sum-exp of minus infinity.
  pack_keys_values,         ///< [r qkv, w kv]          rows: tokens of both
  attention_part_forward,   ///< [r qkv, r kv, w context, w lse]
  attention_part_backward,  ///< [r dcontext, r qkv, r kv, r context, r lse, w|a dq, w dkv]
  attention_merge,          ///< [a context, a lse, r part, r part lse]  of other keys
  unpack_gradients,         ///< [r dq, r dkv, w dqkv]  rows: tokens of all

  // Ring self-attention: scores of a whole row are kept, and keys and values go around one after the other. keys[depth,
  // kv_heads, head_dim] and values[depth, kv_heads, value_dim] are those of one rank, `site` places back. Scores of its
  // queries with them are [batch, heads, query, key]. They lie one rank's behind the other's, own first, so depth of
  // the softmax and of all pairs counts the tokens of all ranks. Masked scores are minus infinity. weights are
  // probabilities, after dropout where there is some; parameter: its rate.
  split_keys_values,           ///< [r qkv, w keys, w values]
  attention_scores_forward,    ///< [r qkv, r keys, w scores, (dropout: w mask)]
  attention_softmax_forward,   ///< [r scores, w probabilities, (dropout: r mask, w weights)]
  attention_values_forward,    ///< [r weights, r values, w|a context]
  attention_values_backward,   ///< [r dcontext, r values, w dweights]
  attention_softmax_backward,  ///< [r probabilities, (dropout: r mask), a dweights -> dscores]
  attention_scores_backward,   ///< [r dscores, r keys, w|a dq]
  attention_pairs_backward,  ///< [r dcontext, r qkv, r weights, r dscores, w dkv]   of all ranks' keys, in their order
  swap_blocks,               ///< [r x, w y]             y[depth, rows, columns] = x[rows, depth, columns]
  add_to,                    ///< [r x, a sum]
  convert,                   ///< [r x, w y]             to another element type

  // Feed-forward elementwise: rows = T, columns = local ffn.
  gelu_forward,     ///< [r pre, w y]               tanh form
  gelu_backward,    ///< [r pre, a d]               d *= gelu'(pre)
  swiglu_forward,   ///< [r pre[T, 2, f], w y[T, f]]  silu(gate) * up
  swiglu_backward,  ///< [r pre, r dy, w dpre]

  // Mixtures (docs/formulas/mixtures.md): rows = T, columns = experts or features, batch = experts per token. A rank
  // sends
  // `depth` rows, an equal part to each of the ranks that share the experts. `slots` say which choice of which token
  // stands in each row (token * batch + choice; -1: nothing). `experts` say for which local expert the arriving rows
  // are. Choices follow from the workload's routing, global positions and the layer; gates follow from the router's
  // logits.
  /// With limited routing a token visits experts of some groups only: kv_heads groups, head_dim of them for each token;
  /// 0: any.
  route_tokens,  ///< [w choice[T, batch], w slots, w experts]   heads: parts
  /// Learned routing: a token chooses the `batch` highest logits of its row, the lower number among equal ones. Then as
  /// route_tokens, with `experts` for the ranks that the rows go to. heads: parts; loads: choices of each expert in
  /// each routing group.
  choose_experts,  ///< [r logits, w choice[T, batch]]   of the best head_dim of kv_heads groups; site: what a
  ///< group is worth, 0 its best logit, or of its two best logits the sum of 1 exponentials, 2 sigmoids
  route_choices,      ///< [r choice, w slots, w experts, (loads: w loads)]
  gates_forward,      ///< [r logits, r choice, w gates[T, batch]]    site: Mixture::Scores; parameter: scale
  gates_backward,     ///< [r dgates, r logits, r choice, (scaled: r loss_scale), (loads: r loads), w dlogits]   and
                      ///< auxiliary loss
  dispatch_forward,   ///< [r x, r slots, w rows]             rows[slot] = x[token]; where nothing stands: 0
  dispatch_backward,  ///< [r drows, r slots, (residual: r dx of other paths), w dx]
  combine_forward,    ///< [r rows, r slots, r gates, (residual: r y of other paths), w y]   sum of gate * row
  combine_backward,   ///< [r dy, r rows, r slots, r gates, w drows, w dgates]
  /// As gemm with a factor B, or a sum C (transpose_a), for each of `batch` local experts. `experts` say which expert a
  /// row of A (transpose_a: of A and B) meets; -1: none, and its row of C is 0. parameter: rows that meet one, mean
  /// over ranks and layers.
  expert_gemm,  ///< [r A, r B, r experts, w|a C]

  // Residual: y = residual + dropout(x + bias).
  residual_forward,  ///< [r x, (bias: r bias), r residual, w y, (dropout: w mask)]
  dropout_forward,   ///< [a x, w mask]
  dropout_backward,  ///< [r dy, r mask, w dx]      dy and dx may be the same view

  // Cross-entropy over a vocabulary split over the tensor axis: rows = T, columns = local vocabulary.
  cross_entropy_max,       ///< [r logits, w max]
  cross_entropy_sum,       ///< [r logits, r max, r targets, w sum, w target_logit]
  cross_entropy_loss,      ///< [r max, r sum, r target_logit, r targets, a loss]  adds the sum over valid tokens
  cross_entropy_backward,  ///< [a logits -> dlogits, r max, r sum, r targets, r count, (scaled: r loss_scale)];
                           ///< parameter: weight of this loss, 0: 1
  mean_loss,               ///< [a loss, r count]    loss /= count
  add_losses,              ///< [r losses, a loss]   rows of them: loss += parameter * their sum

  // Optimizer.
  sum_squares,   ///< [r gradient ..., a norm]       norm += parameter * sum of squares
  clip_factor,   ///< [r norm, (scaled: a loss_scale), w factor]   factor {multiplier, skip}; parameter: clip norm, 0 =
                 ///< none
  advance_step,  ///< [a steps, (factor: r factor)]  steps += 1 unless skipped
  sgd_update,    ///< [r gradient, r steps, (factor: r factor), a weight, (master: a master), (momentum: a m)]
  adam_update,   ///< [r gradient, r steps, (factor: r factor), a weight, (master: a master), a m, a v,
                 ///< (scaled: a scales)]   for each block of m and v one each: moment_scales.hpp

  // Updates whose length follows from norms of parameter tensors. norms: a pair of sums of squares for each of the
  // depth tensors in the segment that the operands belong to; parameter: the share that this rank adds. `exact` is the
  // master where there is one, else the weight.
  lamb_moments,  ///< [r gradient, r steps, (factor: r factor), r exact, a m, a v, a norms]   of weight and direction
  lamb_update,   ///< [r norms, r steps, (factor: r factor), a weight, (master: a master), r m, r v]
  lars_norms,    ///< [r gradient, (factor: r factor), r exact, a norms]                      of weight and gradient
  lars_update,   ///< [r gradient, r steps, (factor: r factor), a weight, (master: a master), a m, (depth > 0: r norms)]

  // Adafactor on a segment (core/program/factored.hpp). `sums` are squared gradients summed over rows and columns, as
  // the rank's share of them. `moments`, their means over steps, are whole on every rank. depth: numbers in each;
  // norms: a sum of squares of the update for each of `batch` matrices; parameter: as above.
  adafactor_squares,  ///< [r gradient, (factor: r factor), a sums]
  adafactor_moments,  ///< [r gradient, r sums, r steps, (factor: r factor), a moments, a norms]
  adafactor_update,   ///< [r gradient, r steps, (factor: r factor), a weight, (master: a master), r moments, r norms]
};

/// Which part of training an op belongs to, for reports and FLOP counts.
enum class Pass : std::uint8_t { setup, forward, recompute, input_gradient, weight_gradient, loss, optimizer };

/// Options that say which of the bracketed operands are present.
struct KernelOptions {
  bool bias : 1 = false;
  bool dropout : 1 = false;
  bool factor : 1 = false;
  bool master : 1 = false;
  bool momentum : 1 = false;
  bool scaled : 1 = false;
  bool decay : 1 = false;        ///< optimizer: apply weight decay
  bool transpose_a : 1 = false;  ///< gemm
  bool transpose_b : 1 = false;
  bool causal : 1 = false;    ///< attention
  bool cut : 1 = false;       ///< norms: the columns are a part of the row
  bool centered : 1 = false;  ///< sums of a norm: the mean is taken off
  bool loads : 1 = false;     ///< learned routing with a load-balancing loss
  bool residual : 1 = false;  ///< dx = residual + ... (norm backward: instead of dx += ...)
  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

/// A kernel with its shapes.  Fields that a kind does not name are 0.
struct Kernel {
  KernelKind kind = KernelKind::fill;
  Pass pass = Pass::forward;
  DType compute = DType::f32;  ///< type of the arithmetic's inputs (16-bit types accumulate in f32)
  KernelOptions options;
  std::uint8_t site = 0;        ///< dropout site inside the layer, part of the random key
  std::uint32_t batch = 0;      ///< attention and rope: sequences; Adafactor: matrices
  std::uint32_t heads = 0;      ///< local query heads
  std::uint32_t kv_heads = 0;   ///< local key and value heads
  std::uint32_t head_dim = 0;   ///< of a query and a key
  std::uint32_t value_dim = 0;  ///< of a value and a context, where it differs
  std::uint32_t ring = 0;       ///< attention on brought keys: members of an inner ring; 0: one ring
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t depth = 0;
  double parameter = 0.0;  ///< dropout rate, norm epsilon, rope theta, norm weight, clip norm, share
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

[[nodiscard]] std::string_view name_of(KernelKind);
[[nodiscard]] std::string_view name_of(Pass);
inline constexpr std::size_t kernel_kind_count = static_cast<std::size_t>(KernelKind::adafactor_update) + 1;

/// Floating-point operations of a kernel, 2 per multiply-add.
///
/// counted   by the convention of reports: full (not causal) attention; only
///           GEMMs and attention count (Korthikanti et al., MLSys 2023)
/// executed  what the kernel really multiplies: causal attention skips the
///           masked half, (s + 1) / (2 s)
struct KernelFlops {
  double counted = 0.0;
  double executed = 0.0;
};
[[nodiscard]] KernelFlops flops_of(const Kernel&);
/// Products of ring self-attention: multiply-adds for each pair of query and key; 0 for other kinds.
[[nodiscard]] std::uint32_t score_width(const Kernel&);
/// FLOPs that the busiest rank executes, where ranks differ (a causal mask cut into contiguous pieces); `executed` is
/// then the mean.
[[nodiscard]] double busiest_flops(const Kernel&);

}  // namespace orrery
