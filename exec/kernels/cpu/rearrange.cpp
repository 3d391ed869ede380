#include <algorithm>
#include <cstring>

#include "core/program/head_copies.hpp"
#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"

// Kernels that move elements: what one rank needs of qkv, or the parts of
// an all-to-all, made contiguous.
namespace orrery::cpu {
namespace {

void swap_blocks(const Kernel& k, const Operands& o, const KernelContext&) {
  const Operand& x = o[N::x];
  const Operand& y = o[N::y];
  ORRERY_ASSERT(x.dtype == y.dtype, x.dtype, y.dtype);
  const std::uint64_t bytes = k.columns * size_of(x.dtype);
  const auto* from = static_cast<const std::byte*>(x.data);
  auto* to = static_cast<std::byte*>(y.data);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t part = 0; part < k.depth; ++part) {
      std::memcpy(to + (part * k.rows + row) * bytes, from + (row * k.depth + part) * bytes, bytes);
    }
  }
}

void pack_keys_values(const Kernel& k, const Operands& o, const KernelContext&) {
  const Heads shape(k);
  const Operand& qkv = o[N::qkv];
  const Operand& kv = o[N::kv];
  ORRERY_ASSERT(qkv.dtype == kv.dtype, qkv.dtype, kv.dtype);
  const std::uint64_t element = size_of(qkv.dtype);
  const std::uint64_t pair = (shape.dim + shape.value) * element;  // a key and its value stand together
  const auto* from = static_cast<const std::byte*>(qkv.data);
  auto* to = static_cast<std::byte*>(kv.data);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t g = 0; g < shape.kv_heads; ++g) {
      std::memcpy(to + (row * shape.kv_heads + g) * pair,
                  from + (row * shape.qkv_width() + shape.key_column(g)) * element, pair);
    }
  }
}

void split_keys_values(const Kernel& k, const Operands& o, const KernelContext&) {
  const Heads shape(k);
  const Operand& qkv = o[N::qkv];
  ORRERY_ASSERT(qkv.dtype == o[N::keys].dtype && qkv.dtype == o[N::values].dtype, qkv.dtype, o[N::keys].dtype,
                o[N::values].dtype);
  const std::uint64_t element = size_of(qkv.dtype);
  const auto* from = static_cast<const std::byte*>(qkv.data);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t g = 0; g < shape.kv_heads; ++g) {
      const auto copy = [&](const Operand& to, std::uint64_t column, std::uint64_t width) {
        std::memcpy(static_cast<std::byte*>(to.data) + (row * shape.kv_heads + g) * width * element,
                    from + (row * shape.qkv_width() + column) * element, width * element);
      };
      copy(o[N::keys], shape.key_column(g), shape.dim);
      copy(o[N::values], shape.value_column(g), shape.value);
    }
  }
}

template <class T>
void unpack_gradients(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Heads shape(k);
  T* buffer = scratch.get<T>(first_own, 2 * shape.group_width());
  const auto copy = [&](const Operand& from, std::uint64_t at, const Operand& to, std::uint64_t place,
                        std::uint64_t count) {
    const T* x = read(from, at, count, buffer);
    T* y = target(to, place, buffer + shape.group_width());
    if (x != y) std::memcpy(y, x, count * sizeof(T));
    finish(to, place, count, y);
  };
  const std::uint64_t queries = shape.group * shape.dim, pair = shape.dim + shape.value;
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t g = 0; g < shape.kv_heads; ++g) {
      const std::uint64_t to = row * shape.qkv_width() + g * shape.group_width();
      copy(o[N::dq], (row * shape.kv_heads + g) * queries, o[N::dqkv], to, queries);
      copy(o[N::dkv], (row * shape.kv_heads + g) * pair, o[N::dqkv], to + queries, pair);
    }
  }
}

/// The first share of this rank, by the place of its packed heads; where all parts are its own, the first of all.
std::uint64_t first_share(const HeadCopies& copies, const Operand& qkv) {
  return copies.parts == 1 || qkv.place.shard == nullptr ? 0 : qkv.place.box.offset[2];
}

