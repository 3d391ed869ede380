#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

// A product of every patch's numbers, a class token in front, positions
// (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021, section 3.1).
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
  const BufferId whole =
      sp ? c.activation("embedding.whole", Role::workspace, Scope::microbatch, c.act, feature, false) : c.hidden;
  const std::uint64_t first = c.sequences * c.hidden_width;  // elements of the class tokens' rows
  const auto patch_rows = [&](BufferId x, View::Use use) {
    return Operand{x, use, 0, first, rows * c.hidden_width, {}};
  };
  const BufferId gradient = sp ? whole : c.hidden_gradient;
  Kernel dropout = c.kernel(KernelKind::dropout_forward, Pass::forward, c.rows, c.hidden_width);
  dropout.options.dropout = true;
  dropout.parameter = c.workload.hidden_dropout;
  Kernel token = c.kernel(KernelKind::class_token_forward, Pass::forward, c.rows, c.hidden_width);
  token.batch = c.sequences;

  BlockBuilder f(c, "embedding.forward", Pass::forward, Section::model);
  f.compute(c.kernel(KernelKind::load_patches, Pass::forward, rows, width), {write(pixels)});
  f.compute(c.kernel(KernelKind::fill, Pass::forward, c.sequences, c.hidden_width),
            {Operand{whole, View::Use::write, 0, 0, first, {}}});
  f.compute(c.kernel(KernelKind::gemm, Pass::forward, rows, c.hidden_width, width),
            {read(pixels), weight_of(c, c.embedding, "patch.weight"), patch_rows(whole, View::Use::write)});
  if (sp) {
    f.seam(Collective::Kind::reduce_scatter, {read(whole), write(c.hidden)});
  } else if (c.tensor > 1) {
    f.seam(Collective::Kind::all_reduce, {patch_rows(c.hidden, View::Use::accumulate)});
  }
  f.compute(token,
            {update(c.hidden), weight_of(c, c.embedding, "class.weight"), weight_of(c, c.embedding, "patch.bias")});
  f.compute(c.kernel(KernelKind::position_forward, Pass::forward, c.rows, c.hidden_width),
            {update(c.hidden), weight_of(c, c.embedding, "position.weight")});
  if (drop) f.compute(dropout, {update(c.hidden), write(mask)});

  BlockBuilder b(c, "embedding.backward", Pass::weight_gradient, Section::model);
  if (c.bare_embedding) b.enter_after_tail(receive_lane(TransferLane::backward_receive));
  if (drop) {
    dropout.kind = KernelKind::dropout_backward;
    dropout.pass = Pass::input_gradient;
    b.compute(dropout, {read(c.hidden_gradient), read(mask), write(c.hidden_gradient)});
  }
  b.compute(c.kernel(KernelKind::position_backward, Pass::weight_gradient, c.rows, c.hidden_width),
            {read(c.hidden_gradient), gradient_of(c, c.embedding, "position.weight")});
  token.kind = KernelKind::class_token_backward;
  token.pass = Pass::weight_gradient;
  b.compute(token, {read(c.hidden_gradient), gradient_of(c, c.embedding, "class.weight"),
                    gradient_of(c, c.embedding, "patch.bias")});
  if (c.bare_embedding) b.after_tail(receive_lane(TransferLane::backward_receive));
  if (sp) b.seam(Collective::Kind::all_gather, {read(c.hidden_gradient), write(whole)});
  Kernel weight = c.kernel(KernelKind::gemm, Pass::weight_gradient, width, c.hidden_width, rows);
  weight.options.transpose_a = true;
  b.compute(weight, {read(pixels), patch_rows(gradient, View::Use::read), gradient_of(c, c.embedding, "patch.weight")});

  c.blocks(Phase::forward).embedding = f.finish(c);
  c.blocks(Phase::backward).embedding = b.finish(c);
}

}  // namespace orrery::lowering
