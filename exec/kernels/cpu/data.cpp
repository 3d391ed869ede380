#include <cmath>
#include <cstring>

#include "core/base/random.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/parameter_layout.hpp"
#include "exec/train/data.hpp"

namespace orrery::cpu {
namespace {

/// Position and global sequence of local row `row` of a token buffer.
struct TokenPlace {
  std::uint64_t position;
  std::uint64_t sequence;
};

TokenPlace token_place(const Place& place, std::uint64_t row) {
  if (place.shard == nullptr) return {row, 0};
  const std::uint64_t at = place.first + row;
  return {position_at(place, at / place.box.extent[1]), place.box.offset[1] + at % place.box.extent[1]};
}

void clear(const Operand& x) {
  // Zero of every element type is all bits zero.
  std::memset(x.data, 0, x.count * size_of(x.dtype));
}

void load_tokens(const Kernel& k, const Operands& o, const KernelContext& context) {
  auto* out = static_cast<std::int32_t*>(o[N::tokens].data);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const TokenPlace at = token_place(o[N::tokens].place, row);
    out[row] = token_ahead(*context.data, *context.workload, context.step, at.sequence, at.position, k.site);
  }
}

void load_targets(const Kernel& k, const Operands& o, const KernelContext& context) {
  auto* out = static_cast<std::int32_t*>(o[N::targets].data);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const TokenPlace at = token_place(o[N::targets].place, row);
    out[row] = target_ahead(*context.data, *context.workload, context.step, at.sequence, at.position, k.site);
  }
}

void load_segments(const Kernel& k, const Operands& o, const KernelContext& context) {
  auto* out = static_cast<std::int32_t*>(o[N::segments].data);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const TokenPlace at = token_place(o[N::segments].place, row);
    out[row] = context.data->segment(context.step, at.sequence, at.position);
  }
}

void load_patches(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Operand& x = o[N::patches];
  const std::uint64_t first = x.place.shard == nullptr ? 0 : x.place.box.offset[2];
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    // Patches count from 0, positions from the class token.
    const TokenPlace at = token_place(x.place, row);
    for (std::uint64_t c = 0; c < k.columns; ++c) {
      write_scalar(x, context.data->pixel(context.step, at.sequence, at.position + 1, first + c), row * k.columns + c);
    }
  }
}

void count_targets(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Workload& w = *context.workload;
  const std::uint64_t sequences = w.global_batch / size(*context.mesh, batch_axes);
  const std::uint64_t begin = coordinate(*context.mesh, context.rank, batch_axes) * sequences;
  std::uint64_t count = 0;
  for (std::uint64_t sequence = begin; sequence < begin + sequences; ++sequence) {
    for (std::uint64_t position = 0; position < w.sequence_length; ++position) {
      if (target_ahead(*context.data, w, context.step, sequence, position, k.site) >= 0) ++count;
    }
  }
  write_scalar(o[N::count], static_cast<double>(count));
}

void fill(const Kernel&, const Operands& o, const KernelContext&) {
  for (const Operand& x : o.all(N::x)) clear(x);
}

void initialize(const Kernel&, const Operands& o, const KernelContext& context) {
  const Operand& x = o[N::parameters];
  ORRERY_ASSERT(x.place.table != nullptr && x.place.first == 0, x.place.first);
  clear(x);  // padding
  const ParameterTable& table = *x.place.table;
  for_each_run(table, *context.mesh, context.rank, x.place.flat_split, [&](const ParameterRun& run) {
    const ParameterSlice& slice = *run.slice;
    const std::uint64_t stream = stream_of(parameter_name(table, slice, x.place.layer));
    const Box box = box_of(slice.shard, *context.mesh, context.rank);
    for (std::uint64_t i = 0; i < run.count; ++i) {
      const std::uint64_t at = valid_index(slice.shard, box, run.slice_first + i);
      if (at == outside) continue;
      double value = 0.0;
      switch (slice.init) {
        case Init::zeros: continue;
        case Init::ones: value = 1.0; break;
        case Init::normal: value = random_normal(context.workload->seed, stream, at) * slice.init_scale; break;
      }
      write_scalar(x, value, run.buffer_first + i);
    }
  });
}

}  // namespace

std::span<const HostKernel> data_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::load_tokens, load_tokens, load_tokens},       {KernelKind::load_targets, load_targets, load_targets},
      {KernelKind::load_segments, load_segments, load_segments}, {KernelKind::load_patches, load_patches, load_patches},
      {KernelKind::count_targets, count_targets, count_targets}, {KernelKind::fill, fill, fill},
      {KernelKind::initialize, initialize, initialize},
  };
  return list;
}

}  // namespace orrery::cpu
