#pragma once

#include "exec/kernels/device/expert_tiles.hpp"
#include "exec/kernels/device/shared_tile.hpp"

/// Products of experts in 16 bits on tensor cores, with sums in f32.
namespace orrery::device {

/// Begins to copy so many rows that a list names, zero where the list or the matrix ends.
template <int rows, int width, class Block>
ORRERY_KERNEL_BODY void bring_listed(Block& b, SharedTile<width> to, const std::uint16_t* matrix, std::uint64_t step,
                                     const std::uint32_t* list, std::uint32_t count, std::uint64_t columns) {
  constexpr std::uint32_t chunks = SharedTile<width>::chunks;
  static_assert(rows * chunks % lanes_of_warp == 0, "every lane has a chunk");
  for (std::uint32_t first = lanes_of_warp * b.warp(); first < rows * chunks; first += lanes_of_warp * b.warps()) {
    b.template copy<16>([&](std::uint32_t lane) {
      const std::uint32_t row = (first + lane) / chunks, chunk = (first + lane) % chunks;
      const bool there = row < count && chunk * 8 < columns;
      return Copy{there ? matrix + list[row] * step + chunk * 8 : matrix, to.at(row, chunk), there};
    });
  }
}

/// Four warps make 64 x 128 results: a warp has 16 rows.
struct TensorTile {
  static constexpr std::uint32_t width = 128, warps = 4, step = 64;
  static constexpr std::uint32_t left = ExpertLists::tile * step, place = left + step * width;  ///< elements
  static constexpr std::uint64_t shared_bytes = 2 * place * sizeof(std::uint16_t);
  using Results = Sums<width / 8>;

