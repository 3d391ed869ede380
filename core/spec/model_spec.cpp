#include "core/spec/model_spec.hpp"

#include <algorithm>

namespace orrery {

bool LayerPattern::has(std::uint64_t layer) const {
  return (every > 0 && (layer + 1) % every == 0) || std::find(layers.begin(), layers.end(), layer) != layers.end();
}

LayerPattern LayerPattern::of(const std::vector<bool>& chosen) {
  LayerPattern all;
  for (std::size_t l = 0; l < chosen.size(); ++l) {
    if (chosen[l]) all.layers.push_back(static_cast<std::uint32_t>(l));
  }
  if (all.layers.empty()) return all;
  LayerPattern regular;
  regular.every = all.layers.front() + 1U;
  for (std::size_t l = 0; l < chosen.size(); ++l) {
    if (regular.has(l) != chosen[l]) return all;
  }
  return regular;
}

namespace {

/// Weights of a norm over `width` features.
std::uint64_t norm_count(const ModelSpec& m, std::uint64_t width) {
  if (!m.norm_weight) return 0;
  return width * (m.norm == Norm::layer_norm && m.norm_bias ? 2 : 1);
}
std::uint64_t norm_count(const ModelSpec& m) { return norm_count(m, m.hidden); }

std::uint64_t query_key_norm_count(const ModelSpec& m) {
  switch (m.query_key_norm) {
    case QueryKeyNorm::none:
    case QueryKeyNorm::unweighted: return 0;
    case QueryKeyNorm::head: return 2 * norm_count(m, m.head_dim);
    case QueryKeyNorm::whole: return norm_count(m, (m.heads + m.kv_heads) * m.head_dim);
  }
  return 0;
}

}  // namespace

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
  return m.hidden * qkv + query * m.hidden + (m.biases.qkv ? qkv : 0) + (m.biases.out ? m.hidden : 0) +
         query_key_norm_count(m) + (m.sinks ? m.heads : 0);
}

namespace {

/// Parameters in the matrices of a feed-forward part, per feature of its width.
std::uint64_t per_width(const ModelSpec& m) { return m.hidden * (is_gated(m.activation) ? 3 : 2); }
/// Biases of a feed-forward part of this width.
std::uint64_t ffn_bias_count(const ModelSpec& m, std::uint64_t width) {
  return (is_gated(m.activation) ? 2 : 1) * width + m.hidden;
}

/// Parameters of a mixture, with `experts` of its experts counted.
std::uint64_t experts_count(const ModelSpec& m, std::uint64_t experts) {
  const Mixture& x = *m.mixture;
  return per_width(m) * (experts * x.ffn + x.shared_ffn) + m.hidden * x.experts + (x.router_bias ? x.experts : 0) +
         (x.expert_bias ? experts * ffn_bias_count(m, x.ffn) : 0) + (x.shared_gate ? m.hidden : 0);
}
std::uint64_t dense_count(const ModelSpec& m) {
  return per_width(m) * m.ffn + (m.biases.ffn ? ffn_bias_count(m, m.ffn) : 0);
}
std::uint64_t score_bias_count(const ModelSpec& m) {
  return m.mixture && m.mixture->score_bias ? m.mixture->experts : 0;
}

}  // namespace

std::uint64_t norms_per_layer(const ModelSpec& m) {
  switch (m.parallel) {
    case ParallelBranches::none: break;
    case ParallelBranches::one_norm: return 1;
    case ParallelBranches::two_norms: return 2;
  }
  return m.branch_norms == BranchNorms::both ? 4 : 2;
}

std::uint64_t layer_parameter_count(const ModelSpec& m) {
  const std::uint64_t ffn = m.mixture ? experts_count(m, m.mixture->experts) : dense_count(m);
  const std::uint64_t scales = m.layer_scale ? 2 * m.hidden : 0;
  return attention_parameter_count(m) + ffn + norms_per_layer(m) * norm_count(m) + scales;
}

