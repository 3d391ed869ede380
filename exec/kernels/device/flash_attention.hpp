#pragma once

#include <limits>

#include "exec/kernels/device/flash_shape.hpp"
#include "exec/kernels/device/run_tensor_flash.hpp"

/// Attention without the matrix of probabilities in memory, in tiles of shared memory, on ordinary cores: for what
/// tensor cores do not serve (run_tensor_flash.hpp). Source: Dao, Fu, Ermon, Rudra
/// and Re, "FlashAttention", NeurIPS 2022 (online softmax forward, recomputed tiles backward). Queries' gradients and
/// those of keys and values come from two kernels, so that no two blocks add to one element.
namespace orrery::device {

/// tile[rows, width] = x[positions first .., column ..] times a factor; zero behind the sequence's end.
template <class T, class Block>
ORRERY_KERNEL_BODY void take_tile(Block& b, const FlashShape& s, const Elements& x, std::uint64_t first,
                                  std::uint64_t row_width, std::uint64_t sequence, std::uint64_t column,
                                  std::uint64_t width, T factor, T* out) {
  for (std::uint64_t i = b.thread(); i < s.tile * width; i += b.threads()) {
    const std::uint64_t position = first + i / width;
    const std::uint64_t from = (position * s.batch + sequence) * row_width + column + i % width;
    out[i] = position < s.length ? x.load<T>(from) * factor : T{0};
  }
}

/// sum over c of a[c] b[c].
template <class T>
[[nodiscard]] ORRERY_ON_DEVICE inline T dot(const T* a, const T* b, std::uint64_t count) {
  T sum{0};
  for (std::uint64_t c = 0; c < count; ++c) sum += a[c] * b[c];
  return sum;
}

template <class T>
struct FlashForward {
  FlashShape s;
  Elements qkv, context, lse, sinks;  ///< sinks: none where data is null
  ProbabilityMask dropout;
  cpu::ScoreRule<T> rule;
  T scale, inverse;

