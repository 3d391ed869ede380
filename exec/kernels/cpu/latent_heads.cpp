#include <algorithm>

#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/rotations.hpp"

// Heads of multi-head latent attention (DeepSeek-V2, 2024, section 2.1): a
// query's and a key's last features rotate, and all heads share the key's.
namespace orrery::cpu {
namespace {

struct Shape {
  explicit Shape(const Kernel& k)
      : heads(k.heads),
        key(k.head_dim),
        value(k.value_dim > 0 ? k.value_dim : k.head_dim),
        rope(k.columns),
        still(key - rope),
        half(rope / 2) {}
  std::uint64_t heads, key, value, rope, still, half;
  [[nodiscard]] std::uint64_t width() const { return 2 * key + value; }  ///< of a head in qkv
  [[nodiscard]] std::uint64_t pair() const { return still + value; }
};

/// x rotated by the angles of one position, or back.
template <class T>
void turn(const double* rotation, std::uint64_t half, bool back, const T* x, T* y) {
  for (std::uint64_t i = 0; i < half; ++i) {
    const T cosine = static_cast<T>(rotation[2 * i]);
    const T sine = static_cast<T>(back ? -rotation[2 * i + 1] : rotation[2 * i + 1]);
    const T a = x[i];
    const T b = x[i + half];
    y[i] = a * cosine - b * sine;
    y[i + half] = a * sine + b * cosine;
  }
}

const double* rotations(const Kernel& k, const Place& place, const KernelContext& context) {
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < k.rows / k.batch; ++i) last = std::max(last, position_at(place, i));
  return context.scratch->rotations(rotation_of(k, context, k.columns), last + 1);
}

template <class T>
void latent_heads_forward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Shape s(k);
  const Operand& qkv = o[N::qkv];
  const double* all = rotations(k, qkv.place, context);
  T* q_buffer = scratch.get<T>(0, s.heads * s.key);
  T* p_buffer = scratch.get<T>(1, s.heads * s.pair());
  T* r_buffer = scratch.get<T>(2, s.rope);
  T* turned = scratch.get<T>(3, s.rope);
  T* buffer = scratch.get<T>(4, s.heads * s.width());
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const double* rotation = all + position_at(qkv.place, row / k.batch) * s.rope;
    const T* q = read(o[N::queries], row * s.heads * s.key, s.heads * s.key, q_buffer);
    const T* pairs = read(o[N::pairs], row * s.heads * s.pair(), s.heads * s.pair(), p_buffer);
    turn(rotation, s.half, false, read(o[N::key], row * s.rope, s.rope, r_buffer), turned);
    T* out = target(qkv, row * s.heads * s.width(), buffer);
    for (std::uint64_t h = 0; h < s.heads; ++h) {
      T* head = out + h * s.width();
      std::copy_n(q + h * s.key, s.still, head);
      turn(rotation, s.half, false, q + h * s.key + s.still, head + s.still);
      std::copy_n(pairs + h * s.pair(), s.still, head + s.key);
      std::copy_n(turned, s.rope, head + s.key + s.still);
      std::copy_n(pairs + h * s.pair() + s.still, s.value, head + 2 * s.key);
    }
    finish(qkv, row * s.heads * s.width(), s.heads * s.width(), out);
  }
}

template <class T>
void latent_heads_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const Shape s(k);
  const double* all = rotations(k, o[N::dqkv].place, context);
  T* buffer = scratch.get<T>(0, s.heads * s.width());
  T* q_buffer = scratch.get<T>(1, s.heads * s.key);
  T* p_buffer = scratch.get<T>(2, s.heads * s.pair());
  T* r_buffer = scratch.get<T>(3, s.rope);
  T* sum = scratch.get<T>(4, s.rope);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const double* rotation = all + position_at(o[N::dqkv].place, row / k.batch) * s.rope;
    const T* in = read(o[N::dqkv], row * s.heads * s.width(), s.heads * s.width(), buffer);
    T* q = target(o[N::dqueries], row * s.heads * s.key, q_buffer);
    T* pairs = target(o[N::dpairs], row * s.heads * s.pair(), p_buffer);
    T* shared = target(o[N::dkey], row * s.rope, r_buffer);
    std::fill_n(sum, s.rope, T{0});
    for (std::uint64_t h = 0; h < s.heads; ++h) {
      const T* head = in + h * s.width();
      std::copy_n(head, s.still, q + h * s.key);
      turn(rotation, s.half, true, head + s.still, q + h * s.key + s.still);
      std::copy_n(head + s.key, s.still, pairs + h * s.pair());
      for (std::uint64_t i = 0; i < s.rope; ++i) sum[i] += head[s.key + s.still + i];
      std::copy_n(head + 2 * s.key, s.value, pairs + h * s.pair() + s.still);
    }
    turn(rotation, s.half, true, static_cast<const T*>(sum), shared);
    finish(o[N::dqueries], row * s.heads * s.key, s.heads * s.key, q);
    finish(o[N::dpairs], row * s.heads * s.pair(), s.heads * s.pair(), pairs);
    finish(o[N::dkey], row * s.rope, s.rope, shared);
  }
}

}  // namespace

std::span<const HostKernel> latent_heads_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::latent_heads_forward, latent_heads_forward<float>, latent_heads_forward<double>},
      {KernelKind::latent_heads_backward, latent_heads_backward<float>, latent_heads_backward<double>},
  };
  return list;
}

}  // namespace orrery::cpu
