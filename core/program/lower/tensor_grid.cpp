#include "core/program/lower/tensor_grid.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery::lowering {
namespace {

std::uint64_t side(const State& c) { return c.plan.mesh.size(Axis::row); }

BufferId gathered_rows(State& c, const char* name, Role role, DType dtype, ShardDim feature) {
  Buffer b;
  b.name = name;
  b.role = role;
  b.scope = Scope::microbatch;
  b.dtype = dtype;
  b.shard = shard_of_gathered(c, feature);
  b.count = local_count(*b.shard, c.program.mesh, c.program.microbatches);
  return c.declare(std::move(b));
}

ShardDim columns(const State& c) { return {c.model.hidden, c.model.hidden, c.layout.stream_features, false}; }

}  // namespace

Shard shard_of_gathered(const State& c, ShardDim feature) {
  const std::uint64_t blocks = size(c.plan.mesh, sequence_axes(c.plan));
  ShardDim block{blocks, blocks, c.batch_split, false};
  if (c.plan.mesh.size(Axis::depth) > 1) block.split.axis[block.split.count++] = Axis::depth;
  const std::uint64_t each = c.workload.global_batch / blocks;
  return {block, position_dim(c, Rows::context), {each, each, {}, true}, feature};
}

AllFeatures declare_all_features(State& c, const std::string& name, Scope scope) {
  const std::uint64_t h = c.model.hidden;
  AllFeatures all;
  all.rows = c.activation(name, Role::workspace, scope, c.act, {h, h, {}, false}, false);
  all.blocks = flat_buffer(c, name + ".blocks", Role::workspace, scope, c.act, c.tokens * h);
  return all;
}

void gather_features(const State& c, BlockBuilder& b, Pass pass, Operand stream, const AllFeatures& all) {
  b.seam(Collective::Kind::all_gather, c.column_group, {stream, write(all.blocks)});
  b.compute(c.kernel(KernelKind::swap_blocks, pass, c.plan.mesh.size(Axis::column), c.hidden_width, c.tokens),
            {read(all.blocks), write(all.rows)});
}

void sum_features(const State& c, BlockBuilder& b, Pass pass, const AllFeatures& all, BufferId stream) {
  b.compute(c.kernel(KernelKind::swap_blocks, pass, c.tokens, c.hidden_width, c.plan.mesh.size(Axis::column)),
            {read(all.rows), write(all.blocks)});
  b.seam(Collective::Kind::reduce_scatter, c.column_group, {read(all.blocks), write(stream)});
}

void GridSharding::norm_forward(State& c, BlockBuilder& b, const NormSite& site, Operand x, Operand y,
                                Operand stats) const {
  const bool layer = c.model.norm == Norm::layer_norm;
  const std::string name = site.name;
  const auto kernel = [&](KernelKind kind) {
    Kernel k = c.kernel(kind, Pass::forward, c.rows, c.hidden_width, c.model.hidden);
    return k;
  };
  const BufferId squares = flat_buffer(c, name + ".squares", Role::workspace, site.scope, c.state, c.rows);
  BufferId sums{};
  if (layer) {
    sums = flat_buffer(c, name + ".sums", Role::workspace, site.scope, c.state, c.rows);
    b.compute(kernel(KernelKind::norm_sums), {x, write(sums)});
    b.seam(Collective::Kind::all_reduce, c.column_group, {update(sums)});
  }
  Kernel square = kernel(KernelKind::norm_squares);
  square.options.centered = layer;
  if (layer) {
    b.compute(square, {x, read(sums), write(squares)});
  } else {
    b.compute(square, {x, write(squares)});
  }
  b.seam(Collective::Kind::all_reduce, c.column_group, {update(squares)});
  Kernel k = kernel(layer ? KernelKind::layer_norm_forward : KernelKind::rms_norm_forward);
  k.options.cut = true;
  k.parameter = c.model.norm_epsilon;
  note_norm_parameters(c.model, k);
  OperandArray operands{x};
  add_norm_weights(c, site, operands);
  if (layer) operands.add(read(sums));
  operands.add({read(squares), y, stats});
  b.compute(k, operands);
}

