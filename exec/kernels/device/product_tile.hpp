#pragma once

#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/device/warp.hpp"

namespace orrery::device {

/// A tile of 64 x 64 results, made on ordinary cores by four warps: a lane has 8 rows, 8 apart, and 4 columns, 16
/// apart.
template <class T>
struct ProductTile {
  static constexpr std::uint32_t side = 64, width = side, step = 32, warps = 4;
  static constexpr std::uint32_t left_row = step + 1, right_row = side + 1;  // without conflicts of banks
  static constexpr std::uint64_t shared_bytes = (side * left_row + step * right_row) * sizeof(T);

  struct Cells {
    T x[8][4];
  };
  [[nodiscard]] static ORRERY_ON_DEVICE std::uint32_t row(std::uint32_t warp, std::uint32_t lane, int i) {
    return 2 * warp + lane / 16 + 8 * static_cast<std::uint32_t>(i);
  }
  [[nodiscard]] static ORRERY_ON_DEVICE std::uint32_t column(std::uint32_t lane, int j) {
    return lane % 16 + 16 * static_cast<std::uint32_t>(j);
  }

  /// cells = the sum over d < depth of left(row, d) right(d, column), which give 0 beyond their matrices. Where
  /// `left_deep`, elements of one row lie beside each other, else those of one d; likewise `right_deep`: of one column.
  template <bool left_deep, bool right_deep, class Block, class Left, class Right>
  static ORRERY_KERNEL_BODY void multiply(Block& b, typename Block::template PerLane<Cells>& cells, std::uint64_t depth,
                                          Left left, Right right) {
    T* const a = b.template shared<T>();
    T* const k = a + side * left_row;
    b.each_lane([&](std::uint32_t lane) {
      ORRERY_UNROLL for (int i = 0; i < 8; ++i) {
        ORRERY_UNROLL for (int j = 0; j < 4; ++j) cells[lane].x[i][j] = T{0};
      }
    });
    for (std::uint64_t first = 0; first < depth; first += step) {
      b.sync();  // all have used what is there
      b.each_lane([&](std::uint32_t lane) {
        for (std::uint32_t n = b.warp() * lanes_of_warp + lane; n < side * step; n += b.warps() * lanes_of_warp) {
          const std::uint32_t r = left_deep ? n / step : n % side, d = left_deep ? n % step : n / side;
          a[r * left_row + d] = first + d < depth ? left(r, first + d) : T{0};
        }
        for (std::uint32_t n = b.warp() * lanes_of_warp + lane; n < side * step; n += b.warps() * lanes_of_warp) {
          const std::uint32_t c = right_deep ? n / step : n % side, d = right_deep ? n % step : n / side;
          k[d * right_row + c] = first + d < depth ? right(first + d, c) : T{0};
        }
      });
      b.sync();
      b.each_lane([&](std::uint32_t lane) {
        for (std::uint32_t d = 0; d < step; ++d) {
          T of_left[8], of_right[4];
          ORRERY_UNROLL for (int i = 0; i < 8; ++i) of_left[i] = a[row(b.warp(), lane, i) * left_row + d];
          ORRERY_UNROLL for (int j = 0; j < 4; ++j) of_right[j] = k[d * right_row + column(lane, j)];
          ORRERY_UNROLL for (int i = 0; i < 8; ++i) {
            ORRERY_UNROLL for (int j = 0; j < 4; ++j) cells[lane].x[i][j] += of_left[i] * of_right[j];
          }
        }
      });
    }
  }
  /// Calls put(row, column, value) for each result.
  template <class Block, class Put>
  static ORRERY_KERNEL_BODY void each(Block& b, const typename Block::template PerLane<Cells>& cells, Put put) {
    b.each_lane([&](std::uint32_t lane) {
      ORRERY_UNROLL for (int i = 0; i < 8; ++i) {
        ORRERY_UNROLL for (int j = 0; j < 4; ++j) put(row(b.warp(), lane, i), column(lane, j), cells[lane].x[i][j]);
      }
    });
  }
};

}  // namespace orrery::device