void share_heads_forward(const Kernel& k, const Operands& o, const KernelContext&) {
  const HeadCopies copies(k);
  const Operand &x = o[N::x], &qkv = o[N::qkv];
  ORRERY_ASSERT(copies.valid() && x.dtype == qkv.dtype, k.columns, k.depth, x.dtype, qkv.dtype);
  const std::uint64_t element = size_of(x.dtype), first = first_share(copies, qkv), width = copies.share_width();
  const auto* from = static_cast<const std::byte*>(x.data);
  auto* to = static_cast<std::byte*>(qkv.data);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t held = 0; held < copies.held; ++held) {
      for (std::uint64_t c = 0, n = 0; c < width; c += n) {
        // A run ends with the queries, or with a part.
        const std::uint64_t column = copies.source(first + held, c);
        n = std::min((c < copies.queries ? copies.queries : width) - c, copies.columns - column % copies.columns);
        std::memcpy(to + ((row * copies.held + held) * width + c) * element,
                    from + copies.element(row, column) * element, n * element);
      }
    }
  }
}

template <class T>
void share_heads_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  const HeadCopies copies(k);
  const Operand &dqkv = o[N::dqkv], &dx = o[N::dx];
  ORRERY_ASSERT(copies.valid(), k.columns, k.depth);
  const std::uint64_t all = copies.columns * copies.parts, width = copies.share_width();
  const std::uint64_t first = first_share(copies, dqkv);
  T* sums = context.scratch->get<T>(first_own, all + width + copies.columns);
  T* buffer = sums + all;
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    std::fill_n(sums, all, T{0});
    for (std::uint64_t held = 0; held < copies.held; ++held) {
      const T* share = read(dqkv, (row * copies.held + held) * width, width, buffer);
      for (std::uint64_t c = 0; c < width; ++c) sums[copies.source(first + held, c)] += share[c];
    }
    for (std::uint64_t part = 0; part < copies.parts; ++part) {
      const std::uint64_t at = copies.element(row, part * copies.columns);
      T* y = target(dx, at, buffer + width);
      std::copy_n(sums + part * copies.columns, copies.columns, y);
      finish(dx, at, copies.columns, y);
    }
  }
}

template <class T>
void add_to(const Kernel&, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  for (std::uint64_t at = 0; at < o[N::sum].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::sum].count - at);
    const T* x = read(o[N::x], at, n, in);
    T* sum = update(o[N::sum], at, n, out);
    for (std::uint64_t i = 0; i < n; ++i) sum[i] += x[i];
    finish(o[N::sum], at, n, sum);
  }
}

template <class T>
void convert_to(const Kernel&, const Operands& o, const KernelContext&) {
  T in[tile];
  T out[tile];
  for (std::uint64_t at = 0; at < o[N::y].count; at += tile) {
    const std::uint64_t n = std::min(tile, o[N::y].count - at);
    const T* x = read(o[N::x], at, n, in);
    T* y = target(o[N::y], at, out);
    for (std::uint64_t i = 0; i < n; ++i) y[i] = x[i];
    finish(o[N::y], at, n, y);
  }
}

}  // namespace

std::span<const HostKernel> rearranging_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::swap_blocks, swap_blocks, swap_blocks},
      {KernelKind::pack_keys_values, pack_keys_values, pack_keys_values},
      {KernelKind::split_keys_values, split_keys_values, split_keys_values},
      {KernelKind::unpack_gradients, unpack_gradients<float>, unpack_gradients<double>},
      {KernelKind::share_heads_forward, share_heads_forward, share_heads_forward},
      {KernelKind::share_heads_backward, share_heads_backward<float>, share_heads_backward<double>},
      {KernelKind::add_to, add_to<float>, add_to<double>},
      {KernelKind::convert, convert_to<float>, convert_to<double>},
  };
  return list;
}

}  // namespace orrery::cpu