void GridSharding::norm_backward(State& c, BlockBuilder& b, const NormSite& site, Operand dy, Operand x, Operand stats,
                                 Operand dx, std::optional<Operand> residual) const {
  const bool layer = c.model.norm == Norm::layer_norm, weighted = c.model.norm_weight;
  const BufferId sums = flat_buffer(c, std::string(site.name) + ".gradient.sums", Role::workspace, site.scope, c.state,
                                    c.rows * (layer ? 2 : 1));
  Kernel sum = c.kernel(KernelKind::norm_gradient_sums, Pass::input_gradient, c.rows, c.hidden_width, c.model.hidden);
  sum.options.centered = layer;
  sum.options.unweighted = !weighted;
  OperandArray common{dy, x};
  if (weighted) common.add(norm_gamma(c, site));
  common.add(stats);
  OperandArray summed = common;
  summed.add(write(sums));
  b.compute(sum, summed);
  b.seam(Collective::Kind::all_reduce, c.column_group, {update(sums)});
  Kernel weight = c.kernel(layer ? KernelKind::layer_norm_backward_weight : KernelKind::rms_norm_backward_weight,
                           Pass::weight_gradient, c.rows, c.hidden_width);
  note_norm_parameters(c.model, weight);
  const auto weight_gradient = [&] {
    if (!weighted) return;
    OperandArray operands{dy, x, stats};
    add_norm_gradients(c, site, operands);
    b.compute(weight, operands);
  };
  // A gradient in the memory of the weight comes after the last op that reads the weight.
  const bool shared = shares_gradient(c, site);
  if (!shared) weight_gradient();
  Kernel input = c.kernel(layer ? KernelKind::layer_norm_backward_input : KernelKind::rms_norm_backward_input,
                          Pass::input_gradient, c.rows, c.hidden_width, c.model.hidden);
  input.options.cut = true;
  input.options.unweighted = !weighted;
  common.add(read(sums));
  if (residual) {
    input.options.residual = true;
    common.add(*residual);
  }
  common.add(dx);
  b.compute(input, common);
  if (shared) weight_gradient();
}

Operand GridSharding::word_table(State& c, BlockBuilder&) const { return weight_of(c, c.embedding, "word.weight"); }

void GridSharding::add_to_word_gradient(State& c, BlockBuilder& b, const Kernel& kernel, Operand tokens,
                                        Operand dx) const {
  b.compute(kernel, {tokens, dx, gradient_of(c, c.embedding, "word.weight")});
}

void GridSharding::embed_forward(State& c, BlockBuilder& b, BufferId tokens, BufferId x) const {
  const BufferId all = gathered_rows(c, "tokens.rows", Role::workspace, DType::i32, {1, 1, {}, false});
  const BufferId words = gathered_rows(c, "embedding.rows", Role::workspace, c.act, columns(c));
  b.seam(Collective::Kind::all_gather, c.row_group, {read(tokens), write(all)});
  const Operand table = word_table(c, b);
  b.compute(c.kernel(KernelKind::embed_forward, Pass::forward, side(c) * c.tokens, c.hidden_width, c.vocabulary),
            {read(all), table, write(words)});
  b.seam(Collective::Kind::reduce_scatter, c.row_group, {read(words), write(x)});
}

void GridSharding::embed_backward(State& c, BlockBuilder& b, BufferId tokens, BufferId dx) const {
  const BufferId all = gathered_rows(c, "tokens.gradient.rows", Role::workspace, DType::i32, {1, 1, {}, false});
  const BufferId words = gathered_rows(c, "embedding.gradient.rows", Role::workspace, c.act, columns(c));
  b.seam(Collective::Kind::all_gather, c.row_group, {read(tokens), write(all)});
  b.seam(Collective::Kind::all_gather, c.row_group, {read(dx), write(words)});
  add_to_word_gradient(
      c, b,
      c.kernel(KernelKind::embed_backward, Pass::weight_gradient, side(c) * c.tokens, c.hidden_width, c.vocabulary),
      read(all), read(words));
}

}  // namespace orrery::lowering
