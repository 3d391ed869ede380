#pragma once

// Eigen compiled with this folder's architecture flags must not meet Eigen compiled without them. Its inline functions
// would be one symbol with two bodies, and the linker would keep either. So the library lives in a namespace of its own
// here. Threads of one rank do not split a product, so results do not depend on a number of threads.
#define EIGEN_DONT_PARALLELIZE
#define Eigen EigenForKernels
#include <Eigen/Core>
#include <algorithm>
#include <cstdint>

namespace orrery::cpu {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using MatrixMap = Eigen::Map<Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class T>
using ConstMatrixMap = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// Row-major rows x columns at `data`, `stride` elements between rows.
template <class T>
[[nodiscard]] MatrixMap<T> matrix(T* data, std::uint64_t rows, std::uint64_t columns, std::uint64_t stride) {
  return {data, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns),
          Eigen::OuterStride<>(static_cast<Eigen::Index>(stride))};
}
template <class T>
[[nodiscard]] ConstMatrixMap<T> matrix(const T* data, std::uint64_t rows, std::uint64_t columns, std::uint64_t stride) {
  return {data, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(columns),
          Eigen::OuterStride<>(static_cast<Eigen::Index>(stride))};
}

/// x[i] = exp(x[i]), vectorised. Elements beside whole vectors are computed one by one and may round differently.
/// Pieces are aligned, so which elements these are depends only on `count` and not on where x lies in memory.
template <class T>
void exponentials(T* x, std::uint64_t count) {
  constexpr std::uint64_t size = 256;
  alignas(64) T piece[size];
  for (std::uint64_t first = 0; first < count; first += size) {
    const std::uint64_t n = std::min(size, count - first);
    std::copy_n(x + first, n, piece);
    Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>, Eigen::Aligned64> v(piece, static_cast<Eigen::Index>(n));
    v = v.exp();
    std::copy_n(piece, n, x + first);
  }
}

}  // namespace orrery::cpu
