#include "core/spec/model_spec.hpp"

namespace orrery {

std::uint64_t layer_parameter_count(const ModelSpec& m) {
  const std::uint64_t query = m.heads * m.head_dim;
  const std::uint64_t qkv = query + 2 * m.kv_heads * m.head_dim;
  const std::uint64_t up = m.activation == Activation::swiglu ? 2 * m.ffn : m.ffn;
  const std::uint64_t matrices = m.hidden * qkv + query * m.hidden + m.hidden * up + m.ffn * m.hidden;
  const std::uint64_t biases = m.bias ? qkv + m.hidden + up + m.hidden : 0;
  const std::uint64_t norms = 2 * m.hidden * (m.norm == Norm::layer_norm ? 2 : 1);
  return matrices + biases + norms;
}

std::uint64_t parameter_count(const ModelSpec& m) {
  const std::uint64_t table = m.vocabulary * m.hidden;
  const std::uint64_t positions = m.positions == PositionEncoding::learned ? m.max_positions * m.hidden : 0;
  const std::uint64_t final_norm = m.hidden * (m.norm == Norm::layer_norm ? 2 : 1);
  return table * (m.tied_embeddings ? 1 : 2) + positions + m.layers * layer_parameter_count(m) + final_norm;
}

}  // namespace orrery
