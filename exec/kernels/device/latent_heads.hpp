#pragma once

#include "exec/kernels/device/embedding.hpp"

/// Heads of multi-head latent attention (DeepSeek-V2, 2024, section 2.1): a query's and a key's last features rotate,
/// and all heads share the key's.
namespace orrery::device {

struct LatentShape {
  std::uint64_t batch, heads, key, value, rope;

  explicit LatentShape(const Kernel& k)
      : batch(k.batch),
        heads(k.heads),
        key(k.head_dim),
        value(k.value_dim > 0 ? k.value_dim : k.head_dim),
        rope(k.columns) {}
  /// Features of a head that do not rotate.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t still() const { return key - rope; }
  /// Features that a head has in qkv: its query, key and value.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t width() const { return 2 * key + value; }
  /// Features that the latent vector gives to a head: those of its key that do not rotate, and its value.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t pair() const { return still() + value; }
};

/// Feature f of x(0 .. 2 half) turned by the angles of a row's position.
template <class T>
struct Turn {
  const T* table;
  std::uint64_t batch, half;
  template <class Load>
  [[nodiscard]] ORRERY_ON_DEVICE T operator()(std::uint64_t row, std::uint64_t f, Load x) const {
    const std::uint64_t i = f < half ? f : f - half;
    const T* pair = table + (row / batch * half + i) * 2;
    const T a = x(i), b = x(i + half);
    return f < half ? a * pair[0] - b * pair[1] : a * pair[1] + b * pair[0];
  }
};

/// i counts (row, head, feature of qkv).
template <class T>
struct LatentForward {
  LatentShape s;
  Turn<T> turn;
  Elements queries, pairs, key, qkv;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t head = i / s.width(), f = i % s.width();  // head: of all rows
    const std::uint64_t row = head / s.heads;
    const auto query = [&](std::uint64_t j) { return queries.load<T>(head * s.key + j); };
    const auto pair = [&](std::uint64_t j) { return pairs.load<T>(head * s.pair() + j); };
    T v;
    if (f < s.still()) {
      v = query(f);
    } else if (f < s.key) {
      v = turn(row, f - s.still(), [&](std::uint64_t j) { return query(s.still() + j); });
    } else if (f < s.key + s.still()) {
      v = pair(f - s.key);
    } else if (f < 2 * s.key) {
      v = turn(row, f - s.key - s.still(), [&](std::uint64_t j) { return key.load<T>(row * s.rope + j); });
    } else {
      v = pair(s.still() + f - 2 * s.key);
    }
    qkv.store(i, v);
  }
};

/// Gradients of the queries; i counts (row, head, feature).
template <class T>
struct LatentQueries {
  LatentShape s;
  Turn<T> back;
  Elements dqkv, dqueries;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t head = i / s.key, f = i % s.key;
    const auto query = [&](std::uint64_t j) { return dqkv.load<T>(head * s.width() + j); };
    dqueries.store(i, f < s.still() ? query(f) : back(head / s.heads, f - s.still(), [&](std::uint64_t j) {
                     return query(s.still() + j);
                   }));
  }
};

/// Gradients of keys that do not rotate, and of values; i counts (row, head, feature).
template <class T>
struct LatentPairs {
  LatentShape s;
  Elements dqkv, dpairs;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t head = i / s.pair(), f = i % s.pair();
    const std::uint64_t from = f < s.still() ? s.key + f : 2 * s.key + f - s.still();
    dpairs.store(i, dqkv.load<T>(head * s.width() + from));
  }
};

/// The gradient of the key that all heads share; i counts (row, feature).
template <class T>
struct LatentKey {
  LatentShape s;
  Turn<T> back;
  Elements dqkv, dkey;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t row = i / s.rope;
    dkey.store(i, back(row, i % s.rope, [&](std::uint64_t j) {
                 T sum{0};
                 for (std::uint64_t h = 0; h < s.heads; ++h) {
                   sum += dqkv.load<T>((row * s.heads + h) * s.width() + s.key + s.still() + j);
                 }
                 return sum;
               }));
  }
};

template <class T, class Launcher>
bool run_latent_heads(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const bool forward = k.kind == KernelKind::latent_heads_forward;
  if (!forward && k.kind != KernelKind::latent_heads_backward) return false;
  const LatentShape s(k);
  const Operand& qkv = o[forward ? N::qkv : N::dqkv];
  const Rotation by = rotation_of(k, c, s.rope);
  const Turn<T> turn{rope_table<T>(l, by, qkv.place, k.rows / k.batch, !forward), s.batch, by.frequencies.size()};
  const std::uint64_t heads = k.rows * s.heads;
  if (forward) {
    for_each(
        l, heads * s.width(),
        LatentForward<T>{s, turn, Elements(o[N::queries]), Elements(o[N::pairs]), Elements(o[N::key]), Elements(qkv)});
    return true;
  }
  for_each(l, heads * s.key, LatentQueries<T>{s, turn, Elements(qkv), Elements(o[N::dqueries])});
  for_each(l, heads * s.pair(), LatentPairs<T>{s, Elements(qkv), Elements(o[N::dpairs])});
  for_each(l, k.rows * s.rope, LatentKey<T>{s, turn, Elements(qkv), Elements(o[N::dkey])});
  return true;
}

}  // namespace orrery::device
