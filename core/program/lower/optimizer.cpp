#include "core/program/lower/optimizer.hpp"

#include "core/program/lower/gradient_reductions.hpp"

namespace orrery::lowering {
namespace {

/// Gradients come from reductions on these lanes.
void after_reductions(const Context& c, BlockBuilder& b) {
  if (c.data > 1) b.after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::data)});
  if (c.sequence_parallel) b.after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::tensor)});
  if (c.model.tied_embeddings && c.stages > 1) {
    b.after_tail({LaneKind::collective, static_cast<std::uint8_t>(Axis::pipeline)});
  }
}

BlockId build_norm(Context& c, const Module& m) {
  BlockBuilder b(c.program, c.program.parameter_tables[m.table].module + ".norm", Pass::optimizer);
  after_reductions(c, b);
  for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
    if (!s.counted) continue;
    const Operand gradient = own_part(c, m.gradients, s, View::Use::read);
    Kernel k = c.kernel(KernelKind::sum_squares, Pass::optimizer, 1, gradient.count);
    // Every tensor rank adds a replicated parameter's share, so that it counts once in the sum.
    k.parameter = s.replicated ? 1.0 / c.tensor : 1.0;
    b.compute(k, {gradient, update(c.scalar.norm)});
  }
  return b.finish();
}

BlockId build_update(Context& c, const Module& m) {
  BlockBuilder b(c.program, c.program.parameter_tables[m.table].module + ".update", Pass::optimizer);
  if (!c.factor) after_reductions(c, b);
  const bool adam = c.workload.optimizer.kind == OptimizerKind::adam;
  const int moments = optimizer_moments(c.workload);
  for (const ParameterSegment& s : c.program.parameter_tables[m.table].segments) {
    const Operand gradient = own_part(c, m.gradients, s, View::Use::read);
    Kernel k = c.kernel(adam ? KernelKind::adam_update : KernelKind::sgd_update, Pass::optimizer, 1, gradient.count);
    k.options.decay = s.decay;
    Operand operands[7];
    std::size_t n = 0;
    operands[n++] = gradient;
    operands[n++] = read(c.scalar.steps);
    if (c.factor) {
      k.options.factor = true;
      operands[n++] = read(c.scalar.factor);
    }
    operands[n++] = own_part(c, m.weights, s, View::Use::accumulate);
    if (has_master_weights(c.workload)) {
      k.options.master = true;
      operands[n++] = own_part(c, m.masters, s, View::Use::accumulate);
    }
    for (int i = 0; i < moments; ++i) operands[n++] = own_part(c, m.moments[i], s, View::Use::accumulate);
    if (!adam) k.options.momentum = moments > 0;
    b.compute(k, std::span<const Operand>(operands, n));
  }
  return b.finish();
}

}  // namespace

OptimizerBlocks build_optimizer(Context& c) {
  OptimizerBlocks out;
  if (c.factor) {
    BlockBuilder clear(c.program, "norm.clear", Pass::optimizer);
    clear.compute(c.kernel(KernelKind::fill, Pass::optimizer, 1, 1), {write(c.scalar.norm)});
    out.clear_norm = clear.finish();
    out.norm_embedding = build_norm(c, c.embedding);
    out.norm_layer = build_norm(c, c.layer);
    out.norm_head = build_norm(c, c.head);
    BlockBuilder reduce(c.program, "norm.reduce", Pass::optimizer);
    if (group_size(c.program[c.norm_group], c.program.mesh) > 1) {
      reduce.collective(Collective::Kind::all_reduce, c.norm_group, static_cast<std::uint8_t>(axis_count),
                        {update(c.scalar.norm)});
    }
    Kernel k = c.kernel(KernelKind::clip_factor, Pass::optimizer, 1, 1);
    k.parameter = c.workload.clip_norm.value_or(0.0);
    k.options.scaled = c.scaled;
    if (c.scaled) {
      reduce.compute(k, {read(c.scalar.norm), update(c.scalar.loss_scale), write(c.scalar.factor)});
    } else {
      reduce.compute(k, {read(c.scalar.norm), write(c.scalar.factor)});
    }
    out.reduce_norm = reduce.finish();
  }
  BlockBuilder advance(c.program, "step.advance", Pass::optimizer);
  Kernel k = c.kernel(KernelKind::advance_step, Pass::optimizer, 1, 1);
  k.options.factor = c.factor;
  if (c.factor) {
    advance.compute(k, {update(c.scalar.steps), read(c.scalar.factor)});
  } else {
    advance.compute(k, {update(c.scalar.steps)});
  }
  out.advance = advance.finish();
  out.update_embedding = build_update(c, c.embedding);
  out.update_layer = build_update(c, c.layer);
  out.update_head = build_update(c, c.head);
  return out;
}

}  // namespace orrery::lowering
