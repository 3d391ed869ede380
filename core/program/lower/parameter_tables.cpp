#include "core/program/lower/parameter_tables.hpp"

#include <bit>
#include <cmath>

#include "core/program/flat_parts.hpp"
#include "core/program/lower/adapters.hpp"
#include "core/program/lower/tensor.hpp"

namespace orrery::lowering {
namespace {

ShardDim whole(std::uint64_t n) { return {n, n, {}, false}; }
ShardDim cut(std::uint64_t n, const AxisList& axes) { return {n, n, axes, false}; }

/// Lays slices out one after the other; each segment is padded so that the flat
/// parts that ZeRO makes of it are equal.
///
/// With chunks no slice and no segment lies in two of them. A slice that does not fit begins a new chunk, and padding
/// fills the one before; the last chunk is padded too.
class TableBuilder {
 public:
  TableBuilder(const State& context, std::string module, std::uint64_t chunk = 0, bool shared = true)
      : context_(context), chunk_(chunk), shared_(shared) {
    table_.module = std::move(module);
    table_.slices.reserve(12);
  }

  void segment(bool decay, bool replicated, bool counted = true) {
    close();
    table_.segments.push_back({table_.count, 0, decay, replicated && (context_.tensor > 1 || context_.grid), counted});
  }
  /// Parameters that are the same on tensor ranks, each of which makes a part of their gradient.
  void summed_segment(bool decay = false) {
    segment(decay, true);
    table_.segments.back().summed = context_.tensor > 1;
  }
  /// Weights, and the bias, that norms of the model have.
  void norm(const std::string& name, const ShardDim& features) {
    const ModelSpec& m = context_.model;
    if (m.norm_weight) slice(name + ".weight", {features}, Init::ones);
    if (norms_shift(m)) slice(name + ".bias", {features}, Init::zeros);
  }
  void slice(std::string name, Shard shard, Init init, double scale = 0.0) {
    const std::uint64_t count = local_count(shard, context_.program.mesh);
    if (chunk_ > 0) {
      const std::uint64_t used = table_.count % chunk_;
      const bool full = used == 0 && table_.count > table_.segments.back().offset;
      if (full || used + count > chunk_) next_chunk(count);
    }
    table_.slices.push_back({std::move(name), table_.count, shard, init, scale});
    table_.count += count;
  }
  ParameterTable finish() {
    close();
    if (chunk_ > 0) fill_chunk();
    return std::move(table_);
  }

 private:
  void close() {
    if (table_.segments.empty()) return;
    ParameterSegment& last = table_.segments.back();
    if (table_.count == last.offset) {
      table_.segments.pop_back();
      return;
    }
    last.count = table_.count - last.offset;
    // In a chunk, experts and the rest share the room of one message, so the next slice begins at a part of either.
    const AxisList axes = chunk_ > 0 ? context_.shard_axes : shares_of(last);
    const std::uint64_t parts = size(context_.program.mesh, axes);
    last.count = (last.count + parts - 1) / parts * parts;
    table_.count = last.offset + last.count;
  }

  /// SegmentShare::own of a table that is not declared yet.
  AxisList shares_of(const ParameterSegment& segment) const {
    return context_.shard_states && shared_ ? uncut(context_.shard_axes, table_, segment) : AxisList{};
  }

  /// The segment goes on in a new chunk.
  void next_chunk(std::uint64_t count) {
    ORRERY_ASSERT(count <= chunk_, count, chunk_);  // check refuses it
    ParameterSegment next = table_.segments.back();
    close();
    fill_chunk();
    next.offset = table_.count;
    table_.segments.push_back(next);
  }
  void fill_chunk() {
    const std::uint64_t end = (table_.count + chunk_ - 1) / chunk_ * chunk_;
    if (!table_.segments.empty()) table_.segments.back().count += end - table_.count;
    table_.count = end;
  }

