#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

// A product of every patch's numbers, a class token in front where there is one, positions, and a norm where the model
// has one (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021, section 3.1; Radford et al., "CLIP", 2021).
// Rows run position-major, so the class tokens of a microbatch's images are its
// first rows, and the patches' rows follow in one piece.
void build_patch_embedding(State& c) {
  const ModelSpec& m = c.model;
  const bool sp = c.sequence_parallel;
  const bool drop = c.workload.hidden_dropout > 0;
  const std::uint64_t patches = patch_count(*m.image);
  const std::uint64_t rows = patches * c.sequences;
  const std::uint64_t width = patch_width(*m.image) / c.tensor;
  const ShardDim feature{m.hidden, m.hidden, c.layout.stream_features, false};
  Buffer image;
  image.name = "patches";
  image.role = Role::data;
  image.scope = Scope::microbatch;
  image.dtype = c.act;
  image.shard = Shard{{patches, patches, {}, false},
                      stream_sequences(c),
                      {patch_width(*m.image), patch_width(*m.image), c.grid ? AxisList{} : c.layout.vocabulary, false}};
  image.count = local_count(*image.shard, c.program.mesh, c.program.microbatches);
  const BufferId pixels = c.declare(std::move(image));
  const BufferId mask =
      drop ? c.activation("embedding.mask", Role::activation, Scope::microbatch, DType::u8, feature, sp) : BufferId{};
  const bool has_class = m.image->class_token, has_bias = m.image->patch_bias, normed = m.embedding_norm;
  const auto stream = [&](const char* name, Role role) {
    return c.activation(name, role, Scope::microbatch, c.act, feature, sp);
  };
  const BufferId sum = normed ? stream("embedding.sum", Role::activation) : c.hidden;
  const BufferId sum_gradient = normed ? stream("embedding.sum.gradient", Role::workspace) : c.hidden_gradient;
  const BufferId stats = normed ? flat_buffer(c, "embedding.norm.stats", Role::statistic, Scope::microbatch, c.state,
                                              (m.norm == Norm::layer_norm ? 2 : 1) * c.rows)
                                : BufferId{};
  const NormSite norm{&c.embedding, "norm.weight", "norm.bias", "embedding.norm", Scope::microbatch};
  const BufferId whole =
      sp ? c.activation("embedding.whole", Role::workspace, Scope::microbatch, c.act, feature, false) : sum;
  const std::uint64_t first = has_class ? c.sequences * c.hidden_width : 0;  // elements of the class tokens' rows
  const auto patch_rows = [&](BufferId x, View::Use use) {
    return Operand{x, use, 0, first, rows * c.hidden_width, {}};
  };
  const BufferId gradient = sp ? whole : sum_gradient;
  Kernel dropout = c.kernel(KernelKind::dropout_forward, Pass::forward, c.rows, c.hidden_width);
  dropout.options.dropout = true;
  dropout.parameter = c.workload.hidden_dropout;
  Kernel token = c.kernel(KernelKind::class_token_forward, Pass::forward, c.rows, c.hidden_width);
  token.batch = c.sequences;
  token.options.unbiased = !has_bias;

  BlockBuilder f(c, "embedding.forward", Pass::forward, Section::model);
  f.compute(c.kernel(KernelKind::load_patches, Pass::forward, rows, width), {write(pixels)});
  if (has_class) {
    f.compute(c.kernel(KernelKind::fill, Pass::forward, c.sequences, c.hidden_width),
              {Operand{whole, View::Use::write, 0, 0, first, {}}});
  }
  f.compute(c.kernel(KernelKind::gemm, Pass::forward, rows, c.hidden_width, width),
            {read(pixels), weight_of(c, c.embedding, "patch.weight"), patch_rows(whole, View::Use::write)});
  if (sp) {
    f.seam(Collective::Kind::reduce_scatter, {read(whole), write(sum)});
  } else if (c.tensor > 1) {
    f.seam(Collective::Kind::all_reduce, {patch_rows(sum, View::Use::accumulate)});
  }
  if (has_class) {
    OperandArray operands{update(sum), weight_of(c, c.embedding, "class.weight")};
    if (has_bias) operands.add(weight_of(c, c.embedding, "patch.bias"));
    f.compute(token, operands);
  } else if (has_bias) {
    f.compute(c.kernel(KernelKind::bias_forward, Pass::forward, c.rows, c.hidden_width),
              {weight_of(c, c.embedding, "patch.bias"), update(sum)});
  }
  f.compute(c.kernel(KernelKind::position_forward, Pass::forward, c.rows, c.hidden_width),
            {update(sum), weight_of(c, c.embedding, "position.weight")});
  if (normed) c.sharding.norm_forward(c, f, norm, read(sum), write(c.hidden), write(stats));
  if (drop) f.compute(dropout, {update(c.hidden), write(mask)});

  BlockBuilder b(c, "embedding.backward", Pass::weight_gradient, Section::model);
  if (c.bare_embedding) b.enter_after_tail(receive_lane(TransferLane::backward_receive));
  if (drop) {
    dropout.kind = KernelKind::dropout_backward;
    dropout.pass = Pass::input_gradient;
    b.compute(dropout, {read(c.hidden_gradient), read(mask), write(c.hidden_gradient)});
  }
  if (normed) {
    b.compute(c.kernel(KernelKind::fill, Pass::input_gradient, c.rows, c.hidden_width), {write(sum_gradient)});
    c.sharding.norm_backward(c, b, norm, read(c.hidden_gradient), read(sum), read(stats), update(sum_gradient),
                             std::nullopt);
  }
  b.compute(c.kernel(KernelKind::position_backward, Pass::weight_gradient, c.rows, c.hidden_width),
            {read(sum_gradient), gradient_of(c, c.embedding, "position.weight")});
  if (has_class) {
    token.kind = KernelKind::class_token_backward;
    token.pass = Pass::weight_gradient;
    OperandArray operands{read(sum_gradient), gradient_of(c, c.embedding, "class.weight")};
    if (has_bias) operands.add(gradient_of(c, c.embedding, "patch.bias"));
    b.compute(token, operands);
  } else if (has_bias) {
    b.compute(c.kernel(KernelKind::bias_backward, Pass::weight_gradient, c.rows, c.hidden_width),
              {read(sum_gradient), gradient_of(c, c.embedding, "patch.bias")});
  }
  if (c.bare_embedding) b.after_tail(receive_lane(TransferLane::backward_receive));
  if (sp) b.seam(Collective::Kind::all_gather, {read(sum_gradient), write(whole)});
  Kernel weight = c.kernel(KernelKind::gemm, Pass::weight_gradient, width, c.hidden_width, rows);
  weight.options.transpose_a = true;
  b.compute(weight, {read(pixels), patch_rows(gradient, View::Use::read), gradient_of(c, c.embedding, "patch.weight")});

  c.blocks(Phase::forward).embedding = f.finish(c);
  c.blocks(Phase::backward).embedding = b.finish(c);
}

}  // namespace orrery::lowering
