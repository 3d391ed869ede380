#include <algorithm>
#include <bit>
#include <cmath>

#include "core/program/base_weights.hpp"
#include "core/program/factored.hpp"
#include "core/program/flat_parts.hpp"
#include "core/program/lower/adapters.hpp"
#include "core/program/lower/base_weights.hpp"
#include "core/program/lower/state.hpp"
#include "core/program/lower/tensor.hpp"
#include "core/program/moment_scales.hpp"

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

Shard vocabulary_shard(const State& c) {
  const std::uint64_t padded = padded_vocabulary(c.plan, c.model);
  return {{padded, c.model.vocabulary, c.layout.vocabulary, false}, cut(c.model.hidden, c.layout.stream_features)};
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

/// The module that brings together the stream and the embedding of a token ahead (DeepSeek-V3, 2024, section 2.2,
/// equation 21), and the norm before the module's head. Every tensor rank holds it whole.
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

ParameterTable adapter_table(const State& c) {
  TableBuilder t(c, "layer.adapters");
  t.segment(true, false);
  factor_slices(t, c, false);
  t.summed_segment(true);
  factor_slices(t, c, true);
  return t.finish();
}

/// The layers' matrices in few bits, each with a table of its own.
void declare_base(State& c) {
  const Adapters& a = *c.workload.adapters;
  for (const char* weight : layer_products) {
    BaseMatrix base;
    base.weight = weight;
    const std::string name = base_module(weight);
    TableBuilder t(c, name, 0, false);
    t.segment(true, false);
    product_slice(t, c, weight);
    base.table = static_cast<std::uint32_t>(c.program.parameter_tables.size());
    c.program.parameter_tables.push_back(t.finish());
    const ParameterTable& table = c.program.parameter_tables.back();
    const ShardDim& in = table.slices.front().shard.dims[0];
    base.rows = in.extent / size(c.program.mesh, in.split);
    base.columns = local_count(table.slices.front().shard, c.program.mesh) / base.rows;
    const auto declare = [&](const char* what, Role role, DType dtype, std::uint64_t count) {
      Buffer b;
      b.name = name + "." + what;
      b.role = role;
      b.scope = Scope::layer;
      b.dtype = dtype;
      b.count = count;
      if (role == Role::workspace) b.parameters = base.table;
      return c.declare(std::move(b));
    };
    const QuantizedSize size = quantized_size(a.base, a.double_quantization, base.rows, base.columns);
    base.codes = declare("codes", Role::weight, code_dtype(a.base), size.codes);
    base.scales = declare("scales", Role::weight, scale_dtype(a.double_quantization), size.scales);
    base.forward = declare("forward", Role::workspace, c.act, table.count);
    base.backward = declare("backward", Role::workspace, c.act, table.count);
    c.base.push_back(base);
  }
}

/// Where a module's states live, and with `all` its weights too; some layers' states are here, some there.
struct StatesOn {
  bool device, host, all;
};

void declare_module(State& c, Module& module, ParameterTable table, Scope scope, StatesOn on) {
  const std::string name = table.module;
  module.table = static_cast<std::uint32_t>(c.program.parameter_tables.size());
  c.program.parameter_tables.push_back(std::move(table));
  const auto persistent = [&](const char* what, Role role, DType dtype, bool sharded, Tier tier = Tier::device) {
    Buffer b;
    b.name = name + "." + what;
    b.role = role;
    b.scope = scope;
    b.dtype = dtype;
    if (sharded) b.flat_split = c.shard_axes;
    b.count = flat_count(c.program.parameter_tables[module.table], c.program.mesh, b.flat_split);
    b.parameters = module.table;
    b.tier = tier;
    return c.declare(std::move(b));
  };
  const auto scales = [&](const char* what, Role role, Tier tier) {
    Buffer b;
    b.name = name + "." + what;
    b.role = role;
    b.scope = scope;
    b.dtype = DType::f32;
    const AxisList split = c.shard_states ? c.shard_axes : AxisList{};
    for (const FlatPart& part : flat_parts(c.program.parameter_tables[module.table], c.program.mesh, split)) {
      b.count += moment_scales(part.count, moment_block(moment_dtype(c.workload)));
    }
    b.tier = tier;
    return c.declare(std::move(b));
  };
  const auto statistics = [&](const char* what, Role role, Tier tier) {
    Buffer b;
    b.name = name + "." + what;
    b.role = role;
    b.scope = scope;
    b.dtype = c.state;
    for (const ParameterSegment& s : c.program.parameter_tables[module.table].segments) {
      b.count += factored(c.program.parameter_tables[module.table], s, c.program.mesh).count;
    }
    b.tier = tier;
    return c.declare(std::move(b));
  };
  module.weights = module.whole_weights = persistent("weights", Role::weight, c.act, c.zero >= 3);
  if (!c.trains_weights() && &module != &c.adapters) {
    if (c.zero >= 3) module.whole_weights = persistent("weights.whole", Role::weight, c.act, false);
    module.gradients = module.whole_gradients = module.first_gradients = no_buffer;
    return;
  }
  module.gradients = persistent("gradients", Role::gradient, c.grad, c.zero >= 2);
  module.whole_gradients = module.gradients;
  if (c.zero >= 3) module.whole_weights = persistent("weights.whole", Role::weight, c.act, false);
  if (c.zero >= 2) module.whole_gradients = persistent("gradients.whole", Role::gradient, c.grad, false);
  module.first_gradients = module.whole_gradients;
  std::uint64_t first = 0;  // elements
  for (const ParameterSegment& s : c.program.parameter_tables[module.table].segments) {
    if (is_in(GradientPart::first, c.program.parameter_tables[module.table], s)) first = s.offset + s.count;
  }
  if (splits_copies(c) && first < c.program[module.whole_gradients].count && first > 0) {
    module.first_gradients = persistent("gradients.first", Role::gradient, c.grad, false);
    c.program.buffers[index(module.first_gradients)].count = first;
  }
  // A prediction module's weights are read after the head has added to a gradient of it.
  if (c.chunk > 0 && scope == Scope::layer && name != "prediction") {
    c.program.buffers[index(module.whole_gradients)].reuses = module.whole_weights;
  }
  static constexpr const char* moments[] = {"moment1", "moment2"};
  if (on.device) {
    if (has_master_weights(c.workload)) module.masters = persistent("masters", Role::master, c.state, c.shard_states);
    for (int i = 0; i < optimizer_moments(c.workload); ++i) {
      module.moments[i] = persistent(moments[i], Role::moment, moment_dtype(c.workload, i), c.shard_states);
    }
    if (has_scaled_moments(c.workload)) module.scales = scales("scales", Role::moment, Tier::device);
    if (has_factored_moments(c.workload)) module.moments[0] = statistics("moments", Role::moment, Tier::device);
  }
  if (!on.host && !on.all) return;
  HostStates& h = module.host;
  // Data on disk passes through host memory, one module at a time.
  const bool weights_on_disk = on.all && c.plan.parameters_tier == OffloadTier::disk;
  if (on.host || !weights_on_disk) {
    h.weights = persistent("weights.host", Role::weight, c.act, c.shard_states, Tier::host);
  }
  if (weights_on_disk) {
    h.passing_weights = persistent("weights.passing", Role::workspace, c.act, c.shard_states, Tier::host);
    h.disk_weights = persistent("weights.disk", Role::weight, c.act, c.shard_states, Tier::disk);
  }
  h.gradients = persistent("gradients.host", Role::workspace, c.grad, c.shard_states, Tier::host);
  const bool disk = c.plan.states_tier == OffloadTier::disk;
  const auto state = [&](const std::string& what, Role role, DType type, BufferId& host, BufferId& on_disk) {
    host = persistent((what + ".host").c_str(), disk ? Role::workspace : role, type, c.shard_states, Tier::host);
    if (disk) on_disk = persistent((what + ".disk").c_str(), role, type, c.shard_states, Tier::disk);
  };
  if (has_master_weights(c.workload)) state("masters", Role::master, c.state, h.masters, h.disk_masters);
  for (int i = 0; i < optimizer_moments(c.workload); ++i) {
    state(moments[i], Role::moment, moment_dtype(c.workload, i), h.moments[i], h.disk_moments[i]);
  }
  if (has_factored_moments(c.workload)) {
    h.moments[0] = statistics("moments.host", disk ? Role::workspace : Role::moment, Tier::host);
    if (disk) h.disk_moments[0] = statistics("moments.disk", Role::moment, Tier::disk);
  }
  if (!has_scaled_moments(c.workload)) return;
  h.scales = scales("scales.host", disk ? Role::workspace : Role::moment, Tier::host);
  if (disk) h.disk_scales = scales("scales.disk", Role::moment, Tier::disk);
}

}  // namespace

