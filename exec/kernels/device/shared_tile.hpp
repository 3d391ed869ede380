#pragma once

#include "exec/kernels/device/warp.hpp"

/// Tiles of 16-bit matrices in shared memory, and products of them on tensor cores.
namespace orrery::device {

/// Rows of `width` elements in chunks of 8, which are 16 bytes. A row's chunks change places by a rule of the row, so
/// that the 8 rows of one column of chunks lie in 8 different groups of four banks, as do 8 chunks that follow each
/// other.
template <int width>
struct SharedTile {
  static_assert(width % 32 == 0, "a rule is known for multiples of 32 elements");
  static constexpr std::uint32_t chunks = width / 8;
  std::uint16_t* data;
  [[nodiscard]] ORRERY_ON_DEVICE std::uint16_t* at(std::uint32_t row, std::uint32_t chunk) const {
    const std::uint32_t turn = width % 64 == 0 ? row % 8 : row / 2 % 4;
    return data + row * width + (chunk ^ turn) * 8;
  }
};

/// Rows of a matrix in the device's memory, of which so many rows and columns are there.
template <class Element>
struct Rows {
  Element* first;
  std::uint64_t step;  ///< elements from row to row
  std::uint32_t rows, columns;
};

/// Begins to copy a tile of so many rows, zero where the matrix has no element.
template <int rows, int width, class Block>
ORRERY_KERNEL_BODY void bring_tile(Block& b, SharedTile<width> to, const Rows<const std::uint16_t>& x) {
  constexpr std::uint32_t chunks = SharedTile<width>::chunks;
  static_assert(rows * chunks % lanes_of_warp == 0, "every lane has a chunk");
  for (std::uint32_t first = lanes_of_warp * b.warp(); first < rows * chunks; first += lanes_of_warp * b.warps()) {
    b.template copy<16>([&](std::uint32_t lane) {
      const std::uint32_t row = (first + lane) / chunks, chunk = (first + lane) % chunks;
      const bool there = row < x.rows && chunk * 8 < x.columns;
      return Copy{there ? x.first + row * x.step + chunk * 8 : x.first, to.at(row, chunk), there};
    });
  }
}

/// sums[16, columns] += left[rows from r0 on, width] right[columns, width]^T.
template <DType type, int columns, int width, class Block>
ORRERY_KERNEL_BODY void add_products(Block& b, typename Block::template PerLane<Sums<columns / 8>>& sums,
                                     SharedTile<width> left, std::uint32_t r0, SharedTile<width> right) {
  // All steps at once would want more registers than there are where tiles are wide.
  ORRERY_UNROLL_4 for (int step = 0; step < width / 16; ++step) {
    typename Block::template PerLane<Quad> a, k;
    b.template read_matrices<false>(a,
                                    [&](std::uint32_t lane) { return left.at(r0 + lane % 16, 2 * step + lane / 16); });
    ORRERY_UNROLL for (int n = 0; n < columns / 16; ++n) {
      b.template read_matrices<false>(
          k, [&](std::uint32_t lane) { return right.at(16 * n + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2); });
      b.template multiply_add<type>(sums, 2 * n, a, k, 0);
      b.template multiply_add<type>(sums, 2 * n + 1, a, k, 2);
    }
  }
}

/// sums[16, width] += weights[16, rows], rounded to the type, times right[rows, width].
template <DType type, int rows, int width, class Block>
ORRERY_KERNEL_BODY void add_weighted(Block& b, typename Block::template PerLane<Sums<width / 8>>& sums,
                                     const typename Block::template PerLane<Sums<rows / 8>>& weights,
                                     SharedTile<width> right) {
  ORRERY_UNROLL for (int step = 0; step < rows / 16; ++step) {
    typename Block::template PerLane<Quad> a, v;
    // What a lane has of sums is what it must have of a left factor.
    b.each_lane([&](std::uint32_t lane) {
      ORRERY_UNROLL for (int i = 0; i < 4; ++i) {
        const float* pair = weights[lane].x[2 * step + i / 2] + 2 * (i % 2);
        a[lane].x[i] = Block::template packed<type>(pair[0], pair[1]);
      }
    });
    ORRERY_UNROLL for (int n = 0; n < width / 16; ++n) {
      b.template read_matrices<true>(
          v, [&](std::uint32_t lane) { return right.at(16 * step + lane % 16, 2 * n + lane / 16); });
      b.template multiply_add<type>(sums, 2 * n, a, v, 0);
      b.template multiply_add<type>(sums, 2 * n + 1, a, v, 2);
    }
  }
}

/// Writes a warp's 16 rows from r0 on, times factor(lane, half), by way of the warp's own rows of a tile.
template <DType type, int width, class Block, class Factor>
ORRERY_KERNEL_BODY void put_rows(Block& b, const typename Block::template PerLane<Sums<width / 8>>& sums, Factor factor,
                                 SharedTile<width> by, std::uint32_t r0, const Rows<std::uint16_t>& to) {
  constexpr std::uint32_t chunks = SharedTile<width>::chunks;
  b.sync_lanes();
  ORRERY_UNROLL for (int tile = 0; tile < width / 8; ++tile) {
    ORRERY_UNROLL for (int half = 0; half < 2; ++half) {
      b.template put_pair<type>([&](std::uint32_t lane) {
        const float* pair = sums[lane].x[tile] + 2 * half;
        const float times = factor(lane, half);
        return Pair{pair[0] * times, pair[1] * times, by.at(r0 + row_of(lane, half), tile) + 2 * (lane % 4)};
      });
    }
  }
  b.sync_lanes();
  for (std::uint32_t first = 0; first < 16 * chunks; first += lanes_of_warp) {
    b.put_chunk([&](std::uint32_t lane) {
      const std::uint32_t row = r0 + (first + lane) / chunks, chunk = (first + lane) % chunks;
      return Copy{by.at(row, chunk), to.first + row * to.step + chunk * 8, row < to.rows && chunk * 8 < to.columns};
    });
  }
}

/// Calls use(n, place) for n < count, where bring(n, place) has copied to one of two places; the next is brought
/// meanwhile where `places` is 2.
template <class Block, class Bring, class Use>
ORRERY_KERNEL_BODY void stream_tiles(Block& b, std::uint32_t count, std::uint32_t places, Bring bring, Use use) {
  if (count > 0) bring(0U, 0U);
  for (std::uint32_t n = 0; n < count; ++n) {
    b.await_copies();
    b.sync();  // all have copied, and the other place has been used
    if (places > 1 && n + 1 < count) bring(n + 1, (n + 1) % 2);
    use(n, places > 1 ? n % 2 : 0U);
    if (places > 1 || n + 1 == count) continue;
    b.sync();
    bring(n + 1, 0U);
  }
}

}  // namespace orrery::device