  const State& context_;
  std::uint64_t chunk_;  ///< elements; 0: none
  bool shared_;          ///< whether ZeRO makes parts of it
  ParameterTable table_;
};

// GPT-2's initialization: deviation 0.02, and less by sqrt(2 layers) where a
// product adds to the residual stream (Radford et al. 2019).
constexpr double deviation = 0.02;

/// Experts are cut over their axis, so their gradients are summed over other axes: they need a segment of their own.
/// The router, which is whole on every rank, has one too.
void mixture_slices(TableBuilder& t, const State& c, double residual) {
  const ModelSpec& m = c.model;
  const Mixture& x = *m.mixture;
  const AxisList parts = {c.grid ? Axis::column : Axis::tensor};
  const ShardDim width = folds_tensor(c.plan) ? whole(x.ffn) : cut(x.ffn, parts);
  const ShardDim shared = cut(x.shared_ffn, parts);
  const bool gated = is_gated(m.activation);
  if (c.grid) t.segment(true, true);  // what stands before is cut by rows too
  if (x.shared_ffn > 0) {
    t.slice("ffn.shared.up.weight", gated ? Shard{whole(m.hidden), whole(2), shared} : Shard{whole(m.hidden), shared},
            Init::normal, deviation);
    t.slice("ffn.shared.down.weight", {shared, whole(m.hidden)}, Init::normal, residual);
  }
  if (!c.grid) t.segment(true, true);
  t.slice("ffn.router.weight", {cut(m.hidden, c.layout.stream_features), whole(x.experts)}, Init::normal, deviation);
  if (x.shared_gate) {
    t.slice("ffn.shared.gate.weight", {cut(m.hidden, c.layout.stream_features), whole(1)}, Init::normal, deviation);
  }
  t.segment(true, false);
  const ShardDim experts = cut(x.experts, c.expert_axes);
  t.slice("ffn.experts.up.weight",
          gated ? Shard{experts, whole(m.hidden), whole(2), width} : Shard{experts, whole(m.hidden), width},
          Init::normal, deviation);
  t.slice("ffn.experts.down.weight", {experts, width, whole(m.hidden)}, Init::normal, residual);
}

/// Biases of experts: those of the product that widens are cut as it is. Tensor ranks each add a part of the others
/// to their parts of a sum, unless they hold other experts.
void expert_bias_slices(TableBuilder& t, const State& c) {
  const ModelSpec& m = c.model;
  const bool folded = folds_tensor(c.plan);
  const ShardDim experts = cut(m.mixture->experts, c.expert_axes),
                 width = folded ? whole(m.mixture->ffn) : cut(m.mixture->ffn, {Axis::tensor});
  t.segment(false, false);
  t.slice("ffn.experts.up.bias", is_gated(m.activation) ? Shard{experts, whole(2), width} : Shard{experts, width},
          Init::zeros);
  if (!folded) t.summed_segment();
  t.slice("ffn.experts.down.bias", {experts, whole(m.hidden)}, Init::zeros);
}

/// Weights of norms of queries and keys: one for all heads, or as the heads are cut.
void query_key_norm_slices(TableBuilder& t, const State& c) {
  const ModelSpec& m = c.model;
  const bool each = m.query_key_norm == QueryKeyNorm::head;
  const auto weights = [&](const char* name, std::uint64_t heads) {
    t.slice(name, each ? Shard{whole(m.head_dim)} : Shard{cut(heads, c.layout.wide_features), whole(m.head_dim)},
            Init::ones);
  };
  if (each) t.summed_segment();
  weights("attention.query_norm.weight", m.heads);
  weights("attention.key_norm.weight", m.kv_heads);
}

/// The product of queries: from a latent vector, cut by heads, or from the stream, like any product that widens.
void query_up_slice(TableBuilder& t, const State& c) {
  const ModelSpec& m = c.model;
  const std::uint64_t rank = m.latent->query_rank;
  t.slice("attention.query_up.weight",
          {rank > 0 ? whole(rank) : cut(m.hidden, c.layout.widen_in),
           cut(m.heads, rank > 0 ? c.layout.wide_features : c.layout.widen_out), whole(key_width(m))},
          Init::normal, deviation);
}
/// Products that widen latent vectors: cut by heads.
void latent_up_slices(TableBuilder& t, const State& c) {
  const ModelSpec& m = c.model;
  const LatentAttention& l = *m.latent;
  const ShardDim heads = cut(m.heads, c.layout.wide_features);
  // The grid's other matrices are cut by rows too, so their gradients are not summed over rows.
  if (c.grid) t.segment(true, false);
  if (l.query_rank > 0 || !c.grid) query_up_slice(t, c);
  t.slice("attention.kv_up.weight", {whole(l.kv_rank), heads, whole(m.head_dim + l.value_dim)}, Init::normal,
          deviation);
}
/// Products that make latent vectors: whole on every rank, or cut as the stream's features.
void latent_down_slices(TableBuilder& t, const State& c) {
  const ModelSpec& m = c.model;
  const LatentAttention& l = *m.latent;
  t.segment(true, true);
  const auto down = [&](const char* name, std::uint64_t width) {
    if (width > 0) t.slice(name, {cut(m.hidden, c.layout.stream_features), whole(width)}, Init::normal, deviation);
  };
  down("attention.query_down.weight", l.query_rank);
  down("attention.kv_down.weight", l.kv_rank);
  down("attention.key_rope.weight", l.rope_dim);
}

/// A matrix of a dense layer.
void product_slice(TableBuilder& t, const State& c, std::string_view weight) {
  const ModelSpec& m = c.model;
  const TensorLayout& l = c.layout;
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(m.layers));
  const std::string name(weight);
  if (weight == "attention.qkv.weight") {
    const std::uint64_t group_width = (m.heads / m.kv_heads + 2) * m.head_dim;
    // Ranks that share a key-value head each hold a part of its columns.
    t.slice(name,
            c.shares_kv_heads ? Shard{cut(m.hidden, l.widen_in), cut(m.kv_heads * group_width, l.widen_out)}
                              : Shard{cut(m.hidden, l.widen_in), cut(m.kv_heads, l.widen_out), whole(group_width)},
            Init::normal, deviation);
  } else if (weight == "attention.out.weight") {
    t.slice(name, {cut(m.heads * value_width(m), l.narrow_in), cut(m.hidden, l.narrow_out)}, Init::normal, residual);
  } else if (weight == "ffn.down.weight") {
    t.slice(name, {cut(m.ffn, l.narrow_in), cut(m.hidden, l.narrow_out)}, Init::normal, residual);
  } else if (is_gated(m.activation)) {
    t.slice(name, {cut(m.hidden, l.widen_in), whole(2), cut(m.ffn, l.widen_out)}, Init::normal, deviation);
  } else {
    t.slice(name, {cut(m.hidden, l.widen_in), cut(m.ffn, l.widen_out)}, Init::normal, deviation);
  }
}

Shard vocabulary_shard(const State& c) {
  const std::uint64_t padded = padded_vocabulary(c.plan, c.model);
  return {{padded, c.model.vocabulary, c.layout.vocabulary, false}, cut(c.model.hidden, c.layout.stream_features)};
}

/// One factor of each adapter is whole on all tensor ranks, each of which makes a part of its gradient.
void factor_slices(TableBuilder& t, const State& c, bool whole_factors) {
  const ModelSpec& m = c.model;
  const TensorLayout& l = c.layout;
  const auto rank = std::uint64_t{c.workload.adapters->rank};
  for (const char* weight : layer_products) {
    const ProductMatrices of = matrices_in(c, weight);
    const std::uint8_t adapted = adapted_in(c, of);
    if (adapted == 0) continue;
    const auto matrices = static_cast<std::uint64_t>(std::popcount(adapted));
    const std::string_view name = weight;
    const bool attention = name.starts_with("attention"),
               widens = name.ends_with("qkv.weight") || name.ends_with("up.weight");
    const std::uint64_t wide = attention ? m.heads * m.head_dim : m.ffn;
    const std::uint64_t in = widens ? m.hidden : wide;
    // A is whole where the product widens, B where it narrows.
    for (const char factor : {'a', 'b'}) {
      if ((widens == (factor == 'a')) != whole_factors) continue;
      Shard shard;
      if (factor == 'a') {
        shard = {widens ? whole(in) : cut(in, l.narrow_in), whole(matrices * rank)};
      } else if (!widens) {
        shard = {whole(rank), whole(m.hidden)};
      } else if (attention) {
        const std::uint64_t members = matrices + ((adapted & 1U) != 0 ? of.first_members - 1 : 0);
        shard = {whole(rank), cut(m.kv_heads, l.widen_out), whole(members * m.head_dim)};
      } else {
        shard = {whole(rank), whole(matrices), cut(m.ffn, l.widen_out)};
      }
      t.slice(adapter_slice(weight, factor), shard, factor == 'a' ? Init::normal : Init::zeros,
              factor == 'a' ? 1.0 / std::sqrt(3.0 * static_cast<double>(in)) : 0.0);
    }
  }
}

}  // namespace