  [[nodiscard]] static std::uint64_t shared_elements(const FlashShape& s) {
    return s.tile * (2 * s.dim + 2 * s.value + s.tile + 3);
  }
  /// There is a block for each (sequence, head, tile of queries).
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const std::uint64_t tiles = s.tiles();
    const std::uint64_t i0 = number % tiles * s.tile;
    const std::uint64_t head = number / tiles % s.heads;
    const std::uint64_t sequence = number / tiles / s.heads;
    T* q = b.template shared<T>();
    T* k = q + s.tile * s.dim;
    T* v = k + s.tile * s.dim;
    T* sum = v + s.tile * s.value;
    T* p = sum + s.tile * s.value;
    T* most = p + s.tile * s.tile;
    T* total = most + s.tile;
    T* shrink = total + s.tile;
    take_tile<T>(b, s, qkv, i0, s.qkv_width, sequence, s.query_column(head), s.dim, scale, q);
    for (std::uint64_t i = b.thread(); i < s.tile * s.value; i += b.threads()) sum[i] = T{0};
    // A sink is a key without a value, which every query meets first.
    const bool has_sink = sinks.data != nullptr;
    const T slope = rule.slope(head);
    for (std::uint64_t i = b.thread(); i < s.tile; i += b.threads()) {
      most[i] = has_sink ? sinks.load<T>(head) : std::numeric_limits<T>::lowest();
      total[i] = has_sink ? T{1} : T{0};
    }
    for (std::uint64_t j0 = 0; j0 < s.length; j0 += s.tile) {
      if (!s.tiles_meet(i0, j0)) continue;
      b.sync();  // the last tile has been used
      const std::uint64_t column = s.key_column(head / s.group);
      take_tile<T>(b, s, qkv, j0, s.qkv_width, sequence, column, s.dim, T{1}, k);
      take_tile<T>(b, s, qkv, j0, s.qkv_width, sequence, column + s.dim, s.value, T{1}, v);
      b.sync();
      for (std::uint64_t e = b.thread(); e < s.tile * s.tile; e += b.threads()) {
        const T product = dot(q + e / s.tile * s.dim, k + e % s.tile * s.dim, s.dim);
        p[e] = rule.score(product, slope, i0 + e / s.tile, j0 + e % s.tile);
      }
      b.sync();
      for (std::uint64_t i = b.thread(); i < s.tile; i += b.threads()) {
        T high = most[i];
        for (std::uint64_t j = 0; j < s.tile; ++j) {
          if (s.sees(i0 + i, j0 + j) && high < p[i * s.tile + j]) high = p[i * s.tile + j];
        }
        shrink[i] = std::exp(most[i] - high);  // earlier sums were counted from the old maximum
        T of_tile{0};
        for (std::uint64_t j = 0; j < s.tile; ++j) {
          const bool seen = s.sees(i0 + i, j0 + j);
          const T e = seen ? std::exp(p[i * s.tile + j] - high) : T{0};
          of_tile += e;
          p[i * s.tile + j] = seen && dropout.keeps(sequence, head, i0 + i, j0 + j) ? e * inverse : T{0};
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
    for (std::uint64_t e = b.thread(); e < s.tile * s.value; e += b.threads()) {
      const std::uint64_t i = e / s.value;
      if (i0 + i < s.length) context.store(s.context_at(i0 + i, sequence, head) + e % s.value, sum[e] / total[i]);
    }
    for (std::uint64_t i = b.thread(); i < s.tile && i0 + i < s.length; i += b.threads()) {
      lse.store((sequence * s.heads + head) * s.length + i0 + i, most[i] + std::log(total[i]));
    }
  }
};

/// The values that both backward kernels read.
template <class T>
struct FlashGradients {
  FlashShape s;
  Elements dcontext, qkv, context, lse, dqkv, accumulator;
  ProbabilityMask dropout;
  cpu::ScoreRule<T> rule;
  T scale, inverse;

  /// Row sums of dC C, and log-sum-exps, for a tile of queries, whose dC has been loaded.
  template <class Block>
  ORRERY_KERNEL_BODY void row_values(Block& b, std::uint64_t i0, std::uint64_t sequence, std::uint64_t head,
                                     const T* dc, T* dots, T* lses) const {
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
  ORRERY_KERNEL_BODY void scores(Block& b, std::uint64_t i0, std::uint64_t j0, std::uint64_t sequence,
                                 std::uint64_t head, const T* q, const T* k, const T* v, const T* dc, const T* dots,
                                 const T* lses, T* p, T* ds) const {
    const T slope = rule.slope(head);
    for (std::uint64_t e = b.thread(); e < s.tile * s.tile; e += b.threads()) {
      const std::uint64_t i = e / s.tile;
      const std::uint64_t j = e % s.tile;
      T probability{0};
      T gradient{0};
      if (s.sees(i0 + i, j0 + j)) {
        const T capped = rule.capped(dot(q + i * s.dim, k + j * s.dim, s.dim));
        const T whole = std::exp(capped + rule.fall(slope, i0 + i, j0 + j) - lses[i]);
        const T kept = dropout.keeps(sequence, head, i0 + i, j0 + j) ? inverse : T{0};
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
    return s.tile * (3 * s.dim + 2 * s.value + 2 * s.tile + 2);
  }
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const FlashShape& s = g.s;
    const std::uint64_t tiles = s.tiles();
    const std::uint64_t i0 = number % tiles * s.tile;
    const std::uint64_t head = number / tiles % s.heads;
    const std::uint64_t sequence = number / tiles / s.heads;
    T* q = b.template shared<T>();
    T* k = q + s.tile * s.dim;
    T* dq = k + s.tile * s.dim;
    T* v = dq + s.tile * s.dim;
    T* dc = v + s.tile * s.value;
    T* p = dc + s.tile * s.value;
    T* ds = p + s.tile * s.tile;
    T* dots = ds + s.tile * s.tile;
    T* lses = dots + s.tile;
    take_tile<T>(b, s, g.qkv, i0, s.qkv_width, sequence, s.query_column(head), s.dim, g.scale, q);
    take_tile<T>(b, s, g.dcontext, i0, s.context_width, sequence, head * s.value, s.value, T{1}, dc);
    for (std::uint64_t i = b.thread(); i < s.tile * s.dim; i += b.threads()) dq[i] = T{0};
    b.sync();
    g.row_values(b, i0, sequence, head, dc, dots, lses);
    for (std::uint64_t j0 = 0; j0 < s.length; j0 += s.tile) {
      if (!s.tiles_meet(i0, j0)) continue;
      b.sync();
      const std::uint64_t column = s.key_column(head / s.group);
      take_tile<T>(b, s, g.qkv, j0, s.qkv_width, sequence, column, s.dim, T{1}, k);
      take_tile<T>(b, s, g.qkv, j0, s.qkv_width, sequence, column + s.dim, s.value, T{1}, v);
      b.sync();
      g.scores(b, i0, j0, sequence, head, q, k, v, dc, dots, lses, p, ds);
      b.sync();
      for (std::uint64_t e = b.thread(); e < s.tile * s.dim; e += b.threads()) {
        T sum{0};
        for (std::uint64_t j = 0; j < s.tile; ++j) sum += ds[e / s.dim * s.tile + j] * k[j * s.dim + e % s.dim];
        dq[e] += sum;
      }
    }
    // Each thread reads only what it has written itself.
    for (std::uint64_t e = b.thread(); e < s.tile * s.dim; e += b.threads()) {
      const std::uint64_t position = i0 + e / s.dim;
      if (position >= s.length) continue;
      g.accumulator.store(((sequence * s.heads + head) * s.length + position) * s.dim + e % s.dim, dq[e]);
      g.dqkv.store(s.qkv_row(position, sequence) + s.query_column(head) + e % s.dim, dq[e] * g.scale);
    }
  }
};

/// Makes dk and dv, summed over the heads that share them, with a block for each (sequence, key head, tile of keys).
template <class T>
struct FlashBackwardKeys {
  FlashGradients<T> g;

  [[nodiscard]] static std::uint64_t shared_elements(const FlashShape& s) {
    return s.tile * (3 * s.dim + 3 * s.value + 2 * s.tile + 2);
  }
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t number) const {
    const FlashShape& s = g.s;
    const std::uint64_t tiles = s.tiles();
    const std::uint64_t j0 = number % tiles * s.tile;
    const std::uint64_t kv_head = number / tiles % s.kv_heads;
    const std::uint64_t sequence = number / tiles / s.kv_heads;
    T* q = b.template shared<T>();
    T* k = q + s.tile * s.dim;
    T* dk = k + s.tile * s.dim;
    T* v = dk + s.tile * s.dim;
    T* dv = v + s.tile * s.value;
    T* dc = dv + s.tile * s.value;
    T* p = dc + s.tile * s.value;
    T* ds = p + s.tile * s.tile;
    T* dots = ds + s.tile * s.tile;
    T* lses = dots + s.tile;
    const std::uint64_t column = s.key_column(kv_head);
    take_tile<T>(b, s, g.qkv, j0, s.qkv_width, sequence, column, s.dim, T{1}, k);
    take_tile<T>(b, s, g.qkv, j0, s.qkv_width, sequence, column + s.dim, s.value, T{1}, v);
    for (std::uint64_t i = b.thread(); i < s.tile * s.dim; i += b.threads()) dk[i] = T{0};
    for (std::uint64_t i = b.thread(); i < s.tile * s.value; i += b.threads()) dv[i] = T{0};
    for (std::uint64_t member = 0; member < s.group; ++member) {
      const std::uint64_t head = kv_head * s.group + member;
      for (std::uint64_t i0 = 0; i0 < s.length; i0 += s.tile) {
        if (!s.tiles_meet(i0, j0)) continue;
        b.sync();
        take_tile<T>(b, s, g.qkv, i0, s.qkv_width, sequence, s.query_column(head), s.dim, g.scale, q);
        take_tile<T>(b, s, g.dcontext, i0, s.context_width, sequence, head * s.value, s.value, T{1}, dc);
        b.sync();
        g.row_values(b, i0, sequence, head, dc, dots, lses);
        b.sync();
        g.scores(b, i0, j0, sequence, head, q, k, v, dc, dots, lses, p, ds);
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
      const std::uint64_t position = j0 + e / s.dim;
      if (position < s.length) g.dqkv.store(s.qkv_row(position, sequence) + column + e % s.dim, dk[e]);
    }
    for (std::uint64_t e = b.thread(); e < s.tile * s.value; e += b.threads()) {
      const std::uint64_t position = j0 + e / s.value;
      if (position < s.length) g.dqkv.store(s.qkv_row(position, sequence) + column + s.dim + e % s.value, dv[e]);
    }
  }
};

/// The largest tile of 32, 16, 8, ... rows that a block's shared memory holds.
template <class T, class Body, class Launcher>
FlashShape flash_shape(Launcher& l, const Kernel& k) {
  std::uint64_t tile = 32;
  while (tile > 1 && Body::shared_elements(FlashShape(k, tile)) * sizeof(T) > l.shared_limit()) tile /= 2;
  return {k, tile};
}

template <class T, class Launcher>
bool run_flash_attention(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  if (k.kind != KernelKind::attention_flash_forward && k.kind != KernelKind::attention_flash_backward) return false;
  if (run_tensor_flash(l, k, o, c)) return true;
  const bool forward = k.kind == KernelKind::attention_flash_forward;
  const cpu::Heads heads(k);
  const ProbabilityMask dropout = probability_mask(k, c, o[N::qkv].place);
  const cpu::ScoreRule<T> rule(k, o[N::qkv].place, heads);
  const auto scale = static_cast<T>(heads.scale);
  const T inverse = kept_factor<T>(k);
  const auto blocks = [](const FlashShape& s, std::uint64_t of_heads) { return s.batch * of_heads * s.tiles(); };
  if (forward) {
    const FlashShape s = flash_shape<T, FlashForward<T>>(l, k);
    const FlashForward<T> f{s,
                            Elements(o[N::qkv]),
                            Elements(o[N::context]),
                            Elements(o[N::lse]),
                            elements_if(o, N::sinks),
                            dropout,
                            rule,
                            scale,
                            inverse};
    for_each_row(l, blocks(s, s.heads), f, usual_threads, f.shared_elements(s) * sizeof(T));
    return true;
  }
  FlashGradients<T> g{flash_shape<T, FlashBackwardQueries<T>>(l, k),
                      Elements(o[N::dcontext]),
                      Elements(o[N::qkv]),
                      Elements(o[N::context]),
                      Elements(o[N::lse]),
                      Elements(o[N::dqkv]),
                      Elements(o[N::dq_accumulator]),
                      dropout,
                      rule,
                      scale,
                      inverse};
  for_each_row(l, blocks(g.s, g.s.heads), FlashBackwardQueries<T>{g}, usual_threads,
               FlashBackwardQueries<T>::shared_elements(g.s) * sizeof(T));
  g.s = flash_shape<T, FlashBackwardKeys<T>>(l, k);
  for_each_row(l, blocks(g.s, g.s.kv_heads), FlashBackwardKeys<T>{g}, usual_threads,
               FlashBackwardKeys<T>::shared_elements(g.s) * sizeof(T));
  return true;
}

}  // namespace orrery::device
