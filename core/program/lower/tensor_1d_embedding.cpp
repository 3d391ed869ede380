#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

void build_embedding(State& c) {
  const ModelSpec& m = c.model;
  const bool sp = c.sequence_parallel;
  const bool learned = m.positions == PositionEncoding::learned;
  const bool drop = c.workload.hidden_dropout > 0;
  const ShardDim feature{m.hidden, m.hidden, c.layout.stream_features, false};
  const BufferId tokens = c.activation("tokens", Role::data, Scope::microbatch, DType::i32, {1, 1, {}, false}, false);
  const BufferId mask =
      drop ? c.activation("embedding.mask", Role::activation, Scope::microbatch, DType::u8, feature, sp) : BufferId{};
  const BufferId whole =
      sp ? c.activation("embedding.whole", Role::workspace, Scope::microbatch, c.act, feature, false) : c.hidden;
  Kernel dropout = c.kernel(KernelKind::dropout_forward, Pass::forward, c.rows, c.hidden_width);
  dropout.options.dropout = true;
  dropout.parameter = c.workload.hidden_dropout;

  BlockBuilder f(c, "embedding.forward", Pass::forward, Section::model);
  f.compute(c.kernel(KernelKind::load_tokens, Pass::forward, c.tokens, 1), {write(tokens)});
  c.sharding.embed_forward(c, f, tokens, whole);
  if (sp) {
    f.seam(Collective::Kind::reduce_scatter, {read(whole), write(c.hidden)});
  } else if (c.tensor > 1) {
    f.seam(Collective::Kind::all_reduce, {update(c.hidden)});
  }
  if (learned) {
    f.compute(c.kernel(KernelKind::position_forward, Pass::forward, c.rows, c.hidden_width),
              {update(c.hidden), weight_of(c, c.embedding, "position.weight")});
  }
  if (drop) f.compute(dropout, {update(c.hidden), write(mask)});

  BlockBuilder b(c, "embedding.backward", Pass::weight_gradient, Section::model);
  if (drop) {
    dropout.kind = KernelKind::dropout_backward;
    dropout.pass = Pass::input_gradient;
    b.compute(dropout, {read(c.hidden_gradient), read(mask), write(c.hidden_gradient)});
  }
  if (learned) {
    b.compute(c.kernel(KernelKind::position_backward, Pass::weight_gradient, c.rows, c.hidden_width),
              {read(c.hidden_gradient), gradient_of(c, c.embedding, "position.weight")});
  }
  if (sp) {
    b.seam(Collective::Kind::all_gather, {read(c.hidden_gradient), write(whole)});
  }
  c.sharding.embed_backward(c, b, tokens, sp ? whole : c.hidden_gradient);

  c.blocks(Phase::forward).embedding = f.finish(c);
  c.blocks(Phase::backward).embedding = b.finish(c);
}

}  // namespace orrery::lowering
