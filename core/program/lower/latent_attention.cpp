#include "core/program/lower/latent_attention.hpp"

#include "core/program/lower/attention.hpp"
#include "core/program/lower/rotation.hpp"

namespace orrery::lowering {
namespace {

/// c[rows, columns] = a[rows, depth] w
void product(const State& c, BlockBuilder& b, const Module& of, std::uint64_t rows, std::uint64_t columns,
             std::uint64_t depth, Operand a, const char* weight, Operand y) {
  b.compute(c.kernel(KernelKind::gemm, Pass::forward, rows, columns, depth), {a, weight_of(c, of, weight), y});
}
/// dx[rows, depth] = dy[rows, columns] w^T
void product_input_gradient(const State& c, BlockBuilder& b, const Module& of, std::uint64_t rows,
                            std::uint64_t columns, std::uint64_t depth, Operand dy, const char* weight, Operand dx) {
  Kernel k = c.kernel(KernelKind::gemm, Pass::input_gradient, rows, depth, columns);
  k.options.transpose_b = true;
  b.compute(k, {dy, weight_of(c, of, weight), dx});
}
/// dw[depth, columns] += x[rows, depth]^T dy
void weight_gradient(const State& c, BlockBuilder& b, const Module& of, std::uint64_t rows, std::uint64_t columns,
                     std::uint64_t depth, Operand x, Operand dy, const char* weight) {
  Kernel k = c.kernel(KernelKind::gemm, Pass::weight_gradient, depth, columns, rows);
  k.options.transpose_a = true;
  b.compute(k, {x, dy, gradient_of(c, of, weight)});
}

constexpr const char* query_up = "attention.query_up.weight";
constexpr const char* kv_up = "attention.kv_up.weight";
constexpr const char* key_rope = "attention.key_rope.weight";

}  // namespace

LatentProjections::LatentProjections(State& c, BufferId x, BufferId qkv, BufferId qkv_gradient)
    : c_(c), rank_(c.model.latent->query_rank), x_(x), qkv_(qkv), qkv_gradient_(qkv_gradient) {
  const ModelSpec& m = c.model;
  const LatentAttention& l = *m.latent;
  const auto rows = [&](const char* name, std::uint64_t width, bool part) {
    return c.activation(name, Role::workspace, Scope::layer_microbatch, c.act, {width, width, {}, false}, part);
  };
  const bool sp = c.sequence_parallel;
  if (rank_ > 0) query_ = declare("query", rank_, "attention.query_down.weight", "attention.query_norm.weight");
  kv_ = declare("kv", l.kv_rank, "attention.kv_down.weight", "attention.kv_norm.weight");
  key_ = rows("key", l.rope_dim, sp);
  // Projections that are made again need the keys' part that turns, which is otherwise of no use behind them.
  if (has_module(modules_made_again(c.plan), RecomputeModule::mla_up_proj))
    c.program.buffers[index(key_)].role = Role::activation;
  key_whole_ = sp ? rows("key.whole", l.rope_dim, false) : key_;
  key_gradient_ = rows("key.gradient", l.rope_dim, false);
  key_part_ = sp ? rows("key.gradient.part", l.rope_dim, true) : key_gradient_;
  const std::uint64_t queries = c.tokens * c.heads * key_width(m);
  const std::uint64_t pairs = c.tokens * c.heads * (m.head_dim + l.value_dim);
  queries_ = layer_buffer(c, "queries", Role::workspace, c.act, queries);
  pairs_ = layer_buffer(c, "pairs", Role::workspace, c.act, pairs);
  queries_gradient_ = layer_buffer(c, "queries.gradient", Role::workspace, c.act, queries);
  pairs_gradient_ = layer_buffer(c, "pairs.gradient", Role::workspace, c.act, pairs);
  // The shards of a weight gradient's operands say whose tokens it is from.
  const Shard& heads = *c.program[qkv_].shard;
  const auto tell = [&](BufferId buffer, std::uint64_t width) {
    c.program.buffers[index(buffer)].shard =
        Shard{heads.dims[0], heads.dims[1], heads.dims[2], {width, width, {}, false}};
  };
  tell(queries_gradient_, key_width(m));
  tell(pairs_gradient_, m.head_dim + l.value_dim);
  const auto stream = [&](const char* name, bool part) {
    return c.activation(name, Role::workspace, Scope::layer_microbatch, c.act,
                        {m.hidden, m.hidden, c.layout.stream_features, false}, part);
  };
  input_gradient_ = stream("attention.input.gradient", sp);
  if (rank_ == 0) {
    latent_gradient_ = stream("attention.latent.gradient", sp);
    stream_gradient_ = stream("queries.stream.gradient", false);
    stream_part_ = sp ? stream("queries.stream.gradient.part", true) : stream_gradient_;
  }
}

LatentProjections::Latent LatentProjections::declare(const std::string& name, std::uint64_t width, const char* down,
                                                     const char* norm) {
  const bool sp = c_.sequence_parallel;
  const auto rows = [&](const char* what, Role role, bool part) {
    return c_.activation(name + what, role, Scope::layer_microbatch, c_.act, {width, width, {}, false}, part);
  };
  Latent l;
  l.width = width;
  l.down = down;
  l.norm = norm;
  l.raw = rows(".latent", Role::activation, sp);
  l.out = rows(".latent.norm.out", Role::activation, sp);
  l.stats = layer_buffer(c_, name + ".latent.norm.stats", Role::statistic, c_.state, c_.rows);
  l.whole = sp ? rows(".latent.whole", Role::workspace, false) : l.out;
  l.whole_gradient = rows(".latent.gradient", Role::workspace, false);
  l.out_gradient = sp ? rows(".latent.gradient.part", Role::workspace, true) : l.whole_gradient;
  l.raw_gradient = rows(".latent.raw.gradient", Role::workspace, sp);
  return l;
}

void LatentProjections::to_whole(BlockBuilder& b, BufferId part, BufferId whole) {
  if (part != whole) b.seam(Collective::Kind::all_gather, {read(part), write(whole)});
}

void LatentProjections::sum_over_row(BlockBuilder& b, BufferId partial) {
  if (c_.grid) b.seam(Collective::Kind::all_reduce, c_.column_group, {update(partial)});
}

void LatentProjections::to_part(BlockBuilder& b, BufferId whole, BufferId part) {
  sum_over_row(b, whole);
  if (c_.tensor == 1) return;
  if (part != whole) {
    b.seam(Collective::Kind::reduce_scatter, {read(whole), write(part)});
  } else {
    b.seam(Collective::Kind::all_reduce, {update(whole)});
  }
}

Product LatentProjections::stream_queries(const Module& of) const {
  return {&of, query_up, nullptr, c_.hidden_width, c_.heads * key_width(c_.model), true};
}

Kernel LatentProjections::heads(KernelKind kind, Pass pass) const {
  Kernel k = attention_kernel(c_, local_heads(c_), kind, pass);
  k.columns = c_.model.latent->rope_dim;
  set_rotation(c_, 0, k);  // no layer of latent attention is local
  return k;
}

void LatentProjections::down_forward(BlockBuilder& b, const Module& of, const Latent& l) {
  product(c_, b, of, c_.rows, l.width, c_.hidden_width, read(x_), l.down, write(l.raw));
  sum_over_row(b, l.raw);
  Kernel k = c_.kernel(KernelKind::rms_norm_forward, Pass::forward, c_.rows, l.width);
  k.parameter = c_.model.norm_epsilon;
  b.compute(k, {read(l.raw), weight_of(c_, of, l.norm), write(l.out), write(l.stats)});
}

void LatentProjections::forward(BlockBuilder& b, const Module& of, BufferId whole) {
  const ModelSpec& m = c_.model;
  const LatentAttention& l = *m.latent;
  if (rank_ > 0) down_forward(b, of, query_);
  down_forward(b, of, kv_);
  product(c_, b, of, c_.rows, l.rope_dim, c_.hidden_width, read(x_), key_rope, write(key_));
  sum_over_row(b, key_);
  if (rank_ > 0) to_whole(b, query_.out, query_.whole);
  to_whole(b, kv_.out, kv_.whole);
  to_whole(b, key_, key_whole_);
  const BlockBuilder::Part part(b, RecomputeModule::mla_up_proj);
  if (rank_ == 0 && c_.grid) {
    c_.sharding.forward(c_, b, stream_queries(of), whole, queries_);
  } else {
    const std::uint64_t depth = rank_ > 0 ? rank_ : m.hidden;
    product(c_, b, of, c_.tokens, c_.heads * key_width(m), depth, read(rank_ > 0 ? query_.whole : whole), query_up,
            write(queries_));
  }
  product(c_, b, of, c_.tokens, c_.heads * (m.head_dim + l.value_dim), l.kv_rank, read(kv_.whole), kv_up,
          write(pairs_));
  b.compute(heads(KernelKind::latent_heads_forward, Pass::forward),
            {read(queries_), read(pairs_), read(key_whole_), write(qkv_)});
}

void LatentProjections::down_backward(BlockBuilder& b, BlockBuilder& w, const Module& of, const Latent& l, BufferId dx,
                                      bool first) {
  const Operand dgamma = gradient_of(c_, of, l.norm);
  const auto norm_weight = [&] {
    b.compute(c_.kernel(KernelKind::rms_norm_backward_weight, Pass::weight_gradient, c_.rows, l.width),
              {read(l.out_gradient), read(l.raw), read(l.stats), dgamma});
  };
  // A gradient in the memory of the weight comes after the last op that reads the weight.
  const bool shared = c_.program[dgamma.buffer].reuses.has_value();
  if (!shared) norm_weight();
  b.compute(c_.kernel(KernelKind::fill, Pass::input_gradient, c_.rows, l.width), {write(l.raw_gradient)});
  b.compute(c_.kernel(KernelKind::rms_norm_backward_input, Pass::input_gradient, c_.rows, l.width),
            {read(l.out_gradient), read(l.raw), weight_of(c_, of, l.norm), read(l.stats), update(l.raw_gradient)});
  if (shared) norm_weight();
  product_input_gradient(c_, b, of, c_.rows, l.width, c_.hidden_width, read(l.raw_gradient), l.down,
                         first ? write(dx) : update(dx));
  weight_gradient(c_, w, of, c_.rows, l.width, c_.hidden_width, read(x_), read(l.raw_gradient), l.down);
}

void LatentProjections::backward(BlockBuilder& b, BlockBuilder& w, const Module& of, BufferId whole) {
  const BufferId dx = rank_ > 0 ? input_gradient_ : latent_gradient_;
  const ModelSpec& m = c_.model;
  const LatentAttention& l = *m.latent;
  const std::uint64_t pair = c_.heads * (m.head_dim + l.value_dim), query = c_.heads * key_width(m);
  b.compute(heads(KernelKind::latent_heads_backward, Pass::input_gradient),
            {read(qkv_gradient_), write(queries_gradient_), write(pairs_gradient_), write(key_gradient_)});
  to_part(b, key_gradient_, key_part_);
  product_input_gradient(c_, b, of, c_.tokens, pair, l.kv_rank, read(pairs_gradient_), kv_up,
                         write(kv_.whole_gradient));
  to_part(b, kv_.whole_gradient, kv_.out_gradient);
  to_whole(w, kv_.out, kv_.whole);  // again, for the weight gradient
  weight_gradient(c_, w, of, c_.tokens, pair, l.kv_rank, read(kv_.whole), read(pairs_gradient_), kv_up);
  if (rank_ > 0) {
    product_input_gradient(c_, b, of, c_.tokens, query, rank_, read(queries_gradient_), query_up,
                           write(query_.whole_gradient));
    to_part(b, query_.whole_gradient, query_.out_gradient);
    to_whole(w, query_.out, query_.whole);
    weight_gradient(c_, w, of, c_.tokens, query, rank_, read(query_.whole), read(queries_gradient_), query_up);
  } else if (c_.grid) {
    c_.sharding.input_gradient(c_, b, stream_queries(of), read(queries_gradient_), stream_gradient_);
    c_.sharding.weight_gradient(c_, w, stream_queries(of), whole, read(queries_gradient_));
  } else {
    product_input_gradient(c_, b, of, c_.tokens, query, m.hidden, read(queries_gradient_), query_up,
                           write(stream_gradient_));
    to_part(b, stream_gradient_, stream_part_);
    weight_gradient(c_, w, of, c_.tokens, query, m.hidden, read(whole), read(queries_gradient_), query_up);
  }
  down_backward(b, w, of, kv_, dx, true);
  product_input_gradient(c_, b, of, c_.rows, l.rope_dim, c_.hidden_width, read(key_part_), key_rope, update(dx));
  weight_gradient(c_, w, of, c_.rows, l.rope_dim, c_.hidden_width, read(x_), read(key_part_), key_rope);
  if (rank_ > 0) {
    down_backward(b, w, of, query_, dx, false);
  } else {
    b.compute(c_.kernel(KernelKind::residual_forward, Pass::input_gradient, c_.rows, c_.hidden_width),
              {read(stream_part_), read(dx), write(input_gradient_)});
  }
}

}  // namespace orrery::lowering
