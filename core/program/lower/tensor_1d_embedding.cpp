#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

void build_embedding(State& c) {
  if (c.model.architecture == Architecture::vit) return build_patch_embedding(c);
  const ModelSpec& m = c.model;
  const bool bert = m.architecture == Architecture::bert;
  const bool sp = c.sequence_parallel;
  const bool kinds = m.segments > 0;  // of tokens
  const bool learned = m.positions == PositionEncoding::learned;
  const bool normed = bert || m.embedding_norm, scaled = m.embedding_scale != 1.0;
  const bool drop = c.workload.hidden_dropout > 0;
  const ShardDim feature{m.hidden, m.hidden, c.layout.stream_features, false};
  const BufferId tokens = c.activation("tokens", Role::data, Scope::microbatch, DType::i32, {1, 1, {}, false}, false);
  const BufferId mask =
      drop ? c.activation("embedding.mask", Role::activation, Scope::microbatch, DType::u8, feature, sp) : BufferId{};
  // BERT may add an embedding of the token's kind. The stream may begin behind a norm.
  const auto rows = [&](const char* name, Role role) {
    return c.activation(name, role, Scope::microbatch, c.act, feature, sp);
  };
  const BufferId sum = normed ? rows("embedding.sum", Role::activation) : c.hidden;
  const BufferId gradient = normed ? rows("embedding.sum.gradient", Role::workspace) : c.hidden_gradient;
  const BufferId whole =
      sp ? c.activation("embedding.whole", Role::workspace, Scope::microbatch, c.act, feature, false) : sum;
  const BufferId segments =
      kinds ? c.activation("segments", Role::data, Scope::microbatch, DType::i32, {1, 1, {}, false}, sp) : BufferId{};
  const BufferId stats = normed ? flat_buffer(c, "embedding.norm.stats", Role::statistic, Scope::microbatch, c.state,
                                              (m.norm == Norm::layer_norm ? 2 : 1) * c.rows)
                                : BufferId{};
  const NormSite norm{&c.embedding, "norm.weight", "norm.bias", "embedding.norm", Scope::microbatch};
  Kernel segment = c.kernel(KernelKind::segment_forward, Pass::forward, c.rows, c.hidden_width, m.segments);
  Kernel position = c.kernel(KernelKind::position_forward, Pass::forward, c.rows, c.hidden_width, m.position_offset);
  Kernel scale = c.kernel(KernelKind::multiply, Pass::forward, c.rows, c.hidden_width);
  scale.scale = m.embedding_scale;
  Kernel dropout = c.kernel(KernelKind::dropout_forward, Pass::forward, c.rows, c.hidden_width);
  dropout.options.dropout = true;
  dropout.parameter = c.workload.hidden_dropout;

  BlockBuilder f(c, "embedding.forward", Pass::forward, Section::model);
  f.compute(c.kernel(KernelKind::load_tokens, Pass::forward, c.tokens, 1), {write(tokens)});
  c.sharding.embed_forward(c, f, tokens, whole);
  if (sp) {
    f.seam(Collective::Kind::reduce_scatter, {read(whole), write(sum)});
  } else if (c.tensor > 1) {
    f.seam(Collective::Kind::all_reduce, {update(sum)});
  }
  if (scaled) f.compute(scale, {read(sum), write(sum)});
  if (learned) f.compute(position, {update(sum), weight_of(c, c.embedding, "position.weight")});
  if (kinds) {
    f.compute(c.kernel(KernelKind::load_segments, Pass::forward, c.rows, 1), {write(segments)});
    f.compute(segment, {read(segments), update(sum), weight_of(c, c.embedding, "segment.weight")});
  }
  if (normed) c.sharding.norm_forward(c, f, norm, read(sum), write(c.hidden), write(stats));
  if (drop) f.compute(dropout, {update(c.hidden), write(mask)});

  BlockBuilder b(c, "embedding.backward", Pass::weight_gradient, Section::model);
  if (!c.trains_weights()) {  // nobody needs a gradient here
    c.blocks(Phase::forward).embedding = f.finish(c);
    c.blocks(Phase::backward).embedding = b.finish(c);
    return;
  }
  if (c.bare_embedding) b.enter_after_tail(receive_lane(TransferLane::backward_receive));
  if (drop) {
    dropout.kind = KernelKind::dropout_backward;
    dropout.pass = Pass::input_gradient;
    b.compute(dropout, {read(c.hidden_gradient), read(mask), write(c.hidden_gradient)});
  }
  if (normed) {
    b.compute(c.kernel(KernelKind::fill, Pass::input_gradient, c.rows, c.hidden_width), {write(gradient)});
    c.sharding.norm_backward(c, b, norm, read(c.hidden_gradient), read(sum), read(stats), update(gradient),
                             std::nullopt);
  }
  if (kinds) {
    segment.kind = KernelKind::segment_backward;
    segment.pass = Pass::weight_gradient;
    b.compute(segment, {read(segments), read(gradient), gradient_of(c, c.embedding, "segment.weight")});
  }
  if (learned) {
    position.kind = KernelKind::position_backward;
    position.pass = Pass::weight_gradient;
    b.compute(position, {read(gradient), gradient_of(c, c.embedding, "position.weight")});
  }
  if (scaled) {
    scale.pass = Pass::input_gradient;
    b.compute(scale, {read(gradient), write(gradient)});
  }
  if (c.bare_embedding) b.after_tail(receive_lane(TransferLane::backward_receive));  // or the next op, without a gather
  if (sp) {
    b.seam(Collective::Kind::all_gather, {read(gradient), write(whole)});
  }
  c.sharding.embed_backward(c, b, tokens, sp ? whole : gradient);

  c.blocks(Phase::forward).embedding = f.finish(c);
  c.blocks(Phase::backward).embedding = b.finish(c);
}

}  // namespace orrery::lowering
