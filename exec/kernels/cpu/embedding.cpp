#include <algorithm>

#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {
namespace {

/// First vocabulary row of this rank's part of the table.
std::uint64_t vocabulary_offset(const Operand& table) {
  return table.place.shard == nullptr ? 0 : table.place.box.offset[0];
}

/// Rows of x that belong to one position.
std::uint64_t rows_each(const Kernel& k, const Operand& x) {
  return x.place.shard != nullptr ? x.place.box.extent[1] : std::max<std::uint64_t>(1, k.batch);
}

template <class T>
void embed_forward(const Kernel& k, const Operands& o, const KernelContext&) {
  const auto* tokens = static_cast<const std::int32_t*>(o[N::tokens].data);
  const Operand& table = o[N::table];
  const Operand& x = o[N::x];
  const auto begin = static_cast<std::int64_t>(vocabulary_offset(table));
  T in[tile];
  T out[tile];
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const std::int64_t entry = tokens[row] - begin;
    const bool here = entry >= 0 && entry < static_cast<std::int64_t>(k.depth);
    for (std::uint64_t c = 0; c < k.columns; c += tile) {
      const std::uint64_t n = std::min(tile, k.columns - c);
      T* y = target(x, row * k.columns + c, out);
      if (here) {
        std::copy_n(read(table, static_cast<std::uint64_t>(entry) * k.columns + c, n, in), n, y);
      } else {
        std::fill_n(y, n, T{0});
      }
      finish(x, row * k.columns + c, n, y);
    }
  }
}

template <class T>
void embed_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const auto* tokens = static_cast<const std::int32_t*>(o[N::tokens].data);
  const Operand& dx = o[N::dx];
  const Operand& dtable = o[N::dtable];
  const auto begin = static_cast<std::int64_t>(vocabulary_offset(dtable));
  T* in = scratch.get<T>(0, k.columns);
  T* out = scratch.get<T>(1, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const std::int64_t entry = tokens[row] - begin;
    if (entry < 0 || entry >= static_cast<std::int64_t>(k.depth)) continue;
    const T* d = read(dx, row * k.columns, k.columns, in);
    const std::uint64_t at = static_cast<std::uint64_t>(entry) * k.columns;
    T* sum = update(dtable, at, k.columns, out);
    for (std::uint64_t c = 0; c < k.columns; ++c) sum[c] += d[c];
    finish(dtable, at, k.columns, sum);
  }
}

template <class T>
void position_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Operand& x = o[N::x];
  const std::uint64_t each = rows_each(k, x);
  T* in = scratch.get<T>(0, k.columns);
  T* out = scratch.get<T>(1, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const std::uint64_t position = k.depth + position_at(x.place, row / each);
    const T* p = read(o[N::table], position * k.columns, k.columns, in);
    T* y = update(x, row * k.columns, k.columns, out);
    for (std::uint64_t c = 0; c < k.columns; ++c) y[c] += p[c];
    finish(x, row * k.columns, k.columns, y);
  }
}

template <class T>
void position_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Operand& dx = o[N::dx];
  const Operand& dtable = o[N::dtable];
  const std::uint64_t each = rows_each(k, dx);
  T* in = scratch.get<T>(0, k.columns);
  T* out = scratch.get<T>(1, k.columns);
  // The rows of one position stand together: one read and one write of the table each.
  for (std::uint64_t row = 0; row < k.rows; row += each) {
    const std::uint64_t at = (k.depth + position_at(dx.place, row / each)) * k.columns;
    T* sum = update(dtable, at, k.columns, out);
    for (std::uint64_t r = row; r < std::min(k.rows, row + each); ++r) {
      const T* d = read(dx, r * k.columns, k.columns, in);
      for (std::uint64_t c = 0; c < k.columns; ++c) sum[c] += d[c];
    }
    finish(dtable, at, k.columns, sum);
  }
}

