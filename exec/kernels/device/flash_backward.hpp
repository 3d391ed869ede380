#pragma once

#include "exec/kernels/device/flash_sides.hpp"

/// Gradients of flash attention, of tiles that are computed again (FlashAttention, see flash_forward.hpp). Those of
/// queries and those of keys and values come from two kernels, so that no two blocks add to one element.
namespace orrery::device {

/// The values that both backward kernels read, and where gradients go.
template <class T>
struct FlashGradients {
  FlashSides f;
  Elements dcontext, qkv, kv, context, lse, dq, dkv, accumulator;  ///< accumulator: none where data is null
  std::uint64_t dq_row, dq_group;                                  ///< elements: a row of dq; group to group
  bool add;                                                        ///< dq to what is there
  ProbabilityMask dropout;
  cpu::ScoreRule<T> rule;
  T scale, inverse;

  /// Row sums of dC C, and log-sum-exps, for a tile of queries, whose dC has been loaded.
  template <class Block>
  ORRERY_KERNEL_BODY void row_values(Block& b, std::uint64_t i0, std::uint64_t sequence, std::uint64_t head,
                                     const T* dc, T* dots, T* lses) const {
    const FlashShape& s = f.s;
    for (std::uint64_t i = b.thread(); i < s.tile; i += b.threads()) {
      T sum{0};
      const bool there = i0 + i < s.length;
      for (std::uint64_t c = 0; there && c < s.value; ++c) {
        sum += context.load<T>(s.context_at(i0 + i, sequence, head) + c) * dc[i * s.value + c];
      }
      dots[i] = sum;
      lses[i] = there ? lse.load<T>((sequence * s.heads + head) * s.length + i0 + i) : T{0};
    }
  }
  /// Makes p, the probabilities after dropout, and ds, the gradients of the scores, for a tile of queries and one of
  /// keys.
  template <class Block>
  ORRERY_KERNEL_BODY void scores(Block& b, const std::uint64_t* query_at, const std::uint64_t* key_at,
                                 std::uint64_t sequence, std::uint64_t head, const T* q, const T* k, const T* v,
                                 const T* dc, const T* dots, const T* lses, T* p, T* ds) const {
    const FlashShape& s = f.s;
    const T slope = rule.slope(head);
    for (std::uint64_t e = b.thread(); e < s.tile * s.tile; e += b.threads()) {
      const std::uint64_t i = e / s.tile;
      const std::uint64_t j = e % s.tile;
      T probability{0};
      T gradient{0};
      if (f.sees(query_at[i], key_at[j])) {
        const T capped = rule.capped(dot(q + i * s.dim, k + j * s.dim, s.dim));
        const T whole = std::exp(capped + rule.fall(slope, query_at[i], key_at[j]) - lses[i]);
        const T kept = dropout.keeps(sequence, head, query_at[i], key_at[j]) ? inverse : T{0};
        gradient = whole * (dot(dc + i * s.value, v + j * s.value, s.value) * kept - dots[i]) * rule.derivative(capped);
        probability = whole * kept;
      }
      p[e] = probability;
      ds[e] = gradient;
    }
  }
};

/// Makes dq, with a block for each (sequence, head, tile of queries).
template <class T>
struct FlashBackwardQueries {
  FlashGradients<T> g;

  [[nodiscard]] static std::uint64_t shared_elements(const FlashShape& s) {
    return FlashSides::of_positions<T>(s.tile) + s.tile * (3 * s.dim + 2 * s.value + 2 * s.tile + 2);
  }
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const FlashSides& f = g.f;
    const FlashShape& s = f.s;
    const std::uint64_t tiles = f.query_tiles();
    const std::uint64_t i0 = number % tiles * s.tile;
    const std::uint64_t head = number / tiles % s.heads;
    const std::uint64_t sequence = number / tiles / s.heads;
    auto* query_at = b.template shared<std::uint64_t>();
    std::uint64_t* key_at = query_at + s.tile;
    T* q = b.template shared<T>() + FlashSides::of_positions<T>(s.tile);
    T* k = q + s.tile * s.dim;
    T* dq = k + s.tile * s.dim;
    T* v = dq + s.tile * s.dim;
    T* dc = v + s.tile * s.value;
    T* p = dc + s.tile * s.value;
    T* ds = p + s.tile * s.tile;
    T* dots = ds + s.tile * s.tile;
    T* lses = dots + s.tile;
    f.take_positions(b, f.query_at, i0, s.length, query_at);
    take_tile<T>(b, s, g.qkv, i0, s.length, s.qkv_width, sequence, s.query_column(head), s.dim, g.scale, q);
    take_tile<T>(b, s, g.dcontext, i0, s.length, s.context_width, sequence, head * s.value, s.value, T{1}, dc);
    for (std::uint64_t i = b.thread(); i < s.tile * s.dim; i += b.threads()) dq[i] = T{0};
    b.sync();
    g.row_values(b, i0, sequence, head, dc, dots, lses);
    for (std::uint64_t j0 = 0; j0 < f.keys; j0 += s.tile) {
      b.sync();
      f.take_positions(b, f.key_at, j0, f.keys, key_at);
      b.sync();
      if (!f.meet(query_at, key_at)) continue;
      const std::uint64_t column = f.key_column(head / s.group);
      take_tile<T>(b, s, g.kv, j0, f.keys, f.key_row, sequence, column, s.dim, T{1}, k);
      take_tile<T>(b, s, g.kv, j0, f.keys, f.key_row, sequence, column + s.dim, s.value, T{1}, v);
      b.sync();
      g.scores(b, query_at, key_at, sequence, head, q, k, v, dc, dots, lses, p, ds);
      b.sync();
      for (std::uint64_t e = b.thread(); e < s.tile * s.dim; e += b.threads()) {
        T sum{0};
        for (std::uint64_t j = 0; j < s.tile; ++j) sum += ds[e / s.dim * s.tile + j] * k[j * s.dim + e % s.dim];
        dq[e] += sum;
      }
    }
    // Each thread reads only what it has written itself.
    for (std::uint64_t e = b.thread(); e < s.tile * s.dim; e += b.threads()) {
      const std::uint64_t position = i0 + e / s.dim, c = e % s.dim;
      if (position >= s.length) continue;
      if (g.accumulator.data != nullptr) {
        g.accumulator.store(((sequence * s.heads + head) * s.length + position) * s.dim + c, dq[e]);
      }
      const std::uint64_t to =
          (position * s.batch + sequence) * g.dq_row + head / s.group * g.dq_group + head % s.group * s.dim + c;
      g.dq.store(to, dq[e] * g.scale + (g.add ? g.dq.template load<T>(to) : T{0}));
    }
  }
};

