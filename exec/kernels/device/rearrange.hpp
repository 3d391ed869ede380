#pragma once

#include "core/program/head_copies.hpp"
#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/device/launcher.hpp"

/// Kernels that move elements: what one rank needs of qkv, or the parts of an all-to-all, made contiguous.
namespace orrery::device {

/// Copies of elements, bit for bit.
struct Moved {
  Elements from, to;
  ORRERY_ON_DEVICE void operator()(std::uint64_t to_at, std::uint64_t from_at) const {
    switch (size_of(from.dtype)) {
      case 1: of<std::uint8_t>(to_at, from_at); return;
      case 2: of<std::uint16_t>(to_at, from_at); return;
      case 4: of<std::uint32_t>(to_at, from_at); return;
      default: of<std::uint64_t>(to_at, from_at); return;
    }
  }

 private:
  template <class X>
  ORRERY_ON_DEVICE void of(std::uint64_t to_at, std::uint64_t from_at) const {
    static_cast<X*>(to.data)[to_at] = static_cast<const X*>(from.data)[from_at];
  }
};

/// [rows, parts, columns] becomes [parts, rows, columns]; i counts the result.
struct SwapBlocks {
  Moved move;
  std::uint64_t rows, parts, columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t part = i / columns / rows, row = i / columns % rows;
    move(i, (row * parts + part) * columns + i % columns);
  }
};

/// The columns [first, first + width) of each key head of packed qkv; i counts (row, key head, column).
struct TakeColumns {
  Moved move;
  std::uint64_t group_width, first, width;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { move(i, i / width * group_width + first + i % width); }
};

/// Gradients of queries, and of keys and values, into packed ones; i counts the result.
template <class T>
struct UnpackGradients {
  Elements dq, dkv, dqkv;
  std::uint64_t group_width, queries;  ///< features of a group's queries
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t group = i / group_width, c = i % group_width, pair = group_width - queries;
    dqkv.store(i, c < queries ? dq.load<T>(group * queries + c) : dkv.load<T>(group * pair + c - queries));
  }
};

/// This rank's queries, each share with a copy of its key and value; i counts the result.
struct ShareHeads {
  Moved move;
  HeadCopies copies;
  std::uint64_t first;  ///< share of this rank
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t width = copies.share_width(), held = i / width % copies.held, row = i / width / copies.held;
    move(i, copies.element(row, copies.source(first + held, i % width)));
  }
};

/// Gradients of shares, those of copies summed, and 0 where other ranks have shares; i counts (row, column).
template <class T>
struct TakeShares {
  Elements dqkv, dx;
  HeadCopies copies;
  std::uint64_t first;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t all = copies.columns * copies.parts, row = i / all, column = i % all;
    const std::uint64_t group = column / copies.group_width(), c = column % copies.group_width();
    const std::uint64_t of_queries = copies.copies * copies.queries;
    T sum{0};
    for (std::uint64_t copy = 0; copy < copies.copies; ++copy) {
      const std::uint64_t share = group * copies.copies + copy;
      const bool own = c >= of_queries || c / copies.queries == copy;
      if (!own || share < first || share >= first + copies.held) continue;
      const std::uint64_t at = c >= of_queries ? copies.queries + c - of_queries : c % copies.queries;
      sum += dqkv.load<T>((row * copies.held + share - first) * copies.share_width() + at);
    }
    dx.store(copies.element(row, column), sum);
  }
};

template <class T, class Launcher>
bool run_rearranging(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  const auto x = [&](N name) { return Elements(o[name]); };
  if (k.kind == KernelKind::swap_blocks) {
    for_each(l, k.rows * k.depth * k.columns, SwapBlocks{{x(N::x), x(N::y)}, k.rows, k.depth, k.columns});
    return true;
  }
  const auto take = [&](N to, std::uint64_t first, std::uint64_t width) {
    const cpu::Heads s(k);
    for_each(l, k.rows * s.kv_heads * width, TakeColumns{{x(N::qkv), x(to)}, s.group_width(), first, width});
  };
  switch (k.kind) {
    case KernelKind::pack_keys_values: {
      const cpu::Heads s(k);
      take(N::kv, s.key_column(0), s.dim + s.value);
      return true;
    }
    case KernelKind::split_keys_values: {
      const cpu::Heads s(k);
      take(N::keys, s.key_column(0), s.dim);
      take(N::values, s.value_column(0), s.value);
      return true;
    }
    case KernelKind::unpack_gradients: {
      const cpu::Heads s(k);
      for_each(l, k.rows * s.qkv_width(),
               UnpackGradients<T>{x(N::dq), x(N::dkv), x(N::dqkv), s.group_width(), s.group * s.dim});
      return true;
    }
    case KernelKind::share_heads_forward:
    case KernelKind::share_heads_backward: {
      const bool forward = k.kind == KernelKind::share_heads_forward;
      const HeadCopies copies(k);
      const Place& place = o[forward ? N::qkv : N::dqkv].place;
      const std::uint64_t first = copies.parts == 1 || place.shard == nullptr ? 0 : place.box.offset[2];
      if (forward) {
        for_each(l, k.rows * copies.held * copies.share_width(), ShareHeads{{x(N::x), x(N::qkv)}, copies, first});
      } else {
        for_each(l, k.rows * copies.columns * copies.parts, TakeShares<T>{x(N::dqkv), x(N::dx), copies, first});
      }
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