template <class T>
void segment_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const auto* segments = static_cast<const std::int32_t*>(o[N::segments].data);
  const Operand& x = o[N::x];
  T* in = scratch.get<T>(0, k.columns);
  T* out = scratch.get<T>(1, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* s = read(o[N::table], static_cast<std::uint64_t>(segments[row]) * k.columns, k.columns, in);
    T* y = update(x, row * k.columns, k.columns, out);
    for (std::uint64_t c = 0; c < k.columns; ++c) y[c] += s[c];
    finish(x, row * k.columns, k.columns, y);
  }
}

template <class T>
void segment_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const auto* segments = static_cast<const std::int32_t*>(o[N::segments].data);
  const Operand& dtable = o[N::dtable];
  T* in = scratch.get<T>(0, k.columns);
  T* sums = scratch.get<T>(1, k.depth * k.columns);
  std::fill_n(sums, k.depth * k.columns, T{0});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* d = read(o[N::dx], row * k.columns, k.columns, in);
    T* sum = sums + static_cast<std::uint64_t>(segments[row]) * k.columns;
    for (std::uint64_t c = 0; c < k.columns; ++c) sum[c] += d[c];
  }
  // All tokens fall on a few rows of the table, so each row is rounded once, not once for each token.
  T* out = scratch.get<T>(0, k.depth * k.columns);
  T* total = update(dtable, 0, k.depth * k.columns, out);
  for (std::uint64_t i = 0; i < k.depth * k.columns; ++i) total[i] += sums[i];
  finish(dtable, 0, k.depth * k.columns, total);
}

template <class T>
void class_token_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Operand& x = o[N::x];
  const std::uint64_t each = rows_each(k, x);
  T* token_buffer = scratch.get<T>(0, 2 * k.columns);
  const T* token = read(o[N::token], 0, k.columns, token_buffer);
  const T* bias = nullptr;
  if (!k.options.unbiased) bias = read(o[N::bias], 0, k.columns, token_buffer + k.columns);
  T* out = scratch.get<T>(1, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const bool is_class = position_at(x.place, row / each) == 0;
    T* y = update(x, row * k.columns, k.columns, out);
    for (std::uint64_t c = 0; c < k.columns; ++c) {
      y[c] = is_class ? token[c] : bias != nullptr ? y[c] + bias[c] : y[c];
    }
    finish(x, row * k.columns, k.columns, y);
  }
}

template <class T>
void class_token_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Operand& dx = o[N::dx];
  const std::uint64_t each = rows_each(k, dx);
  T* in = scratch.get<T>(0, k.columns);
  T* sums = scratch.get<T>(1, 2 * k.columns);  // of the class token's rows, of the others
  std::fill_n(sums, 2 * k.columns, T{0});
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* d = read(dx, row * k.columns, k.columns, in);
    T* sum = sums + (position_at(dx.place, row / each) == 0 ? 0 : k.columns);
    for (std::uint64_t c = 0; c < k.columns; ++c) sum[c] += d[c];
  }
  const auto add = [&](const Operand& gradient, const T* sum) {
    T* total = update(gradient, 0, k.columns, in);
    for (std::uint64_t c = 0; c < k.columns; ++c) total[c] += sum[c];
    finish(gradient, 0, k.columns, total);
  };
  add(o[N::dtoken], sums);
  if (!k.options.unbiased) add(o[N::dbias], sums + k.columns);
}

}  // namespace

std::span<const HostKernel> embedding_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::embed_forward, embed_forward<float>, embed_forward<double>},
      {KernelKind::embed_backward, embed_backward<float>, embed_backward<double>},
      {KernelKind::position_forward, position_forward<float>, position_forward<double>},
      {KernelKind::position_backward, position_backward<float>, position_backward<double>},
      {KernelKind::segment_forward, segment_forward<float>, segment_forward<double>},
      {KernelKind::segment_backward, segment_backward<float>, segment_backward<double>},
      {KernelKind::class_token_forward, class_token_forward<float>, class_token_forward<double>},
      {KernelKind::class_token_backward, class_token_backward<float>, class_token_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