ParameterTable layer_table(const State& c, bool mixture) {
  const ModelSpec& m = c.model;
  const std::uint64_t group_width = (m.heads / m.kv_heads + 2) * m.head_dim;
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(m.layers));
  const bool gated = is_gated(m.activation);
  const TensorLayout& l = c.layout;
  TableBuilder t(c, m.mixture && !mixture ? "layer.dense" : "layer", c.chunk);
  const auto matrices = [&] {
    if (c.quantizes()) return;
    t.segment(true, false);
    if (m.latent && !c.grid) {
      latent_up_slices(t, c);
    } else if (m.latent) {
      if (m.latent->query_rank == 0) query_up_slice(t, c);
    } else {
      product_slice(t, c, "attention.qkv.weight");
    }
    product_slice(t, c, "attention.out.weight");
    if (mixture) {
      mixture_slices(t, c, residual);
    } else {
      product_slice(t, c, "ffn.up.weight");
      product_slice(t, c, "ffn.down.weight");
    }
    if (m.latent && c.grid) latent_up_slices(t, c);
    if (m.latent) latent_down_slices(t, c);
  };
  const auto vectors = [&] {
    t.segment(false, false);
    if (m.sinks) t.slice("attention.sinks", {cut(m.heads, l.wide_features)}, Init::normal, deviation);
    if (m.biases.qkv) {
      t.slice("attention.qkv.bias",
              c.shares_kv_heads ? Shard{cut(m.kv_heads * group_width, l.wide_features)}
                                : Shard{cut(m.kv_heads, l.wide_features), whole(group_width)},
              Init::zeros);
    }
    if (m.biases.ffn && !mixture) {
      const ShardDim width = cut(m.ffn, l.wide_features);
      t.slice("ffn.up.bias", gated ? Shard{whole(2), width} : Shard{width}, Init::zeros);
    }
    if (m.query_key_norm == QueryKeyNorm::whole) query_key_norm_slices(t, c);
    t.segment(false, true);
    if (m.latent) {
      if (m.latent->query_rank > 0) t.slice("attention.query_norm.weight", {whole(m.latent->query_rank)}, Init::ones);
      t.slice("attention.kv_norm.weight", {whole(m.latent->kv_rank)}, Init::ones);
      if (c.grid) t.segment(false, true);  // others are cut by features
    }
    const ShardDim features = cut(m.hidden, l.stream_features);
    if (m.branch_norms != BranchNorms::after) {
      t.norm("norm1", features);
      if (m.parallel != ParallelBranches::one_norm) t.norm("norm2", features);
    }
    if (m.branch_norms != BranchNorms::before) {
      t.norm("attention.out_norm", features);
      t.norm("ffn.out_norm", features);
    }
    if (m.layer_scale) {
      t.slice("attention.scale.weight", {features}, Init::ones);
      t.slice("ffn.scale.weight", {features}, Init::ones);
    }
    if (m.biases.out) t.slice("attention.out.bias", {features}, Init::zeros);
    if (m.biases.ffn && !mixture) t.slice("ffn.down.bias", {features}, Init::zeros);
    if (mixture && m.mixture->router_bias) t.slice("ffn.router.bias", {whole(m.mixture->experts)}, Init::zeros);
    if (m.query_key_norm == QueryKeyNorm::head) query_key_norm_slices(t, c);
    if (mixture && m.mixture->expert_bias) expert_bias_slices(t, c);
  };
  // The gradients that a split pass makes first are a copy by itself, which begins where the table does.
  if (splits_copies(c)) {
    vectors();
    matrices();
  } else {
    matrices();
    vectors();
  }
  return t.finish();
}

