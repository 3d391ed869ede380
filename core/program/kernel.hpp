#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/dtype.hpp"

namespace orrery {

/// What a Compute op computes.  Its operands, in the order of the op's views, stand
/// in kernel_table.cpp.  T is rows (tokens on this rank); += adds to an operand.
/// Token rows run position-major: row = position * sequences + sequence, so a cut
/// along the sequence length is a contiguous range of rows.
enum class KernelKind : std::uint8_t {
  // Data and scalars.
  load_tokens,       ///< rows; site: so many positions ahead, 0 behind the sequence's end
  load_targets,      ///< rows; -1: not counted in the loss; site: as above, -1 behind the end
  load_segments,     ///< rows; what kind of token stands there (BERT's sentence A or B)
  load_patches,      ///< rows of positions from 1 on, columns = local pixels of a patch
  count_targets,     ///< valid targets of the sequences that batch_axes give the rank; site
  fill,              ///< x = 0
  initialize,        ///< from the parameter table, keyed by global element
  initialize_scale,  ///< {scale, steps since the last change}

  // Embedding: rows = T, columns = hidden, depth = local vocabulary.
  embed_forward,  ///< rows of other vocabulary shards give 0
  embed_backward,
  position_forward,  ///< x += table[depth + position]
  position_backward,
  segment_forward,  ///< x += table[segment]; depth = segments of the table
  segment_backward,
  class_token_forward,  ///< x = token at position 0, else x += bias (unbiased: nothing); batch rows a position
  class_token_backward,

  // Norms: rows = T, columns = hidden.  stats: {mean, 1/deviation} or {1/rms} per row.
  layer_norm_forward,
  layer_norm_backward_input,  ///< dx += ..., or dx = residual + ...
  layer_norm_backward_weight,
  rms_norm_forward,
  rms_norm_backward_input,  ///< as above
  rms_norm_backward_weight,

  // The same where an axis cuts the columns (option cut): depth is the width of
  // a whole row, and sums over it are operands of the norms' kernels, made by
  // these over the local columns and then summed over the axis.  Layer norms are
  // centered.
  norm_sums,           ///< of x
  norm_squares,        ///< of (x - mean)^2
  norm_gradient_sums,  ///< per row {of g, of g z} or {of g z}; g = dy gamma

  // RMS norms of queries and of keys in packed qkv (below); values are copied.  depth features of a row's queries have
  // one root mean square: head_dim, those of each head, or those of all heads of all ranks, and so many times
  // kv_heads / heads of its keys.  Weights are as wide as a head, or as the local heads.  stats: 1/rms, of each head
  // (queries' first), or {of queries, of keys}.  With `cut` other ranks have heads of the same row: their sums over
  // local heads, {of queries, of keys}, are added up and are operands.
  query_key_norm_forward,
  query_key_norm_backward_input,
  query_key_norm_backward_weight,
  query_key_squares,
  query_key_gradient_sums,

  // C[rows, columns] (=, +=) op(A)[rows, depth] op(B)[depth, columns] (+ bias[columns])
  gemm,
  // Second factors of adapters, beside a product whose row of results is kv_heads blocks of `heads` members, each
  // head_dim wide: packed qkv; [2, f] of a gated feed-forward part; one member. The product is of `batch` matrices, of
  // which all but the first have one member of a block, the last ones. The matrices whose bits `site` has are adapted.
  // A row of u has depth numbers for each of them; each of B's depth rows has the columns of their members. scale is
  // alpha / r.
  adapter_forward,          ///< y += scale u B
  adapter_backward_input,   ///< du = scale dy B^T
  adapter_backward_weight,  ///< dB += scale u^T dy
  bias_forward,             ///< rows, columns: x += bias on every row
  bias_backward,            ///< rows, columns: column sums

