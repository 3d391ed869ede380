#include <algorithm>

#include "exec/kernels/cpu/heads.hpp"
#include "exec/kernels/cpu/kernels.hpp"

namespace orrery::cpu {

// Rotates features (i, i + head_dim/2) of queries and keys; backward by the
// opposite angle.  Source: Su et al., "RoFormer", 2021.
template <class T>
void rope(const Kernel& k, Operands o, bool backward, KernelScratch& scratch) {
  const Heads shape(k);
  const std::uint64_t half = shape.dim / 2;
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < shape.length; ++i) last = std::max(last, position_at(o[0].place, i));
  const double* rotations = scratch.rotations(k.parameter, k.head_dim, last + 1);
  T* angles = scratch.get<T>(0, 2 * half);
  T* cosine = angles;
  T* sine = angles + half;
  T* buffer = scratch.get<T>(1, shape.dim);
  for (std::uint64_t position = 0; position < shape.length; ++position) {
    for (std::uint64_t i = 0; i < half; ++i) {
      const double* pair = rotations + (position_at(o[0].place, position) * half + i) * 2;
      cosine[i] = static_cast<T>(pair[0]);
      sine[i] = static_cast<T>(backward ? -pair[1] : pair[1]);
    }
    for (std::uint64_t sequence = 0; sequence < shape.batch; ++sequence) {
      const std::uint64_t row = (position * shape.batch + sequence) * shape.qkv_width();
      for (std::uint64_t g = 0; g < shape.kv_heads; ++g) {
        // Rotates the group's queries, then its key; the value stays.
        for (std::uint64_t member = 0; member <= shape.group; ++member) {
          const std::uint64_t at = row + (g * (shape.group + 2) + member) * shape.dim;
          T* x = update(o[0], at, shape.dim, buffer);
#pragma GCC ivdep
          for (std::uint64_t i = 0; i < half; ++i) {
            const T a = x[i];
            const T b = x[i + half];
            x[i] = a * cosine[i] - b * sine[i];
            x[i + half] = a * sine[i] + b * cosine[i];
          }
          finish(o[0], at, shape.dim, x);
        }
      }
    }
  }
}

template void rope<float>(const Kernel&, Operands, bool, KernelScratch&);
template void rope<double>(const Kernel&, Operands, bool, KernelScratch&);

}  // namespace orrery::cpu
