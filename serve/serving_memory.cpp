#include "serve/serving_memory.hpp"

#include <algorithm>
#include <cmath>

namespace orrery {
namespace {

double real(std::uint64_t n) { return static_cast<double>(n); }

/// KV heads of one rank; ranks beyond them hold copies.
double local_kv_heads(const ModelSpec& m, const ServingPlan& p) { return std::max(1.0, real(m.kv_heads) / p.tensor); }

/// Parameters of matrices of one layer's attention on a rank, and on one device that serves alone.
double attention_matrices(const ModelSpec& m, double tensor, double kv_heads) {
  const double h = real(m.hidden);
  const double a = real(m.heads) / tensor;
  if (m.latent) {
    const LatentAttention& l = *m.latent;
    const double q = real(l.query_rank);
    const double queries = a * real(m.head_dim + l.rope_dim);
    return (q > 0.0 ? h * q + q * queries : h * queries) + h * real(l.kv_rank + l.rope_dim) +
           real(l.kv_rank) * a * real(m.head_dim + l.value_dim) + a * real(l.value_dim) * h;
  }
  const double d = real(m.head_dim);
  return 2.0 * h * a * d + 2.0 * h * kv_heads * d;
}

}  // namespace

Bytes serving_weights(const ModelSpec& m, const ServingPlan& p) {
  const double tp = p.tensor;
  const double h = real(m.hidden);
  const double matrices = is_gated(m.activation) ? 3.0 : 2.0;
  const double layers = real(m.layers);
  const double largest = std::ceil(layers / p.pipeline) / layers;
  const double mixtures = m.mixture ? real(mixture_count(m)) : 0.0;
  const double dense = (layers - mixtures) * matrices * h * real(m.ffn);
  double bytes = layers * attention_matrices(m, tp, local_kv_heads(m, p)) * bytes_of(p.weights);
  bytes += dense / tp * bytes_of(p.weights);
  // All parameters that are no matrix of these kinds are small, and whole on each rank in bf16.
  double matrices_of_all = layers * attention_matrices(m, 1.0, real(m.kv_heads)) + dense;
  if (m.mixture) {
    const Mixture& x = *m.mixture;
    const double experts = mixtures * matrices * h * real(x.ffn) * x.experts;
    const double shared = mixtures * matrices * h * real(x.shared_ffn);
    bytes += experts / p.stage_devices() * bytes_of(p.experts) + shared / tp * bytes_of(p.weights);
    matrices_of_all += experts + shared;
  }
  const double table = real(m.vocabulary) * h;
  const double tables = m.tied_embeddings ? table : 2.0 * table;
  matrices_of_all += tables;
  const double rest = std::max(0.0, real(parameter_count(m)) - matrices_of_all);
  bytes += 2.0 * rest;
  // The first stage has the embedding, the last one the head; a single stage has both.
  const double held = p.pipeline > 1 ? table : tables;
  return Bytes::of(largest * bytes + 2.0 * held / tp);
}

Bytes kv_bytes(const ModelSpec& m, const ServingPlan& p, double tokens, std::uint32_t block) {
  const double b = p.kv_fp8 ? 1.0 : 2.0;
  const auto whole = [&](double t) { return std::ceil(t / block) * block; };
  const double wide =
      m.latent ? real(m.latent->kv_rank + m.latent->rope_dim) : 2.0 * local_kv_heads(m, p) * real(m.head_dim);
  double kept = 0.0;
  for (std::uint64_t l = 0; l < m.layers; ++l) {
    kept += whole(m.local && is_local(m, l) ? std::min(tokens, real(m.local->size)) : tokens);
  }
  return Bytes::of(kept * wide * b * (std::ceil(real(m.layers) / p.pipeline) / real(m.layers)));
}

Bytes kv_bytes_per_token(const ModelSpec& m, bool kv_fp8) {
  const double wide = m.latent ? real(m.latent->kv_rank + m.latent->rope_dim) : 2.0 * real(m.kv_heads * m.head_dim);
  return Bytes::of(real(m.layers) * wide * (kv_fp8 ? 1.0 : 2.0));
}

ServingMemory serving_memory(const ModelSpec& m, const ServingPlan& p, const DeviceSpec& device,
                             const MemoryRule& rule) {
  ServingMemory out{device.memory, serving_weights(m, p), rule.held, {}};
  const Bytes room = rule.of_the_rest ? rule.share * (out.capacity - out.weights - out.held)
                                      : rule.share * out.capacity - out.weights - out.held;
  out.kv = std::max(Bytes{}, room);
  return out;
}

std::uint64_t sequences_that_fit(const ModelSpec& m, const ServingPlan& p, const ServingMemory& memory, double tokens) {
  const Bytes each = kv_bytes(m, p, tokens);
  return p.attention_data * static_cast<std::uint64_t>(std::floor(memory.kv / each));
}

}  // namespace orrery
