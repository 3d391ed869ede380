#include <algorithm>

#include "core/spec/spec_check.hpp"
#include "core/spec/yarn_constants.hpp"
#include "framework/megatron_core/flag_writer.hpp"

namespace orrery {
namespace {

/// Layers as --moe-layer-freq and its like have them: "([0]*3+[1]*58)".
template <class Chosen>
std::string layer_list(std::uint64_t layers, const Chosen& chosen) {
  std::string out;
  for (std::uint64_t l = 0; l < layers;) {
    const bool one = chosen(l);
    std::uint64_t n = 0;
    for (; l < layers && chosen(l) == one; ++l) ++n;
    out += fmt::format("{}[{}]*{}", out.empty() ? "" : "+", one ? 1 : 0, n);
  }
  return "(" + out + ")";
}

void positions(FlagWriter& w) {
  const ModelSpec& m = w.model();
  switch (m.positions) {
    case PositionEncoding::learned: w.flag("--position-embedding-type", "learned_absolute"); break;
    case PositionEncoding::rotary:
      w.flag("--position-embedding-type", "rope");
      w.flag("--rotary-base", static_cast<std::uint64_t>(m.rope_theta));
      break;
    case PositionEncoding::none: w.flag("--position-embedding-type", "none"); break;
    case PositionEncoding::alibi: w.refuse("model", "layers", "the export has no flags for ALiBi", {}); break;
  }
}

void rope(FlagWriter& w) {
  const ModelSpec& m = w.model();
  const RopeStretch& s = m.rope_stretch;
  if (m.rotary_dim > 0) w.flag("--rotary-percent", static_cast<double>(m.rotary_dim) / static_cast<double>(m.head_dim));
  if (m.latent) {
    const bool yarn = m.rope_scaling == "yarn" && s.factor > 0.0;
    w.flag("--rope-type", yarn ? "yarn" : "rope");
    if (yarn) {
      w.flag("--rotary-scaling-factor", s.factor);
      if (s.original > 0) w.flag("--original-max-position-embeddings", s.original);
      const RopeStretch usual;
      if (s.fast != usual.fast) w.flag("--beta-fast", s.fast);
      if (s.slow != usual.slow) w.flag("--beta-slow", s.slow);
      const YarnConstants constants = constants_of(m);
      w.flag("--mscale", constants.one);
      w.flag("--mscale-all-dim", constants.all);
    } else if (m.attention_scale > 0.0) {
      w.refuse("model", "layers", "the export has no flags for a scale of latent attention's scores", {});
    }
    return;
  }
  if (m.rope_scaling == "llama3") {
    w.flag("--use-rope-scaling");
    if (s.factor > 0.0) w.flag("--rope-scaling-factor", s.factor);
  } else if (!m.rope_scaling.empty()) {
    w.refuse("model", "layers", "the export has no flags for rotary angles that are stretched but as Llama-3's", {});
  }
}

/// Kinds of layers: those that have a flag, and refusals of the others.
void layer_kinds(FlagWriter& w) {
  const ModelSpec& m = w.model();
  const auto none = [&](bool has, const char* what) {
    if (has) w.refuse("model", "layers", fmt::format("the export has no flags for {}", what), {});
  };
  if (m.query_key_norm == QueryKeyNorm::head || m.latent) w.flag("--qk-layernorm");
  if (m.query_key_norm == QueryKeyNorm::unweighted) w.flag("--qk-l2-norm");
  none(m.query_key_norm == QueryKeyNorm::whole, "norms of queries and keys but over each head");
  if (m.biases == Biases{true, false, false, false}) {
    w.flag("--disable-bias-linear");
    w.flag("--add-qkv-bias");
  } else if (!m.biases.in_layers()) {
    w.flag("--disable-bias-linear");
  }
  none(m.biases != Biases::of_layers(m.biases.qkv) && m.biases != Biases{true, false, false, false},
       "biases but of all linear layers, or of queries, keys and values");
  rope(w);
  if (m.local) {
    none(m.local->span != LocalAttention::Span::window || m.local->rope_theta > 0.0,
         "chunks of near keys, or rotary angles of their own in layers that see near keys alone");
    w.flag("--window-size", fmt::format("({},0)", m.local->size - 1));
    if (!m.local->global.empty())
      w.flag("--window-attn-skip-freq", layer_list(m.layers, [&](std::uint64_t l) { return is_local(m, l); }));
  }
  if (!m.unrotated.empty())
    w.flag("--no-rope-freq", layer_list(m.layers, [&](std::uint64_t l) { return !rotates(m, l); }));
  if (m.sinks) w.flag("--softmax-type", "learnable");
  if (m.attention_scale > 0.0 && !m.latent) w.flag("--softmax-scale", m.attention_scale);
  none(m.attention_softcap > 0.0, "scores with a cap");
  none(m.parallel != ParallelBranches::none, "branches side by side");
  none(m.branch_norms != BranchNorms::before, "norms behind branches");
  none(!m.norm_weight || !m.norm_bias || m.embedding_norm, "norms without weights or biases, or of the embedding");
  none(m.logit_softcap > 0.0 || m.embedding_scale != 1.0 || m.residual_scale != 1.0 || m.logit_scale != 1.0,
       "scales and caps outside attention");
  none(m.qkv_clip > 0.0 || m.gate_limit > 0.0, "clipped values");
  none(m.position_offset > 0, "a table of positions with rows ahead of the first");
}

void latent(FlagWriter& w) {
  const LatentAttention& l = *w.model().latent;
  w.flag("--multi-latent-attention");
  if (l.query_rank > 0) w.flag("--q-lora-rank", l.query_rank);
  w.flag("--kv-lora-rank", l.kv_rank);
  w.flag("--qk-head-dim", w.model().head_dim);
  w.flag("--qk-pos-emb-head-dim", l.rope_dim);
  w.flag("--v-head-dim", l.value_dim);
}

void mixture(FlagWriter& w) {
  const ModelSpec& m = w.model();
  const Mixture& x = *m.mixture;
  w.flag("--num-experts", x.experts);
  w.flag("--moe-ffn-hidden-size", x.ffn);
  w.flag("--moe-router-topk", x.per_token);
  if (mixes_kinds(m))
    w.flag("--moe-layer-freq", layer_list(m.layers, [&](std::uint64_t l) { return is_mixture(m, l); }));
  if (x.shared_ffn > 0) w.flag("--moe-shared-expert-intermediate-size", x.shared_ffn);
  if (x.shared_gate) w.flag("--moe-shared-expert-gate");
  switch (x.scores) {
    case Mixture::Scores::softmax_chosen: break;
    case Mixture::Scores::softmax_all: w.flag("--moe-router-pre-softmax"); break;
    case Mixture::Scores::sigmoid: w.flag("--moe-router-score-function", "sigmoid"); break;
  }
  if (x.scale != 1.0) w.flag("--moe-router-topk-scaling-factor", x.scale);
  if (x.groups > 1) {
    w.flag("--moe-router-num-groups", x.groups);
    w.flag("--moe-router-group-topk", x.groups_per_token);
  }
  if (x.score_bias) w.flag("--moe-router-enable-expert-bias");
  const Routing& r = w.workload().routing;
  w.flag("--moe-router-load-balancing-type", r.auxiliary_loss > 0.0 ? "aux_loss" : "none");
  if (r.auxiliary_loss > 0.0) w.flag("--moe-aux-loss-coeff", r.auxiliary_loss);
  if (r.capacity) w.flag("--moe-expert-capacity-factor", *r.capacity);
  const bool gathers =
      w.plan().expert_dispatch == ExpertDispatch::all_gather && size(w.plan().mesh, expert_axes(w.plan())) > 1;
  w.flag("--moe-token-dispatcher-type", gathers ? "allgather" : "alltoall");
  if (gathers && r.capacity) {
    w.refuse("plan.expert_dispatch", "expert-dispatch",
             "Megatron-LM takes a capacity with the dispatcher alltoall alone",
             {"Leave out expert_dispatch, or the capacity."});
  } else if (gathers && x.expert_bias) {
    w.refuse("plan.expert_dispatch", "expert-dispatch", "Megatron-LM's dispatcher allgather takes no biases of experts",
             {"Leave out expert_dispatch."});
  }
  w.flag("--moe-grouped-gemm");
  if (x.router_bias || x.expert_bias != m.biases.ffn)
    w.refuse("model", "layers", "the export has no flags for biases of routers, or of experts alone", {});
}

}  // namespace

void write_megatron_model(FlagWriter& w) {
  const ModelSpec& m = w.model();
  if (m.architecture != Architecture::decoder || m.counted) {
    w.refuse("", "architecture",
             "the export has no flags for BERT, vision transformers or models that are only counted",
             {fmt::format("{} is none of the decoders that it knows.", m.name)});
  }
  w.flag("--num-layers", m.layers);
  w.flag("--hidden-size", m.hidden);
  w.flag("--ffn-hidden-size", m.ffn);
  w.flag("--num-attention-heads", m.heads);
  w.flag("--kv-channels", m.head_dim);
  if (m.kv_heads != m.heads) {
    w.flag("--group-query-attention");
    w.flag("--num-query-groups", m.kv_heads);
  }
  if (m.prediction_modules > 0) {
    w.flag("--mtp-num-layers", m.prediction_modules);
    w.flag("--mtp-loss-scaling-factor", w.workload().prediction_loss_weight.value_or(usual_prediction_loss_weight));
  }
  if (m.latent) latent(w);
  if (m.mixture) mixture(w);
  w.flag("--max-position-embeddings", std::max(m.max_positions, w.workload().sequence_length));
  positions(w);
  w.flag("--normalization", m.norm == Norm::layer_norm ? "LayerNorm" : "RMSNorm");
  w.flag("--norm-epsilon", m.norm_epsilon);
  switch (m.activation) {
    case Activation::gelu: break;
    case Activation::swiglu: w.flag("--swiglu"); break;
    case Activation::squared_relu: w.flag("--squared-relu"); break;
    case Activation::geglu:
    case Activation::relu:
    case Activation::quick_gelu:
      w.refuse("model", "layers", "the export has no flags for activations but gelu, swiglu and squared relu", {});
      break;
  }
  layer_kinds(w);
  if (!m.tied_embeddings) w.flag("--untie-embeddings-and-output-weights");
  w.flag("--vocab-size", m.vocabulary);
  w.flag("--make-vocab-size-divisible-by", 1);  // times the tensor size, as here
  w.flag("--hidden-dropout", w.workload().hidden_dropout);
  w.flag("--attention-dropout", w.workload().attention_dropout);
}

}  // namespace orrery
