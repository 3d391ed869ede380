#include "core/program/lower/tensor_1d.hpp"

namespace orrery::lowering {

void build_embedding(Context& c, const Stream& stream, ModelBlocks& out) {
  const ModelSpec& m = c.model;
  const bool sp = c.sequence_parallel;
  const bool learned = m.positions == PositionEncoding::learned;
  const bool drop = c.workload.hidden_dropout > 0;
  const ShardDim feature{m.hidden, m.hidden, {}, false};
  const BufferId tokens =
      c.activation("tokens", Role::data, Scope::microbatch, DType::i32, {1, 1, {}, false}, false);
  const BufferId mask =
      drop ? c.activation("embedding.mask", Role::activation, Scope::microbatch, DType::u8, feature, sp) : BufferId{};
  const BufferId whole =
      sp ? c.activation("embedding.whole", Role::workspace, Scope::microbatch, c.act, feature, false) : stream.hidden;
  Kernel dropout = c.kernel(KernelKind::dropout_forward, Pass::forward, c.rows, m.hidden);
  dropout.options.dropout = true;
  dropout.parameter = c.workload.hidden_dropout;

  BlockBuilder f(c.program, "embedding.forward", Pass::forward);
  f.compute(c.kernel(KernelKind::load_tokens, Pass::forward, c.tokens, 1), {write(tokens)});
  f.compute(c.kernel(KernelKind::embed_forward, Pass::forward, c.tokens, m.hidden, c.vocabulary),
            {read(tokens), weight_of(c, c.embedding, "word.weight"), write(whole)});
  if (sp) {
    f.collective(Collective::Kind::reduce_scatter, c.tensor_group, tensor_lane, {read(whole), write(stream.hidden)});
  } else if (c.tensor > 1) {
    f.collective(Collective::Kind::all_reduce, c.tensor_group, tensor_lane, {update(stream.hidden)});
  }
  if (learned) {
    f.compute(c.kernel(KernelKind::position_forward, Pass::forward, c.rows, m.hidden),
              {update(stream.hidden), weight_of(c, c.embedding, "position.weight")});
  }
  if (drop) f.compute(dropout, {update(stream.hidden), write(mask)});

  BlockBuilder b(c.program, "embedding.backward", Pass::weight_gradient);
  if (drop) {
    dropout.kind = KernelKind::dropout_backward;
    dropout.pass = Pass::input_gradient;
    b.compute(dropout, {read(stream.gradient), read(mask), write(stream.gradient)});
  }
  if (learned) {
    b.compute(c.kernel(KernelKind::position_backward, Pass::weight_gradient, c.rows, m.hidden),
              {read(stream.gradient), gradient_of(c, c.embedding, "position.weight")});
  }
  if (sp) {
    b.collective(Collective::Kind::all_gather, c.tensor_group, tensor_lane, {read(stream.gradient), write(whole)});
  }
  b.compute(c.kernel(KernelKind::embed_backward, Pass::weight_gradient, c.tokens, m.hidden, c.vocabulary),
            {read(tokens), read(sp ? whole : stream.gradient), gradient_of(c, c.embedding, "word.weight")});

  Lifetimes lifetimes;
  lifetimes.kept = {{tokens, 0}};
  if (drop) lifetimes.kept.push_back({mask, 0});
  lifetimes.allocate_only = {{stream.hidden, 0}};
  lifetimes.free_only = {{stream.gradient, 0}};
  BlockBuilder* blocks[] = {&f, &b};
  insert_lifetimes(c.program, blocks, lifetimes);
  out.embedding_forward = f.finish();
  out.embedding_backward = b.finish();
}

}  // namespace orrery::lowering