void declare_parameters(State& c) {
  const StatesOn ends{!c.ends_on_host, c.ends_on_host, false};
  declare_module(c, c.embedding, embedding_table(c), Scope::stage, ends);
  for (const LayerKind& kind : c.kinds) {
    if (!c.is_first_with_module(kind)) continue;
    StatesOn on{};
    for (const std::uint32_t l : c.layers_with_module(kind)) {
      const Home home = c.home_of(l);
      (home == Home::device ? on.device : home == Home::states_on_host ? on.host : on.all) = true;
    }
    declare_module(c, c.*kind.module, kind.prediction > 0 ? prediction_table(c) : layer_table(c, kind.mixture),
                   Scope::layer, on);
  }
  if (c.quantizes()) declare_base(c);
  if (!c.trains_weights()) declare_module(c, c.adapters, adapter_table(c), Scope::layer, {true, false, false});
  declare_module(c, c.head, head_table(c), Scope::stage, ends);
  c.shares = segment_shares(c);
  const auto scalar = [&](const char* name, std::uint64_t count, Tier tier = Tier::device) {
    Buffer b;
    b.name = name;
    b.role = Role::scalar;
    b.dtype = DType::f64;
    b.count = count;
    b.tier = tier;
    return c.declare(std::move(b));
  };
  c.scalar.steps = scalar("steps", 1);
  if (c.scaled) c.scalar.loss_scale = scalar("loss_scale", 2);
  c.scalar.loss = scalar("loss", 1);
  c.scalar.count = scalar("count", 1);
  if (c.predictions > 0) {
    c.scalar.prediction_loss = scalar("prediction.loss", c.predictions);
    c.scalar.prediction_count = scalar("prediction.count", c.predictions);
  }
  if (c.factor) {
    c.scalar.norm = scalar("norm", 1);
    c.scalar.factor = scalar("factor", 2);
  }
  if (c.offloads_states()) {
    c.scalar.host_steps = scalar("steps.host", 1, Tier::host);
    if (c.factor) c.scalar.host_factor = scalar("factor.host", 2, Tier::host);
  }
}

}  // namespace orrery::lowering
