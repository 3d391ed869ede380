#include "exec/train/parameters.hpp"

#include <cmath>

#include "core/base/random.hpp"
#include "exec/train/reference_adapters.hpp"

namespace orrery {
namespace {

using Start = ReferenceParameter::Start;
constexpr double deviation = 0.02;

void add_norm(std::vector<ReferenceParameter>& list, const ModelSpec& m, const std::string& name) {
  if (!m.norm_weight) return;
  list.push_back({name + ".weight", 1, m.hidden, Start::ones, 0.0, false});
  if (m.norm == Norm::layer_norm && m.norm_bias)
    list.push_back({name + ".bias", 1, m.hidden, Start::zeros, 0.0, false});
}

void add_linear(std::vector<ReferenceParameter>& list, bool bias, const std::string& name, std::uint64_t in,
                std::uint64_t out, double spread) {
  list.push_back({name + ".weight", in, out, Start::normal, spread, true});
  if (bias) list.push_back({name + ".bias", 1, out, Start::zeros, 0.0, false});
}

/// The experts' matrices stand below each other.
void add_mixture(std::vector<ReferenceParameter>& list, const ModelSpec& m, const std::string& prefix,
                 double residual) {
  const Mixture& x = *m.mixture;
  const std::uint64_t gate = is_gated(m.activation) ? 2 : 1;
  const auto matrix = [&](const char* name, std::uint64_t rows, std::uint64_t columns, double spread) {
    list.push_back({prefix + name + ".weight", rows, columns, Start::normal, spread, true});
  };
  if (x.shared_ffn > 0) {
    matrix("shared.up", m.hidden, gate * x.shared_ffn, deviation);
    matrix("shared.down", x.shared_ffn, m.hidden, residual);
  }
  if (x.shared_gate) matrix("shared.gate", m.hidden, 1, deviation);
  matrix("router", m.hidden, x.experts, deviation);
  matrix("experts.up", x.experts * m.hidden, gate * x.ffn, deviation);
  matrix("experts.down", x.experts * x.ffn, m.hidden, residual);
  const auto bias = [&](const char* name, std::uint64_t rows, std::uint64_t columns) {
    list.push_back({prefix + name + ".bias", rows, columns, Start::zeros, 0.0, false});
  };
  if (x.router_bias) bias("router", 1, x.experts);
  if (!x.expert_bias) return;
  bias("experts.up", x.experts, gate * x.ffn);
  bias("experts.down", x.experts, m.hidden);
}

void add_latent(std::vector<ReferenceParameter>& list, const ModelSpec& m, const std::string& at) {
  const LatentAttention& l = *m.latent;
  const auto norm = [&](const char* name, std::uint64_t width) {
    list.push_back({at + name + ".weight", 1, width, Start::ones, 0.0, false});
  };
  if (l.query_rank > 0) {
    add_linear(list, false, at + "query_down", m.hidden, l.query_rank, deviation);
    norm("query_norm", l.query_rank);
  }
  add_linear(list, false, at + "query_up", l.query_rank > 0 ? l.query_rank : m.hidden, m.heads * key_width(m),
             deviation);
  add_linear(list, false, at + "kv_down", m.hidden, l.kv_rank, deviation);
  norm("kv_norm", l.kv_rank);
  add_linear(list, false, at + "kv_up", l.kv_rank, m.heads * (m.head_dim + l.value_dim), deviation);
  add_linear(list, false, at + "key_rope", m.hidden, l.rope_dim, deviation);
}

void add_query_key_norm(std::vector<ReferenceParameter>& list, const ModelSpec& m, const std::string& at) {
  if (m.query_key_norm == QueryKeyNorm::none || m.query_key_norm == QueryKeyNorm::unweighted) return;
  const bool each = m.query_key_norm == QueryKeyNorm::head;
  const std::uint64_t d = m.head_dim;
  list.push_back({at + "query_norm.weight", 1, each ? d : m.heads * d, Start::ones, 0.0, false});
  list.push_back({at + "key_norm.weight", 1, each ? d : m.kv_heads * d, Start::ones, 0.0, false});
}

}  // namespace

std::vector<ReferenceParameter> parameters_of(const ModelSpec& m) {
  std::vector<ReferenceParameter> list;
  const bool bert = m.architecture == Architecture::bert, vit = m.architecture == Architecture::vit;
  if (vit) {
    list.push_back({"embedding.patch.weight", patch_width(*m.image), m.hidden, Start::normal, deviation, true});
    const auto vector = [&](bool has, const char* name) {
      if (has) list.push_back({name, 1, m.hidden, Start::zeros, 0.0, false});
    };
    vector(m.image->patch_bias, "embedding.patch.bias");
    vector(m.image->class_token, "embedding.class.weight");
  } else {
    list.push_back({"embedding.word.weight", m.vocabulary, m.hidden, Start::normal, deviation, true});
  }
  if (m.segments > 0) {
    list.push_back({"embedding.segment.weight", m.segments, m.hidden, Start::normal, deviation, true});
  }
  if (bert || m.embedding_norm) add_norm(list, m, "embedding.norm");
  if (m.positions == PositionEncoding::learned) {
    list.push_back(
        {"embedding.position.weight", m.max_positions + m.position_offset, m.hidden, Start::normal, deviation, true});
  }
  const std::uint64_t query = m.heads * value_width(m);
  const std::uint64_t qkv = m.heads * m.head_dim + 2 * m.kv_heads * m.head_dim;
  const std::uint64_t up = is_gated(m.activation) ? 2 * m.ffn : m.ffn;
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(m.layers));
  for (std::uint64_t layer = 0; layer < numbered_layers(m); ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    if (layer >= m.layers && (layer - m.layers) % 2 == 0) {
      for (const char* matrix : {"hidden_projection.weight", "token_projection.weight"}) {
        list.push_back({prefix + matrix, m.hidden, m.hidden, Start::normal, deviation, true});
      }
      for (const char* norm : {"hidden_norm", "token_norm", "output_norm"}) add_norm(list, m, prefix + norm);
      continue;
    }
    const bool before = m.branch_norms != BranchNorms::after, behind = m.branch_norms != BranchNorms::before;
    if (before) add_norm(list, m, prefix + "norm1");
    if (m.latent) {
      add_latent(list, m, prefix + "attention.");
    } else {
      add_linear(list, m.biases.qkv, prefix + "attention.qkv", m.hidden, qkv, deviation);
    }
    add_query_key_norm(list, m, prefix + "attention.");
    add_linear(list, m.biases.out, prefix + "attention.out", query, m.hidden, residual);
    if (m.sinks) list.push_back({prefix + "attention.sinks", 1, m.heads, Start::normal, deviation, false});
    if (behind) add_norm(list, m, prefix + "attention.out_norm");
    if (before && m.parallel != ParallelBranches::one_norm) add_norm(list, m, prefix + "norm2");
    if (is_mixture(m, layer)) {
      add_mixture(list, m, prefix + "ffn.", residual);
    } else {
      add_linear(list, m.biases.ffn, prefix + "ffn.up", m.hidden, up, deviation);
      add_linear(list, m.biases.ffn, prefix + "ffn.down", m.ffn, m.hidden, residual);
    }
    if (behind) add_norm(list, m, prefix + "ffn.out_norm");
    for (const char* branch : {"attention", "ffn"}) {
      if (m.layer_scale) list.push_back({prefix + branch + ".scale.weight", 1, m.hidden, Start::ones, 0.0, false});
    }
  }
  add_norm(list, m, "head.norm");
  if (bert) add_linear(list, true, "head.dense", m.hidden, m.hidden, deviation);
  if (bert || (vit && m.image->head_bias) || m.biases.head)
    list.push_back({"head.output.bias", 1, m.vocabulary, Start::zeros, 0.0, false});
  if (!m.tied_embeddings) {
    list.push_back({"head.output.weight", m.vocabulary, m.hidden, Start::normal, deviation, true});
  }
  if (vit && m.image->pool == Image::Pool::class_and_mean) {
    list.push_back({"head.output.mean.weight", m.vocabulary, m.hidden, Start::normal, deviation, true});
  }
  return list;
}