  // Attention on packed qkv[T, kv_heads, heads/kv_heads + 2, head_dim]: queries of
  // the group, then its key, then its value.  batch sequences of rows/batch tokens.
  // Rope rotates the first r = depth features (0: all head_dim), (i, i + r/2) by position * theta^(-2 i / r), or as the
  // Program's table `rotation` says.
  // With value_dim, values and contexts are that wide instead of head_dim.
  // The score of a query and a key is cap(scale q k) + slope (key - query): scale is the
  // kernel's, 0: 1 / sqrt(head_dim); cap(x) = softcap tanh(x / softcap), with softcap 0: x;
  // slopes: with the option alibi, alibi_slope of the model's head.  With the option
  // sinks, each head has a further logit in the softmax, which no value belongs to: it is
  // part of lse, and shares of a row's probabilities sum to less than 1.
  // Probabilities, mask, dropped and dscores are [batch, heads, query, key], lse is
  // [batch, heads, query], dq_accumulator [batch, heads, query, head_dim].  Which keys a
  // query sees: core/program/sight.hpp.
  rope_forward,  ///< rotates queries and keys in place
  rope_backward,
  attention_unfused_forward,
  attention_unfused_backward,
  attention_flash_forward,
  attention_flash_backward,
  attention_sinks_backward,  ///< dsinks[heads] -= e^(sink - lse) (dcontext context), summed over rows

  // Heads of latent attention, put together to packed qkv with kv_heads = heads:
  // queries [T, heads, head_dim], pairs [T, heads, head_dim - columns + value_dim] of
  // key and value, and one key [T, columns] that all heads share.  The last
  // `columns` features of a query and the shared key, a key's last, rotate.
  latent_heads_forward,
  latent_heads_backward,  ///< dkey sums over the local heads

  // Attention of this rank's queries, rows = their tokens, on keys and values that
  // were brought to it, depth = their tokens: kv[depth, kv_heads, key and value].
  // Causal by the global positions that the shards of qkv and kv tell.  columns:
  // pairs of query and key that the busiest rank multiplies, per sequence and head;
  // parameter: their mean over ranks.  site: how many places back along the context
  // axis the keys come from; with `ring` site mod ring of them inside the rank's ring
  // of so many consecutive ranks, and site / ring rings back.  Dropout's rate is the
  // workload's.  dq is [T, heads, head_dim].  Queries that see none of the keys get 0
  // and a log-sum-exp of minus infinity.
  pack_keys_values,  ///< rows: tokens of both
  attention_part_forward,
  attention_part_backward,
  attention_merge,   ///< with what was made of other keys
  unpack_gradients,  ///< rows: tokens of all

  // Ring self-attention: scores of a whole row are kept, and keys and values go
  // around one after the other.  keys[depth, kv_heads, head_dim], values[depth,
  // kv_heads, value_dim] of one rank, `site` places back; scores of its queries with
  // them are [batch, heads, query, key], and lie one rank's behind the other's, own
  // first: depth of the softmax and of all pairs counts the tokens of all ranks.
  // Masked scores are minus infinity.  weights are probabilities, or what dropout
  // has left of them; parameter: its rate.
  split_keys_values,
  attention_scores_forward,
  attention_softmax_forward,
  attention_values_forward,
  attention_values_backward,
  attention_softmax_backward,  ///< in place: gradients of the weights become those of the scores
  attention_scores_backward,
  attention_pairs_backward,  ///< of all ranks' keys, in their order
  swap_blocks,               ///< y[depth, rows, columns] = x[rows, depth, columns]

  // Copies of keys and values, where more ranks share out query heads than there are key-value heads
  // (core/program/head_copies.hpp). x[depth, rows, columns] are packed projections of all query heads of the `depth`
  // ranks that brought a part each (1: this rank's own); qkv are those of this rank, of kv_heads copies with
  // heads / kv_heads queries each. The place of qkv says which heads are this rank's.
  share_heads_forward,
  share_heads_backward,  ///< gradients of copies are summed; where other ranks have heads, the result is 0
  add_to,
  convert,  ///< to another element type