/// Makes dk and dv, summed over the heads that share them, with a block for each (sequence, key head, tile of keys).
template <class T>
struct FlashBackwardKeys {
  FlashGradients<T> g;

  [[nodiscard]] static std::uint64_t shared_elements(const FlashShape& s) {
    return FlashSides::of_positions<T>(s.tile) + s.tile * (3 * s.dim + 3 * s.value + 2 * s.tile + 2);
  }
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const FlashSides& f = g.f;
    const FlashShape& s = f.s;
    const std::uint64_t tiles = f.key_tiles();
    const std::uint64_t j0 = number % tiles * s.tile;
    const std::uint64_t kv_head = number / tiles % s.kv_heads;
    const std::uint64_t sequence = number / tiles / s.kv_heads;
    auto* query_at = b.template shared<std::uint64_t>();
    std::uint64_t* key_at = query_at + s.tile;
    T* q = b.template shared<T>() + FlashSides::of_positions<T>(s.tile);
    T* k = q + s.tile * s.dim;
    T* dk = k + s.tile * s.dim;
    T* v = dk + s.tile * s.dim;
    T* dv = v + s.tile * s.value;
    T* dc = dv + s.tile * s.value;
    T* p = dc + s.tile * s.value;
    T* ds = p + s.tile * s.tile;
    T* dots = ds + s.tile * s.tile;
    T* lses = dots + s.tile;
    const std::uint64_t column = f.key_column(kv_head);
    f.take_positions(b, f.key_at, j0, f.keys, key_at);
    take_tile<T>(b, s, g.kv, j0, f.keys, f.key_row, sequence, column, s.dim, T{1}, k);
    take_tile<T>(b, s, g.kv, j0, f.keys, f.key_row, sequence, column + s.dim, s.value, T{1}, v);
    for (std::uint64_t i = b.thread(); i < s.tile * s.dim; i += b.threads()) dk[i] = T{0};
    for (std::uint64_t i = b.thread(); i < s.tile * s.value; i += b.threads()) dv[i] = T{0};
    for (std::uint64_t i0 = 0; i0 < s.length; i0 += s.tile) {
      b.sync();
      f.take_positions(b, f.query_at, i0, s.length, query_at);
      b.sync();
      if (!f.meet(query_at, key_at)) continue;
      for (std::uint64_t member = 0; member < s.group; ++member) {
        const std::uint64_t head = kv_head * s.group + member;
        b.sync();
        take_tile<T>(b, s, g.qkv, i0, s.length, s.qkv_width, sequence, s.query_column(head), s.dim, g.scale, q);
        take_tile<T>(b, s, g.dcontext, i0, s.length, s.context_width, sequence, head * s.value, s.value, T{1}, dc);
        b.sync();
        g.row_values(b, i0, sequence, head, dc, dots, lses);
        b.sync();
        g.scores(b, query_at, key_at, sequence, head, q, k, v, dc, dots, lses, p, ds);
        b.sync();
        for (std::uint64_t e = b.thread(); e < s.tile * s.dim; e += b.threads()) {
          T sum{0};
          for (std::uint64_t i = 0; i < s.tile; ++i) sum += ds[i * s.tile + e / s.dim] * q[i * s.dim + e % s.dim];
          dk[e] += sum;
        }
        for (std::uint64_t e = b.thread(); e < s.tile * s.value; e += b.threads()) {
          T sum{0};
          for (std::uint64_t i = 0; i < s.tile; ++i) sum += p[i * s.tile + e / s.value] * dc[i * s.value + e % s.value];
          dv[e] += sum;
        }
      }
    }
    for (std::uint64_t e = b.thread(); e < s.tile * s.dim; e += b.threads()) {
      const std::uint64_t key = j0 + e / s.dim;
      if (key < f.keys) g.dkv.store(f.key_place(key, sequence) + column + e % s.dim, dk[e]);
    }
    for (std::uint64_t e = b.thread(); e < s.tile * s.value; e += b.threads()) {
      const std::uint64_t key = j0 + e / s.value;
      if (key < f.keys) g.dkv.store(f.key_place(key, sequence) + column + s.dim + e % s.value, dv[e]);
    }
  }
};

}  // namespace orrery::device
