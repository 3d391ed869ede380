#pragma once

#include <limits>

#include "exec/kernels/device/flash_sides.hpp"

/// Attention without the matrix of probabilities in memory, in tiles of shared memory, on ordinary cores. Source: Dao,
/// Fu, Ermon, Rudra and Re, "FlashAttention", NeurIPS 2022 (online softmax).
namespace orrery::device {

template <class T>
struct FlashForward {
  FlashSides f;
  Elements qkv, kv, context, lse, sinks;  ///< sinks: none where data is null
  ProbabilityMask dropout;
  cpu::ScoreRule<T> rule;
  T scale, inverse;

  [[nodiscard]] static std::uint64_t shared_elements(const FlashShape& s) {
    return FlashSides::of_positions<T>(s.tile) + s.tile * (2 * s.dim + 2 * s.value + s.tile + 3);
  }
  /// There is a block for each (sequence, head, tile of queries).
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const FlashShape& s = f.s;
    const std::uint64_t tiles = f.query_tiles();
    const std::uint64_t i0 = number % tiles * s.tile;
    const std::uint64_t head = number / tiles % s.heads;
    const std::uint64_t sequence = number / tiles / s.heads;
    auto* query_at = b.template shared<std::uint64_t>();
    std::uint64_t* key_at = query_at + s.tile;
    T* q = b.template shared<T>() + FlashSides::of_positions<T>(s.tile);
    T* k = q + s.tile * s.dim;
    T* v = k + s.tile * s.dim;
    T* sum = v + s.tile * s.value;
    T* p = sum + s.tile * s.value;
    T* most = p + s.tile * s.tile;
    T* total = most + s.tile;
    T* shrink = total + s.tile;
    f.take_positions(b, f.query_at, i0, s.length, query_at);
    take_tile<T>(b, s, qkv, i0, s.length, s.qkv_width, sequence, s.query_column(head), s.dim, scale, q);
    for (std::uint64_t i = b.thread(); i < s.tile * s.value; i += b.threads()) sum[i] = T{0};
    // A sink is a key without a value, which every query meets first.
    const bool has_sink = sinks.data != nullptr;
    const T slope = rule.slope(head);
    for (std::uint64_t i = b.thread(); i < s.tile; i += b.threads()) {
      most[i] = has_sink ? sinks.load<T>(head) : std::numeric_limits<T>::lowest();
      total[i] = has_sink ? T{1} : T{0};
    }
    for (std::uint64_t j0 = 0; j0 < f.keys; j0 += s.tile) {
      b.sync();  // the last tile has been used
      f.take_positions(b, f.key_at, j0, f.keys, key_at);
      b.sync();
      if (!f.meet(query_at, key_at)) continue;
      const std::uint64_t column = f.key_column(head / s.group);
      take_tile<T>(b, s, kv, j0, f.keys, f.key_row, sequence, column, s.dim, T{1}, k);
      take_tile<T>(b, s, kv, j0, f.keys, f.key_row, sequence, column + s.dim, s.value, T{1}, v);
      b.sync();
      for (std::uint64_t e = b.thread(); e < s.tile * s.tile; e += b.threads()) {
        const T product = dot(q + e / s.tile * s.dim, k + e % s.tile * s.dim, s.dim);
        p[e] = rule.score(product, slope, query_at[e / s.tile], key_at[e % s.tile]);
      }
      b.sync();
      for (std::uint64_t i = b.thread(); i < s.tile; i += b.threads()) {
        T high = most[i];
        for (std::uint64_t j = 0; j < s.tile; ++j) {
          if (f.sees(query_at[i], key_at[j]) && high < p[i * s.tile + j]) high = p[i * s.tile + j];
        }
        shrink[i] = std::exp(most[i] - high);  // earlier sums were counted from the old maximum
        T of_tile{0};
        for (std::uint64_t j = 0; j < s.tile; ++j) {
          const bool seen = f.sees(query_at[i], key_at[j]);
          const T e = seen ? std::exp(p[i * s.tile + j] - high) : T{0};
          of_tile += e;
          p[i * s.tile + j] = seen && dropout.keeps(sequence, head, query_at[i], key_at[j]) ? e * inverse : T{0};
        }
        total[i] = total[i] * shrink[i] + of_tile;
        most[i] = high;
      }
      b.sync();
      for (std::uint64_t e = b.thread(); e < s.tile * s.value; e += b.threads()) {
        const std::uint64_t i = e / s.value;
        T of_tile{0};
        for (std::uint64_t j = 0; j < s.tile; ++j) of_tile += p[i * s.tile + j] * v[j * s.value + e % s.value];
        sum[e] = sum[e] * shrink[i] + of_tile;
      }
    }
    b.sync();
    // A query that saw no key has nothing, and a sum of exponentials of zero.
    for (std::uint64_t e = b.thread(); e < s.tile * s.value; e += b.threads()) {
      const std::uint64_t i = e / s.value;
      const T v_of = total[i] > T{0} ? sum[e] / total[i] : T{0};
      if (i0 + i < s.length) context.store(s.context_at(i0 + i, sequence, head) + e % s.value, v_of);
    }
    for (std::uint64_t i = b.thread(); i < s.tile && i0 + i < s.length; i += b.threads()) {
      const T v_of = total[i] > T{0} ? most[i] + std::log(total[i]) : -std::numeric_limits<T>::infinity();
      lse.store((sequence * s.heads + head) * s.length + i0 + i, v_of);
    }
  }
};

}  // namespace orrery::device