  // Feed-forward elementwise: rows = T, columns = local ffn.
  gelu_forward,    ///< tanh form
  gelu_backward,   ///< d *= gelu'(pre)
  swiglu_forward,  ///< silu(gate) * up of pre[T, 2, f]; with a limit gpt-oss's gate (docs/formulas/layers.md)
  swiglu_backward,
  geglu_forward,  ///< gelu(gate) * up, as above
  geglu_backward,
  relu_forward,
  relu_backward,
  squared_relu_forward,  ///< relu(x)^2
  squared_relu_backward,
  quick_gelu_forward,  ///< x sigmoid(1.702 x)
  quick_gelu_backward,
  clip_forward,  ///< cut to -parameter .. parameter
  clip_backward,

  // Mixtures (docs/formulas.md): rows = T, columns = experts or features, batch = experts per token.  A rank sends
  // `depth` rows, an equal part to each of the ranks that share the experts: `slots` say which choice of which token
  // stands in each (token * batch + choice; -1: nothing), `experts` which local expert those that arrive are for.
  // Choices follow from the workload's routing, global positions and the layer; gates from the router's logits.
  /// Where a token visits experts of some groups alone: kv_heads groups, head_dim of a token; 0: any.
  route_tokens,  ///< heads: parts; site: their axes beside expert, 1 context, 2 tensor; 4: slots of gathered tokens
  /// Learned routing: the `batch` highest logits of a row, of equal ones the lower number; then as route_tokens, with
  /// `experts` for those that the rows go to.  heads: parts; loads: choices of each expert in each routing group.
  choose_experts,  ///< of the best head_dim of kv_heads groups; site: what a group is worth, 0 its best logit, or of
                   ///< its two best logits the sum of 1 exponentials, 2 sigmoids
  route_choices,
  gates_forward,      ///< site: Mixture::Scores; parameter: scale
  gates_backward,     ///< and of the auxiliary loss
  dispatch_forward,   ///< rows[slot] = x[token]; where nothing stands: 0
  dispatch_backward,  ///< residual: dx of other paths
  combine_forward,    ///< sum of gate * row; residual: y of other paths
  combine_backward,
  /// As gemm with a factor B, or a sum C (transpose_a), for each of `batch` local experts; `experts` say which one a
  /// row of A (transpose_a: of A and B) meets, -1: none, its row of C is 0.  parameter: rows that meet one, mean over
  /// ranks and layers.  bias: scale times the expert's is added to its rows.
  expert_gemm,
  expert_bias_backward,  ///< column sums of each of `batch` local experts' rows, times scale
  gate_forward,          ///< y = sigmoid(gate of the row) x
  gate_backward,

  // Residual: y = residual + scale dropout(x + bias).
  residual_forward,
  dropout_forward,
  dropout_backward,  ///< dx = scale times what was kept; dy and dx may be the same view
  multiply,          ///< y = scale x; they may be the same view

  // A weight for each feature, and means over positions.
  scale_features_forward,          ///< y = gamma x on every row
  scale_features_backward_input,   ///< dx = gamma dy
  scale_features_backward_weight,  ///< dgamma += column sums of dy x
  mean_rows_forward,               ///< y[rows, columns] = mean over depth of x[depth, rows, columns]
  mean_rows_backward,              ///< dx[depth, rows, columns] = dy[rows, columns] / depth

  // Cross-entropy over a vocabulary split over the tensor axis: rows = T, columns = local vocabulary.
  scale_logits,  ///< in place: softcap tanh(scale x / softcap), or scale x
  cross_entropy_max,
  cross_entropy_sum,
  cross_entropy_loss,      ///< adds the sum over valid tokens
  cross_entropy_backward,  ///< in place, and back through scale and softcap; parameter: weight of this loss, 0: 1
  mean_loss,               ///< loss /= count
  add_losses,              ///< rows of them: loss += parameter * their sum

  // Optimizer.
  sum_squares,   ///< norm += parameter * sum of squares
  clip_factor,   ///< factor {multiplier, skip}; parameter: clip norm, 0 = none
  advance_step,  ///< steps += 1 unless skipped
  sgd_update,
  adam_update,  ///< scales: for each block, of depth, of m and v one each (moment_scales.hpp)

