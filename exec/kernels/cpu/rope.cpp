#include <algorithm>

#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/rotations.hpp"

namespace orrery::cpu {
namespace {

// Rotates the first features of queries and keys, (i, i + half) of them; backward by the opposite angle.
// Source: Su et al., "RoFormer", 2021.
template <class T>
void rope(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const bool backward = k.kind == KernelKind::rope_backward;
  const Operand& x_of = o[backward ? N::dqkv : N::qkv];
  const Heads shape(k);
  const Rotation by = rotation_of(k, context, rotating_features(k));
  const std::uint64_t half = by.frequencies.size();
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < shape.length; ++i) last = std::max(last, position_at(x_of.place, i));
  const double* rotations = scratch.rotations(by, last + 1);
  T* angles = scratch.get<T>(0, 2 * half);
  T* cosine = angles;
  T* sine = angles + half;
  T* buffer = scratch.get<T>(1, 2 * half);
  for (std::uint64_t position = 0; position < shape.length; ++position) {
    for (std::uint64_t i = 0; i < half; ++i) {
      const double* pair = rotations + (position_at(x_of.place, position) * half + i) * 2;
      cosine[i] = static_cast<T>(pair[0]);
      sine[i] = static_cast<T>(backward ? -pair[1] : pair[1]);
    }
    for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
      const std::uint64_t row = (position * shape.batch + sequence) * shape.qkv_width();
      for (std::uint64_t g = 0; g < shape.kv_heads; ++g) {
        // Rotates the group's queries, then its key; the value stays.
        for (std::uint64_t member = 0; member <= shape.group; ++member) {
          const std::uint64_t at = row + g * shape.group_width() + member * shape.dim;
          T* x = update(x_of, at, 2 * half, buffer);
#pragma GCC ivdep
          for (std::uint64_t i = 0; i < half; ++i) {
            const T a = x[i];
            const T b = x[i + half];
            x[i] = a * cosine[i] - b * sine[i];
            x[i + half] = a * sine[i] + b * cosine[i];
          }
          finish(x_of, at, 2 * half, x);
        }
      }
    }
  }
}

}  // namespace

std::span<const HostKernel> rope_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::rope_forward, rope<float>, rope<double>},
      {KernelKind::rope_backward, rope<float>, rope<double>},
  };
  return list;
}

}  // namespace orrery::cpu
