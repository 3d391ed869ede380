#include "core/program/lower/setup.hpp"

namespace orrery::lowering {
namespace {

constexpr auto data_lane = static_cast<std::uint8_t>(Axis::data);

BlockId build_module(Context& c, const Module& m) {
  BlockBuilder b(c.program, c.program.parameter_tables[m.table].module + ".setup", Pass::setup);
  const auto put = [&](BufferId buffer, KernelKind kind) {
    b.alloc(buffer);
    b.compute(c.kernel(kind, Pass::setup, 1, c.program[buffer].count), {write(buffer)});
  };
  put(m.weights, KernelKind::initialize);
  put(m.gradients, KernelKind::fill);
  if (has_master_weights(c.workload)) put(m.masters, KernelKind::initialize);
  for (int i = 0; i < optimizer_moments(c.workload); ++i) put(m.moments[i], KernelKind::fill);
  return b.finish();
}

BlockId build_clear(Context& c, const Module& m) {
  BlockBuilder b(c.program, c.program.parameter_tables[m.table].module + ".clear", Pass::optimizer);
  b.compute(c.kernel(KernelKind::fill, Pass::optimizer, 1, c.program[m.gradients].count), {write(m.gradients)});
  return b.finish();
}

}  // namespace

SetupBlocks build_setup(Context& c) {
  SetupBlocks out;
  out.embedding = build_module(c, c.embedding);
  out.layer = build_module(c, c.layer);
  out.head = build_module(c, c.head);
  BlockBuilder b(c.program, "scalars.setup", Pass::setup);
  const auto put = [&](BufferId buffer) {
    b.alloc(buffer);
    b.compute(c.kernel(KernelKind::fill, Pass::setup, 1, c.program[buffer].count), {write(buffer)});
  };
  put(c.scalar.steps);
  put(c.scalar.loss);
  put(c.scalar.count);
  if (c.factor) {
    put(c.scalar.norm);
    put(c.scalar.factor);
  }
  if (c.scaled) {
    b.alloc(c.scalar.loss_scale);
    b.compute(c.kernel(KernelKind::initialize_scale, Pass::setup, 1, 2), {write(c.scalar.loss_scale)});
  }
  out.scalars = b.finish();
  out.clear_embedding = build_clear(c, c.embedding);
  out.clear_layer = build_clear(c, c.layer);
  out.clear_head = build_clear(c, c.head);
  return out;
}

BlockId build_begin(Context& c) {
  BlockBuilder b(c.program, "step.begin", Pass::loss);
  b.compute(c.kernel(KernelKind::fill, Pass::loss, 1, 1), {write(c.scalar.loss)});
  b.compute(c.kernel(KernelKind::count_targets, Pass::loss, 1, 1), {write(c.scalar.count)});
  if (c.data > 1) {
    b.collective(Collective::Kind::all_reduce, c.data_group, data_lane, {update(c.scalar.count)});
  }
  return b.finish();
}

BlockId build_mean_loss(Context& c) {
  BlockBuilder b(c.program, "loss.mean", Pass::loss);
  if (c.data > 1) b.collective(Collective::Kind::all_reduce, c.data_group, data_lane, {update(c.scalar.loss)});
  b.compute(c.kernel(KernelKind::mean_loss, Pass::loss, 1, 1), {update(c.scalar.loss), read(c.scalar.count)});
  return b.finish();
}

}  // namespace orrery::lowering