  /// Whether rows of the factors, and with them all chunks, begin at multiples of 16 bytes.
  template <class T>
  [[nodiscard]] static bool takes(const ExpertFactors<T>& of) {
    const auto at = [](const Elements& x) { return reinterpret_cast<std::uintptr_t>(x.data); };
    const bool narrow = of.a.dtype == DType::bf16 || of.a.dtype == DType::f16;
    return narrow && of.a.dtype == of.b.dtype && (at(of.a) | at(of.b)) % 16 == 0;
  }
  [[nodiscard]] static ORRERY_ON_DEVICE std::uint32_t some(std::uint64_t n, std::uint32_t most) {
    return n < most ? static_cast<std::uint32_t>(n) : most;
  }
  template <class Block>
  static ORRERY_KERNEL_BODY void clear(Block& b, typename Block::template PerLane<Results>& sums) {
    b.each_lane([&](std::uint32_t lane) { sums[lane].clear(); });
  }
  template <class Block, class Tiles>
  static ORRERY_KERNEL_BODY void put(Block& b, const typename Block::template PerLane<Results>& sums,
                                     const Tiles& tiles, const ExpertTile& t) {
    b.each_lane([&](std::uint32_t lane) {
      ORRERY_UNROLL for (int n = 0; n < static_cast<int>(width) / 8; ++n) {
        ORRERY_UNROLL for (int i = 0; i < 4; ++i) {
          tiles.put(t, 16 * b.warp() + row_of(lane, i / 2), column_of(lane, n, i), sums[lane].x[n][i]);
        }
      }
    });
  }
  /// sums += the warp's 16 rows, which fragment(a, step) reads, times right[64, width].
  template <DType type, class Block, class Fragment>
  static ORRERY_KERNEL_BODY void add(Block& b, typename Block::template PerLane<Results>& sums, Fragment fragment,
                                     SharedTile<width> right) {
    ORRERY_UNROLL_4 for (std::uint32_t s = 0; s < step / 16; ++s) {
      typename Block::template PerLane<Quad> a, k;
      fragment(a, s);
      ORRERY_UNROLL for (int n = 0; n < static_cast<int>(width) / 16; ++n) {
        b.template read_matrices<true>(
            k, [&](std::uint32_t lane) { return right.at(16 * s + lane % 16, 2 * n + lane / 16); });
        b.template multiply_add<type>(sums, 2 * n, a, k, 0);
        b.template multiply_add<type>(sums, 2 * n + 1, a, k, 2);
      }
    }
  }
};

/// A block's tile of rows. B is [depth, columns], or `transposed` [columns, depth].
template <DType type, bool transposed>
struct TensorRowsTile : TensorTile {
  template <class Block, class Tiles>
  ORRERY_KERNEL_BODY void operator()(Block& b, const Tiles& tiles, const ExpertTile& t) const {
    if (t.count == 0) return;  // all threads alike
    const auto& of = tiles.of;
    const auto* a = static_cast<const std::uint16_t*>(of.a.data);
    const auto* weight = static_cast<const std::uint16_t*>(of.b.data) + t.expert * of.depth * of.columns;
    auto* shared = b.template shared<std::uint16_t>();
    typename Block::template PerLane<Results> sums;
    clear(b, sums);
    stream_tiles(
        b, static_cast<std::uint32_t>((of.depth + step - 1) / step), 2,
        [&](std::uint32_t n, std::uint32_t at) {
          const std::uint64_t first = std::uint64_t{n} * step, left_over = of.depth - first;
          std::uint16_t* to = shared + at * place;
          bring_listed<64, 64>(b, SharedTile<64>{to}, a + first, of.depth, t.list, t.count, left_over);
          const std::uint64_t across = of.columns - t.column;
          if constexpr (transposed) {
            bring_tile<width, step>(
                b, SharedTile<step>{to + left},
                {weight + t.column * of.depth + first, of.depth, some(across, width), some(left_over, step)});
          } else {
            bring_tile<step, width>(
                b, SharedTile<width>{to + left},
                {weight + first * of.columns + t.column, of.columns, some(left_over, step), some(across, width)});
          }
        },
        [&](std::uint32_t, std::uint32_t at) {
          std::uint16_t* from = shared + at * place;
          const SharedTile<64> rows{from};
          if constexpr (transposed) {
            add_products<type, width, step>(b, sums, rows, 16 * b.warp(), SharedTile<step>{from + left});
          } else {
            const auto fragment = [&](auto& x, std::uint32_t s) {
              b.template read_matrices<false>(
                  x, [&](std::uint32_t lane) { return rows.at(16 * b.warp() + lane % 16, 2 * s + lane / 16); });
            };
            add<type>(b, sums, fragment, SharedTile<width>{from + left});
          }
        });
    put(b, sums, tiles, t);
  }
};

/// A block's tile of a weight's gradient.
template <DType type>
struct TensorWeightTile : TensorTile {
  template <class Block, class Tiles>
  ORRERY_KERNEL_BODY void operator()(Block& b, const Tiles& tiles, const ExpertTile& t) const {
    const auto& of = tiles.of;
    const auto* a = static_cast<const std::uint16_t*>(of.a.data) + t.row;
    const auto* k = static_cast<const std::uint16_t*>(of.b.data) + t.column;
    auto* shared = b.template shared<std::uint16_t>();
    typename Block::template PerLane<Results> sums;
    clear(b, sums);
    stream_tiles(
        b, (t.count + step - 1) / step, 2,
        [&](std::uint32_t n, std::uint32_t at) {
          const std::uint32_t first = n * step, count = some(t.count - first, step);
          std::uint16_t* to = shared + at * place;
          bring_listed<64, 64>(b, SharedTile<64>{to}, a, of.rows, t.list + first, count, of.rows - t.row);
          bring_listed<step, width>(b, SharedTile<width>{to + left}, k, of.columns, t.list + first, count,
                                    of.columns - t.column);
        },
        [&](std::uint32_t, std::uint32_t at) {
          std::uint16_t* from = shared + at * place;
          const SharedTile<64> rows{from};  // of the list; columns are rows of C
          const auto fragment = [&](auto& x, std::uint32_t s) {
            b.template read_matrices<true>(x, [&](std::uint32_t lane) {
              return rows.at(16 * s + lane / 16 * 8 + lane % 8, 2 * b.warp() + lane / 8 % 2);
            });
          };
          add<type>(b, sums, fragment, SharedTile<width>{from + left});
        });
    put(b, sums, tiles, t);
  }
};

}  // namespace orrery::device
