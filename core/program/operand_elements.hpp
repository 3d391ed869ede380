#pragma once

#include "core/program/base_weights.hpp"
#include "core/program/kernel.hpp"
#include "core/program/moment_scales.hpp"

// How many elements an operand of a kernel has, by the kernel's shapes (core/program/kernel.hpp says what they mean).
namespace orrery::elements {

inline double one(const Kernel&) { return 1; }
inline double two(const Kernel&) { return 2; }
inline double rows(const Kernel& k) { return static_cast<double>(k.rows); }
inline double columns(const Kernel& k) { return static_cast<double>(k.columns); }
inline double depth(const Kernel& k) { return static_cast<double>(k.depth); }
inline double batch(const Kernel& k) { return k.batch; }
inline double all(const Kernel& k) { return rows(k) * columns(k); }
inline double two_rows(const Kernel& k) { return 2 * rows(k); }
inline double two_all(const Kernel& k) { return 2 * all(k); }
inline double all_depth(const Kernel& k) { return all(k) * depth(k); }
inline double rows_depth(const Kernel& k) { return rows(k) * depth(k); }
inline double depth_columns(const Kernel& k) { return depth(k) * columns(k); }
/// A norm keeps {mean, 1/deviation} or {1/rms} of each row.
inline double statistics(const Kernel& k) { return (k.options.centered ? 2 : 1) * rows(k); }

// Mixtures.
inline double choices(const Kernel& k) { return rows(k) * batch(k); }
inline double expert_factor(const Kernel& k) { return depth_columns(k) * (k.options.transpose_a ? 1.0 : batch(k)); }
inline double batch_columns(const Kernel& k) { return batch(k) * columns(k); }
inline double expert_rows(const Kernel& k) { return k.options.transpose_a ? depth(k) : rows(k); }
inline double expert_results(const Kernel& k) { return all(k) * (k.options.transpose_a ? batch(k) : 1.0); }

// Adapters.
inline double adapter_inputs(const Kernel& k) { return rows_depth(k) * adapted_matrices_of(k); }
inline double adapter_factor(const Kernel& k) { return depth(k) * static_cast<double>(adapted_columns_of(k)); }

// Frozen matrices in few bits.
inline double base_codes(const Kernel& k) { return static_cast<double>(quantized_size(k).codes); }
inline double base_scales(const Kernel& k) { return static_cast<double>(quantized_size(k).scales); }

// Attention.
inline double value_width(const Kernel& k) { return k.value_dim > 0 ? k.value_dim : k.head_dim; }
inline double key_value(const Kernel& k) { return k.kv_heads * (k.head_dim + value_width(k)); }
inline double queries(const Kernel& k) { return rows(k) * k.heads * k.head_dim; }
inline double contexts(const Kernel& k) { return rows(k) * k.heads * value_width(k); }
inline double heads(const Kernel& k) { return k.heads; }
inline double row_sums(const Kernel& k) { return rows(k) * k.heads; }
inline double keys(const Kernel& k) { return rows(k) * k.kv_heads * k.head_dim; }
inline double keys_values(const Kernel& k) { return rows(k) * key_value(k); }
inline double values(const Kernel& k) { return keys_values(k) - keys(k); }
inline double qkv(const Kernel& k) { return queries(k) + keys_values(k); }
inline double latent_pairs(const Kernel& k) { return keys_values(k) - k.heads * all(k); }
inline double brought_keys(const Kernel& k) { return depth(k) * k.kv_heads * k.head_dim; }
inline double brought(const Kernel& k) { return depth(k) * key_value(k); }
inline double brought_values(const Kernel& k) { return brought(k) - brought_keys(k); }
inline double scores(const Kernel& k) { return k.batch == 0 ? 0.0 : rows(k) / k.batch * rows(k) * k.heads; }
inline double brought_scores(const Kernel& k) { return k.batch == 0 ? 0.0 : rows(k) / k.batch * depth(k) * k.heads; }

// Norms of queries and keys.
inline bool norms_each_head(const Kernel& k) { return k.depth == k.head_dim; }
inline double query_weights(const Kernel& k) { return k.head_dim * (norms_each_head(k) ? 1.0 : k.heads); }
inline double key_weights(const Kernel& k) { return k.head_dim * (norms_each_head(k) ? 1.0 : k.kv_heads); }
inline double query_key_statistics(const Kernel& k) {
  return rows(k) * (norms_each_head(k) ? k.heads + k.kv_heads : 2.0);
}

// Optimizer.
inline double norm_pairs(const Kernel& k) { return 2 * depth(k); }
inline double moment_scales(const Kernel& k) { return static_cast<double>(orrery::moment_scales(k.columns, k.depth)); }

}  // namespace orrery::elements