ParameterTable embedding_table(const State& c) {
  const ModelSpec& m = c.model;
  const bool bert = m.architecture == Architecture::bert, vit = m.architecture == Architecture::vit;
  TableBuilder t(c, "embedding");
  t.segment(true, false);
  if (vit) {
    // A patch's numbers are cut as words are, and ranks sum over them; on a grid every rank makes its own features.
    t.slice("patch.weight",
            {cut(patch_width(*m.image), c.grid ? AxisList{} : c.layout.vocabulary),
             cut(m.hidden, c.layout.stream_features)},
            Init::normal, deviation);
  } else {
    t.slice("word.weight", vocabulary_shard(c), Init::normal, deviation);
  }
  t.segment(true, true);
  if (c.model.positions == PositionEncoding::learned) {
    t.slice("position.weight",
            {whole(c.model.max_positions + m.position_offset), cut(c.model.hidden, c.layout.stream_features)},
            Init::normal, deviation);
  }
  const ShardDim features = cut(m.hidden, c.layout.stream_features);
  if (m.segments > 0) t.slice("segment.weight", {whole(m.segments), features}, Init::normal, deviation);
  t.segment(false, true);
  if (bert || m.embedding_norm) t.norm("norm", features);
  if (vit) {
    if (m.image->patch_bias) t.slice("patch.bias", {features}, Init::zeros);
    if (m.image->class_token) t.slice("class.weight", {features}, Init::zeros);
  }
  return t.finish();
}

