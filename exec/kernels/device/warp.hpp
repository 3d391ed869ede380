#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"
#include "exec/kernels/device/on_device.hpp"

/// What a body on tensor cores asks of its Block, besides what launcher.hpp says. The lanes of a warp act together, so
/// the body says what each lane holds, and the Block does it: on a GPU a lane has its own, on the host one thread has
/// all 32, and computes what PTX says that the instruction does.
///     warp(), warps()       which warp of how many
///     PerLane<X>            a value of each lane, x[lane]
///     each_lane(f)          f(lane) for every lane
///     copy<bytes>(f)        f(lane) is a Copy to shared memory: begun, and done at await_copies()
///     read_matrices<turned>(x, f)   ldmatrix: four matrices of 8 x 8; lane l gives row l % 8 of matrix l / 8
///     multiply_add<type>(c, tile, a, b, first)   mma.m16n8k16: c[tile] += a b, b from register `first` on
///     over_quad(x, combine) over the four lanes that share a row, for each of them
///     put_pair(f)           f(lane) is a Pair of elements that goes to shared memory
///     put_chunk(f)          f(lane) is a Copy of 16 bytes from shared memory
///     sync_lanes()          the lanes see what the others have put
/// A Launcher starts such a body with launch_warps(body, blocks, warps, shared_bytes).
#if defined(__CUDA_ARCH__)
#define ORRERY_UNROLL _Pragma("unroll")
#define ORRERY_UNROLL_4 _Pragma("unroll 4")
#else
#define ORRERY_UNROLL
#define ORRERY_UNROLL_4
#endif

namespace orrery::device {

inline constexpr std::uint32_t lanes_of_warp = 32;

/// A lane's part of 16-bit matrices, two elements in each register: of one of 16 x 16, or of two of 16 x 8. Source of
/// this and of Sums: NVIDIA, "PTX ISA", "Matrix fragments for mma.m16n8k16" and "ldmatrix".
///     left, 16 x 16     x[i]     row lane / 4 + 8 (i % 2),  columns 2 (lane % 4) + 8 (i / 2) and the next
///     right, 16 x 8     x[i]     rows 2 (lane % 4) + 8 i and the next,  column lane / 4
struct Quad {
  std::uint32_t x[4];
};

/// A lane's part of a matrix of 16 rows and 8 n columns in f32: x[tile][i] is at row_of(lane, i / 2) and
/// column_of(lane, tile, i).
template <int n>
struct Sums {
  float x[n][4];
  ORRERY_ON_DEVICE void clear() {
    ORRERY_UNROLL for (int tile = 0; tile < n; ++tile) { ORRERY_UNROLL for (int i = 0; i < 4; ++i) x[tile][i] = 0.0F; }
  }
};
[[nodiscard]] ORRERY_ON_DEVICE constexpr std::uint32_t row_of(std::uint32_t lane, int half) {
  return lane / 4 + 8 * static_cast<std::uint32_t>(half);
}
[[nodiscard]] ORRERY_ON_DEVICE constexpr std::uint32_t column_of(std::uint32_t lane, int tile, int i) {
  return 8 * static_cast<std::uint32_t>(tile) + 2 * (lane % 4) + static_cast<std::uint32_t>(i % 2);
}

/// A number for each of a lane's two rows.
struct RowPair {
  float x[2];
};

struct Copy {
  const void* from;
  void* to;
  bool there = true;  ///< else zeros go to shared memory, and nothing to the device's
};

struct Pair {
  float low, high;
  std::uint16_t* to;
};

}  // namespace orrery::device
