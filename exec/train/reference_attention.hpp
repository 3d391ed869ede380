#pragma once

#include <cstdint>
#include <functional>

#include "core/spec/model_spec.hpp"
#include "exec/train/matrix.hpp"
#include "exec/train/reference_functions.hpp"

namespace orrery {

/// Columns of the packed qkv row. For each group of queries that share a key these are its queries, then the key, then
/// the value.
struct HeadColumns {
  std::uint64_t query, key, value;
};
[[nodiscard]] HeadColumns columns_of(const ModelSpec&, std::uint64_t head);

// Attention of the single-device reference model and its derivative, on one sequence: matrices are [position, feature].

/// The layer and the sequence that attention is of. `sinks` is null where the model has none.
struct AttentionOf {
  std::uint64_t layer = 0;
  std::uint64_t sequence = 0;
  DropoutKey dropout;
  const Matrix* sinks = nullptr;
};

/// Whether a query of the layer sees a key.
[[nodiscard]] bool sees(const ModelSpec&, std::uint64_t layer, std::uint64_t query, std::uint64_t key);

/// Returns the context [s, heads * value width].
[[nodiscard]] Matrix attention_forward(const ModelSpec&, const AttentionOf&, const Matrix& qkv);
/// Returns dqkv, and adds to `dsinks` where there are sinks, which the context as it was kept decides. Scores and
/// probabilities are formed anew. `largest` is raised to the largest |derivative of a probability or score|. `stored`,
/// where given, returns a probability as it is after being stored: rows that no longer sum to 1 leave the common part
/// of dP in the scores' gradient.
[[nodiscard]] Matrix attention_backward(const ModelSpec&, const AttentionOf&, const Matrix& dcontext, const Matrix& qkv,
                                        const Matrix& context, Matrix* dsinks, double& largest,
                                        const std::function<double(double)>& stored);

}  // namespace orrery
