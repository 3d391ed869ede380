#include "exec/calibrate/kernel_samples.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/diagnostics.hpp"
#include "exec/kernels/convert.hpp"

namespace orrery {

namespace {

constexpr std::uint64_t alignment = 64;
std::uint64_t aligned(std::uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Values that every kernel accepts: floats in [0.5, 1.5), small whole numbers (tokens, targets), kept masks, scalars
/// {1, 0}. They are not zeros, which some processors multiply faster.
void fill_operand(const OperandShape& shape, std::byte* data) {
  std::vector<float> values(std::min<std::uint64_t>(shape.count, 1021));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto whole = static_cast<float>(i * 7 % 16);
    switch (shape.dtype) {
      case DType::i32: values[i] = whole; break;
      case DType::u8: values[i] = 1.0F; break;
      case DType::f64:
      case DType::f32:
      case DType::bf16:
      case DType::f8:
      case DType::f16: values[i] = shape.scalar ? (i == 0 ? 1.0F : 0.0F) : 0.5F + whole / 16.0F; break;
    }
  }
  if (shape.dtype == DType::i32) {
    auto* out = reinterpret_cast<std::int32_t*>(data);
    for (std::uint64_t i = 0; i < shape.count; ++i) out[i] = static_cast<std::int32_t>(values[i % values.size()]);
    return;
  }
  for (std::uint64_t at = 0; at < shape.count; at += values.size()) {
    store_elements(shape.dtype, data, at, std::min<std::uint64_t>(values.size(), shape.count - at), values.data());
  }
}

}  // namespace

std::uint64_t KernelSample::touched() const {
  std::uint64_t bytes = 0;
  for (const OperandShape& o : operands) bytes += o.count * size_of(o.dtype) * (o.accumulate ? 2U : 1U);
  return bytes;
}

std::vector<KernelSample> samples_of(const Program& program) {
  ORRERY_ASSERT(program.mesh.size() == 1, program.mesh.size());
  std::vector<KernelSample> samples;
  for_each_op(program, program.classes[0].step, [&](const OpRun& run) {
    const auto* compute = std::get_if<Compute>(&run.op->action);
    if (compute == nullptr) return;
    KernelSample sample{run.block->kernels[compute->kernel], {}};
    sample.kernel.pass = Pass::forward;  // no difference to the time
    for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
      const View& view = run.block->views[run.op->views.first + i];
      const Buffer& buffer = program[view.buffer];
      OperandShape shape{buffer.dtype, view.count, view.use == View::Use::accumulate, buffer.role == Role::scalar, {}};
      // A view of a part of a buffer has no place of its own here.
      if (view.offset == 0 && view.count == buffer.count) shape.shard = buffer.shard;
      sample.operands.push_back(std::move(shape));
    }
    const bool known = std::any_of(samples.begin(), samples.end(), [&](const KernelSample& s) {
      return s.kernel == sample.kernel && s.operands == sample.operands;
    });
    if (!known) samples.push_back(std::move(sample));
  });
  return samples;
}

KernelTimer::KernelTimer(const Program& program, const Workload& workload, std::uint64_t pool)
    : mesh_(program.mesh),
      microbatches_(program.microbatches),
      workload_(workload),
      data_(synthetic_data(16, 1)),
      pool_(pool) {}

MeasuredTime KernelTimer::time(const KernelSample& sample, const TimingEffort& effort) {
  std::uint64_t set_bytes = 0;
  for (const OperandShape& o : sample.operands) set_bytes += aligned(o.count * size_of(o.dtype));
  const std::uint64_t sets = std::clamp<std::uint64_t>(pool_ / std::max<std::uint64_t>(set_bytes, 1), 1, 64);
  if (memory_.size() < sets * set_bytes + alignment) memory_.resize(sets * set_bytes + alignment);
  std::byte* at =
      memory_.data() + (alignment - reinterpret_cast<std::uintptr_t>(memory_.data()) % alignment) % alignment;
  std::vector<std::vector<Operand>> copies(sets);
  for (std::vector<Operand>& operands : copies) {
    for (const OperandShape& o : sample.operands) {
      fill_operand(o, at);
      Operand operand{at, o.dtype, o.count, o.accumulate, {}};
      if (o.shard && needs_place(sample.kernel)) {
        operand.place.shard = &*o.shard;
        operand.place.box = box_of(*o.shard, mesh_, Rank{0}, 0, microbatches_);
      }
      operands.push_back(operand);
      at += aligned(o.count * size_of(o.dtype));
    }
  }
  KernelContext context;
  context.mesh = &mesh_;
  context.workload = &workload_;
  context.data = data_.get();
  context.scratch = &scratch_;
  return time_work([&](std::uint64_t i) { run_kernel(sample.kernel, copies[i % sets], context); }, effort);
}

}  // namespace orrery