ParameterTable prediction_table(const State& c) {
  const ModelSpec& m = c.model;
  TableBuilder t(c, "prediction");
  t.segment(true, true);
  t.slice("hidden_projection.weight", {whole(m.hidden), whole(m.hidden)}, Init::normal, deviation);
  t.slice("token_projection.weight", {whole(m.hidden), whole(m.hidden)}, Init::normal, deviation);
  t.segment(false, true);
  for (const char* norm : {"hidden_norm", "token_norm", "output_norm"}) {
    t.norm(norm, whole(m.hidden));
  }
  return t.finish();
}

ParameterTable head_table(const State& c) {
  const ShardDim features = cut(c.model.hidden, c.layout.stream_features);
  TableBuilder t(c, "head");
  // A copy of the word table, which comes first as in the embedding's table. The embedding's counts in the norm, this
  // one does not.
  t.segment(true, false, false);
  if (c.tied_apart) t.slice("embedding.word.weight", vocabulary_shard(c), Init::normal, deviation);
  t.segment(true, false);
  if (!c.model.tied_embeddings) t.slice("output.weight", vocabulary_shard(c), Init::normal, deviation);
  if (c.model.image && c.model.image->pool == Image::Pool::class_and_mean) {
    t.slice("output.mean.weight", vocabulary_shard(c), Init::normal, deviation);
  }
  if (c.model.architecture == Architecture::bert) {
    t.segment(true, true);
    t.slice("dense.weight", {whole(c.model.hidden), features}, Init::normal, deviation);
  }
  if (has_head_bias(c.model)) {
    t.segment(false, false);
    ShardDim logits = vocabulary_shard(c).dims[0];
    logits.split = c.layout.wide_features;
    t.slice("output.bias", {logits}, Init::zeros);
  }
  t.segment(false, true);
  if (c.model.architecture == Architecture::bert) t.slice("dense.bias", {features}, Init::zeros);
  t.norm("norm", features);
  return t.finish();
}

ParameterTable adapter_table(const State& c) {
  TableBuilder t(c, "layer.adapters");
  t.segment(true, false);
  factor_slices(t, c, false);
  t.summed_segment(true);
  factor_slices(t, c, true);
  return t.finish();
}

ParameterTable product_table(const State& c, const std::string& name, std::string_view weight) {
  TableBuilder t(c, name, 0, false);
  t.segment(true, false);
  product_slice(t, c, weight);
  return t.finish();
}

}  // namespace orrery::lowering