namespace {

std::uint64_t layers_count(const ModelSpec& m) {
  const std::uint64_t all = m.layers * layer_parameter_count(m);
  if (!m.mixture) return all;
  const std::uint64_t dense = m.layers - mixture_count(m);
  return all - dense * experts_count(m, m.mixture->experts) + dense * dense_count(m);
}

/// All parameters outside the layers and the head.
std::uint64_t embedding_count(const ModelSpec& m) {
  const std::uint64_t positions =
      m.positions == PositionEncoding::learned ? (m.max_positions + m.position_offset) * m.hidden : 0;
  switch (m.architecture) {
    case Architecture::decoder: return m.vocabulary * m.hidden + positions + (m.embedding_norm ? norm_count(m) : 0);
    case Architecture::bert: return (m.vocabulary + m.segments) * m.hidden + positions + norm_count(m);
    case Architecture::vit: {
      const Image image = m.image.value_or(Image{});
      const std::uint64_t vectors = (image.patch_bias ? 1 : 0) + (image.class_token ? 1 : 0);
      return (patch_width(image) + vectors) * m.hidden + positions + (m.embedding_norm ? norm_count(m) : 0);
    }
  }
  return 0;
}

}  // namespace

std::uint64_t parameter_count(const ModelSpec& m) {
  if (m.counted) return m.counted->parameters;
  const std::uint64_t table = m.vocabulary * m.hidden;
  const std::uint64_t body = embedding_count(m) + layers_count(m);
  switch (m.architecture) {
    case Architecture::decoder:
      return body + (m.tied_embeddings ? 0 : table) + (m.biases.head ? m.vocabulary : 0) + norm_count(m);
    case Architecture::bert: return body + m.hidden * m.hidden + m.hidden + norm_count(m) + m.vocabulary;
    case Architecture::vit: {
      const Image image = m.image.value_or(Image{});
      const std::uint64_t tables = (sees_class_token(image) ? 1 : 0) + (sees_mean(image) ? 1 : 0);
      return body + norm_count(m) + tables * table + (image.head_bias ? m.vocabulary : 0);
    }
  }
  return 0;
}

std::uint64_t active_parameter_count(const ModelSpec& m) {
  if (m.counted) return m.counted->active > 0 ? m.counted->active : m.counted->parameters;
  if (!m.mixture) return parameter_count(m);
  const std::uint64_t idle = experts_count(m, m.mixture->experts) - experts_count(m, m.mixture->per_token);
  return parameter_count(m) - mixture_count(m) * idle;
}

std::uint64_t published_parameter_count(const ModelSpec& m) {
  if (m.counted) return m.counted->parameters;
  if (m.architecture == Architecture::vit) return parameter_count(m) + (m.image && m.image->mask_token ? m.hidden : 0);
  if (m.architecture != Architecture::bert) return parameter_count(m) + mixture_count(m) * score_bias_count(m);
  const std::uint64_t pooler = m.segments > 0 ? m.hidden * m.hidden + m.hidden : 0;  // reads the first of two texts
  return embedding_count(m) + layers_count(m) + pooler;
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

bool is_local(const ModelSpec& m, std::uint64_t layer) {
  if (!m.local) return false;
  return !m.local->global.has(std::min(layer, std::max<std::uint64_t>(m.layers, 1) - 1));
}

bool rotates(const ModelSpec& m, std::uint64_t layer) {
  return m.positions == PositionEncoding::rotary &&
         !m.unrotated.has(std::min(layer, std::max<std::uint64_t>(m.layers, 1) - 1));
}

bool is_causal(const ModelSpec& m) { return m.architecture == Architecture::decoder; }
std::uint64_t key_width(const ModelSpec& m) { return m.head_dim + (m.latent ? m.latent->rope_dim : 0); }
std::uint64_t value_width(const ModelSpec& m) { return m.latent ? m.latent->value_dim : m.head_dim; }
std::uint64_t image_positions(const Image& i) { return patch_count(i) + (i.class_token ? 1 : 0); }
bool sees_class_token(const Image& i) { return i.pool != Image::Pool::mean; }
bool sees_mean(const Image& i) { return i.pool != Image::Pool::class_token; }
std::uint64_t patch_count(const Image& i) { return i.patch > 0 ? (i.size / i.patch) * (i.size / i.patch) : 0; }
std::uint64_t patch_width(const Image& i) { return i.patch * i.patch * i.channels; }

}  // namespace orrery
