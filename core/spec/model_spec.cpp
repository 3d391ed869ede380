#include "core/spec/model_spec.hpp"

#include <algorithm>

namespace orrery {

std::uint64_t attention_parameter_count(const ModelSpec& m) {
  if (m.latent) {
    const LatentAttention& l = *m.latent;
    const std::uint64_t queries = m.heads * (m.head_dim + l.rope_dim);
    const std::uint64_t pairs = m.heads * (m.head_dim + l.value_dim);
    const std::uint64_t query =
        l.query_rank > 0 ? m.hidden * l.query_rank + l.query_rank + l.query_rank * queries : m.hidden * queries;
    return query + m.hidden * (l.kv_rank + l.rope_dim) + l.kv_rank + l.kv_rank * pairs +
           m.heads * l.value_dim * m.hidden;
  }
  const std::uint64_t query = m.heads * m.head_dim;
  const std::uint64_t qkv = query + 2 * m.kv_heads * m.head_dim;
  return m.hidden * qkv + query * m.hidden + (m.bias ? qkv + m.hidden : 0);
}

namespace {

/// Parameters in the matrices of a dense feed-forward part, per feature of its width.
std::uint64_t per_width(const ModelSpec& m) { return m.hidden * (m.activation == Activation::swiglu ? 3 : 2); }

/// Parameters in the matrices of a mixture, with `experts` of its experts counted.
std::uint64_t experts_count(const ModelSpec& m, std::uint64_t experts) {
  return per_width(m) * (experts * m.mixture->ffn + m.mixture->shared_ffn) + m.hidden * m.mixture->experts;
}
std::uint64_t score_bias_count(const ModelSpec& m) {
  return m.mixture && m.mixture->score_bias ? m.mixture->experts : 0;
}

}  // namespace

std::uint64_t layer_parameter_count(const ModelSpec& m) {
  const std::uint64_t up = m.activation == Activation::swiglu ? 2 * m.ffn : m.ffn;
  const std::uint64_t matrices = m.mixture ? experts_count(m, m.mixture->experts) : per_width(m) * m.ffn;
  const std::uint64_t biases = m.bias ? up + m.hidden : 0;
  const std::uint64_t norms = 2 * m.hidden * (m.norm == Norm::layer_norm ? 2 : 1);
  return attention_parameter_count(m) + matrices + biases + norms;
}

namespace {

std::uint64_t norm_count(const ModelSpec& m) { return m.hidden * (m.norm == Norm::layer_norm ? 2 : 1); }

std::uint64_t layers_count(const ModelSpec& m) {
  const std::uint64_t all = m.layers * layer_parameter_count(m);
  if (!m.mixture) return all;
  const std::uint64_t dense = m.layers - mixture_count(m);
  return all - dense * experts_count(m, m.mixture->experts) + dense * per_width(m) * m.ffn;
}

/// All parameters outside the layers and the head.
std::uint64_t embedding_count(const ModelSpec& m) {
  const std::uint64_t positions = m.positions == PositionEncoding::learned ? m.max_positions * m.hidden : 0;
  switch (m.architecture) {
    case Architecture::decoder: return m.vocabulary * m.hidden + positions;
    case Architecture::bert: return (m.vocabulary + m.segments) * m.hidden + positions + norm_count(m);
    case Architecture::vit: {
      const std::uint64_t patch = m.image ? patch_width(*m.image) : 0;
      return patch * m.hidden + 2 * m.hidden + positions;  // bias, class token
    }
  }
  return 0;
}

}  // namespace

std::uint64_t parameter_count(const ModelSpec& m) {
  const std::uint64_t table = m.vocabulary * m.hidden;
  const std::uint64_t body = embedding_count(m) + layers_count(m);
  switch (m.architecture) {
    case Architecture::decoder: return body + (m.tied_embeddings ? 0 : table) + norm_count(m);
    case Architecture::bert: return body + m.hidden * m.hidden + m.hidden + norm_count(m) + m.vocabulary;
    case Architecture::vit: return body + norm_count(m) + table + m.vocabulary;
  }
  return 0;
}

std::uint64_t active_parameter_count(const ModelSpec& m) {
  if (!m.mixture) return parameter_count(m);
  const std::uint64_t idle = experts_count(m, m.mixture->experts) - experts_count(m, m.mixture->per_token);
  return parameter_count(m) - mixture_count(m) * idle;
}

std::uint64_t published_parameter_count(const ModelSpec& m) {
  if (m.architecture != Architecture::bert) return parameter_count(m) + mixture_count(m) * score_bias_count(m);
  return embedding_count(m) + layers_count(m) + m.hidden * m.hidden + m.hidden;
}

std::uint64_t prediction_module_parameter_count(const ModelSpec& m) {
  const bool mixture = is_mixture(m, m.layers);
  ModelSpec dense = m;
  dense.mixture.reset();
  const std::uint64_t layer = mixture ? layer_parameter_count(m) + score_bias_count(m) : layer_parameter_count(dense);
  return layer + 2 * m.hidden * m.hidden + 3 * norm_count(m);
}

bool is_mixture(const ModelSpec& m, std::uint64_t layer) {
  if (!m.mixture) return false;
  const Mixture& x = *m.mixture;
  if (layer >= m.layers && m.layers > 0) layer = m.layers - 1;
  return layer >= x.first_dense && (layer - x.first_dense) % std::max<std::uint64_t>(1, x.every) == 0 &&
         std::find(x.dense.begin(), x.dense.end(), layer) == x.dense.end();
}

std::uint64_t mixture_count(const ModelSpec& m) {
  std::uint64_t n = 0;
  for (std::uint64_t layer = 0; layer < m.layers; ++layer) n += is_mixture(m, layer) ? 1 : 0;
  return n;
}

std::uint64_t numbered_layers(const ModelSpec& m) { return m.layers + 2 * m.prediction_modules; }

bool mixes_kinds(const ModelSpec& m) { return m.mixture && mixture_count(m) < m.layers; }
bool is_causal(const ModelSpec& m) { return m.architecture == Architecture::decoder; }
std::uint64_t key_width(const ModelSpec& m) { return m.head_dim + (m.latent ? m.latent->rope_dim : 0); }
std::uint64_t value_width(const ModelSpec& m) { return m.latent ? m.latent->value_dim : m.head_dim; }
std::uint64_t patch_count(const Image& i) { return i.patch > 0 ? (i.size / i.patch) * (i.size / i.patch) : 0; }
std::uint64_t patch_width(const Image& i) { return i.patch * i.patch * i.channels; }

}  // namespace orrery