std::vector<ReferenceParameter> trained_parameters_of(const ModelSpec& model, const Workload& workload) {
  return workload.adapters ? adapter_parameters_of(model, *workload.adapters) : parameters_of(model);
}

Matrix initial_tensor(const ReferenceParameter& p, const Workload& workload) {
  Matrix tensor(p.rows, p.columns);
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    double start = 0.0;
    switch (p.start) {
      case Start::zeros: break;
      case Start::ones: start = 1.0; break;
      case Start::normal: start = random_normal(workload.seed, stream_of(p.name), i) * p.deviation; break;
    }
    tensor.values[i] = rounded(rounded(start, wide_dtype(workload)), state_dtype(workload));
  }
  return tensor;
}

ParameterSet initial_parameters(const ModelSpec& model, const Workload& workload) {
  ParameterSet set;
  for (const ReferenceParameter& p : parameters_of(model)) set.emplace(p.name, initial_tensor(p, workload));
  // Weights that stay as they are have no masters.
  if (workload.adapters) set = rounded(set, weight_dtype(workload));
  for (const ReferenceParameter& p : trained_parameters_of(model, workload)) {
    set.try_emplace(p.name, initial_tensor(p, workload));
  }
  return set;
}

ParameterSet zeros_like(const ParameterSet& set) {
  ParameterSet zeros;
  for (const auto& [name, tensor] : set) zeros.emplace(name, Matrix(tensor.rows, tensor.columns));
  return zeros;
}

}  // namespace orrery