  // Updates whose length follows from norms of parameter tensors.  norms: a pair of sums of squares for each of the
  // depth tensors of the segment that the operands are part of; parameter: the share that this rank adds.  `exact`
  // is the master where there is one, else the weight.
  lamb_moments,  ///< norms of weight and direction
  lamb_update,
  lars_norms,  ///< of weight and gradient
  lars_update,

  // Adafactor on a segment (core/program/factored.hpp): `sums` of squared gradients over rows and columns, as the
  // rank's share of them; `moments`, their means over steps, are whole on every rank.  depth of each; norms: a sum of
  // squares of the update for each of `batch` matrices; parameter: as above.
  adafactor_squares,
  adafactor_moments,
  adafactor_update,

  // A frozen matrix [rows, columns] in few bits, and back. site: BaseWeights; scaled: the scales are in 8 bits too
  // (core/program/base_weights.hpp).
  quantize_weight,
  dequantize_weight,
};

/// Which part of training an op belongs to, for reports and FLOP counts.
enum class Pass : std::uint8_t { setup, forward, recompute, input_gradient, weight_gradient, loss, optimizer };

/// Options, of which some say which operands are present (kernel_table.hpp).
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
  bool causal : 1 = false;      ///< attention
  bool chunked : 1 = false;     ///< attention: the window is the length of chunks
  bool alibi : 1 = false;       ///< attention: scores fall with distance
  bool sinks : 1 = false;       ///< attention forward: each head has a logit beside those of the keys
  bool cut : 1 = false;         ///< norms: the columns are a part of the row
  bool centered : 1 = false;    ///< sums of a norm: the mean is taken off
  bool loads : 1 = false;       ///< learned routing with a load-balancing loss
  bool residual : 1 = false;    ///< dx = residual + ... (norm backward: instead of dx += ...)
  bool unbiased : 1 = false;    ///< layer norm without beta
  bool unweighted : 1 = false;  ///< norms without gamma and beta
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
  std::uint64_t window = 0;     ///< attention: positions that a query looks back, its own among them; 0: all
  std::uint32_t rotation = 0;   ///< rope: a table of Program::rotations, counted from 1; 0: angles by theta
  std::uint64_t rows = 0;
  std::uint64_t columns = 0;
  std::uint64_t depth = 0;
  double scale = 0.0;      ///< attention: of scores, 0: 1 / sqrt(head_dim); of a branch, a copy, logits, 0: 1
  double softcap = 0.0;    ///< bound of scores or logits; 0: none
  double parameter = 0.0;  ///< dropout rate, norm epsilon, rope theta, norm weight, clip norm, limit of a gate, share
  friend bool operator==(const Kernel&, const Kernel&) = default;
};

[[nodiscard]] std::string_view name_of(KernelKind);
[[nodiscard]] std::string_view name_of(Pass);
inline constexpr std::size_t kernel_kind_count = static_cast<std::size_t>(KernelKind::dequantize_weight) + 1;

/// Floating-point operations of a kernel, 2 per multiply-add.
///
/// counted   by the convention of reports: full (not causal) attention; only
///           GEMMs and attention count (Korthikanti et al., MLSys 2023); where a
///           window or chunks hide keys, the pairs that are left
/// executed  what the kernel really multiplies: causal attention skips the
///           masked half, (s + 1) / (2 s)
struct KernelFlops {
  double counted = 0.0;
  double executed = 0.0;
};
[[nodiscard]] KernelFlops flops_of(const Kernel&);
/// The adapted matrices of an adapter's kernel, and the columns of results that are theirs.
[[nodiscard]] std::uint32_t adapted_matrices_of(const Kernel&);
[[nodiscard]] std::uint64_t adapted_columns_of(const Kernel&);
/// Products of ring self-attention: multiply-adds for each pair of query and key; 0 for other kinds.
[[nodiscard]] std::uint32_t score_width(const Kernel&);
/// FLOPs that the busiest rank executes, where ranks differ (a causal mask cut into contiguous pieces); `executed` is
/// then the mean.
[[nodiscard]] double busiest_flops(const Kernel&);

}  // namespace orrery
