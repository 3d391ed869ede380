#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/spec/hf/count.hpp"

/// What stands in place of attention: state spaces, convolutions and linear attention.
namespace orrery::hf {

/// Mamba (Gu and Dao, 2023): inner width d = e h, state n, kernel k, rank r of the step.
///
///     2 d h + d k + d (r + 2 n) + r d + d + d n + d + d h
///
/// These are the input's product, the convolution, what makes step and state from the input, the step's product with
/// its biases, A, D and the output's product. Biases: 2 d and h of the outer products, d of the convolution.
struct Mamba {
  Count inner, state, kernel, rank;
  bool bias = false, conv_bias = true;
};
[[nodiscard]] constexpr Count mamba(Count h, const Mamba& m) {
  return product(h, 2 * m.inner, m.bias) + m.inner * m.kernel + (m.conv_bias ? m.inner : Count(0)) +
         product(m.inner, m.rank + 2 * m.state) + product(m.rank, m.inner, true) + m.inner * m.state + m.inner +
         product(m.inner, h, m.bias);
}

/// Mamba-2 (Dao and Gu, 2024): a heads, g groups that share a state; w = d + 2 g n features pass the convolution.
///
///     h (d + w + a) + w k + 3 a + d + d h
///
/// These are the input's product, the convolution, three weights for each head, a norm and the output's product.
struct Mamba2 {
  Count inner, heads, groups, state, kernel;
  bool in_bias = false, out_bias = false, conv_bias = true, norm = true;
};
[[nodiscard]] constexpr Count mamba2(Count h, const Mamba2& m) {
  const Count w = m.inner + 2 * m.groups * m.state;
  return product(h, m.inner + w + m.heads, m.in_bias) + w * m.kernel + (m.conv_bias ? w : Count(0)) + 3 * m.heads +
         (m.norm ? m.inner : Count(0)) + product(m.inner, h, m.out_bias);
}

/// A gated delta rule (Yang et al., 2024): a_k heads of d_k for queries and keys, a_v of d_v for values and gates;
/// w = 2 a_k d_k + a_v d_v features pass a convolution.
///
///     h (w + a_v d_v + 2 a_v) + w k + 2 a_v + d_v + a_v d_v h
struct DeltaRule {
  Count key_heads, key_dim, value_heads, value_dim, kernel;
};
[[nodiscard]] constexpr Count delta_rule(Count h, const DeltaRule& m) {
  const Count values = m.value_heads * m.value_dim, w = 2 * m.key_heads * m.key_dim + values;
  return product(h, w + values + 2 * m.value_heads) + w * m.kernel + 2 * m.value_heads + m.value_dim +
         product(values, h);
}

/// A mixture of gated experts f wide: all of them, and those that a token meets. `shared` is the width of those that
/// all meet, with a gate of h where `gate`.
struct Experts {
  Count all, met, f, shared = 0;
  bool gate = false;
};
[[nodiscard]] constexpr Count experts(Count h, const Experts& x, bool only_met = false) {
  return x.all * h + (only_met ? x.met : x.all) * feed_forward(h, x.f, true, false) +
         (x.shared > Count(0) ? feed_forward(h, x.shared, true, false) : Count(0)) + (x.gate ? h : Count(0));
}

/// What kind each layer is, from a list of names in `key` where the file has one, else from `otherwise`.
[[nodiscard]] std::vector<std::string> layer_names(Config&, const char* key, std::uint64_t layers,
                                                   const std::function<std::string(std::uint64_t)>& otherwise);
/// A number, or "auto" for `otherwise`.
[[nodiscard]] Count number_or_auto(Config&, const char* key, Count otherwise);

/// Sums over layers, with table, last norm and head.
struct Decoder {
  Count layers = 0, active = 0;  ///< active: what one token meets
  void add(Count all) { layers += all, active += all; }
  void add(Count all, Count met) { layers += all, active += met; }
};
/// The shape by the usual keys, and whether the head is the table.
[[nodiscard]] ModelSpec decoder_shape(Config&);
/// Attention by the usual keys, with the biases of attention_bias.
[[nodiscard]] Count decoder_attention(Config&, const ModelSpec&);
/// Keys of decoders that are counted: those of norms, rotations and routing have no effect on that.
[[nodiscard]] Keys counted_keys();

/// V h + h and the head V h, unless it is the table.
void count_decoder(Config&, ModelSpec&, const Decoder&, std::string because);

}  // namespace orrery::hf
