#pragma once

#include "exec/kernels/device/expert_lists.hpp"
#include "exec/kernels/device/warp.hpp"

/// Tiles of the results of an expert_gemm, which blocks find on the device.
namespace orrery::device {

/// What the products of a kernel expert_gemm have in common.
template <class T>
struct ExpertFactors {
  Elements a, b, c, bias;  ///< bias: without memory where there is none
  ExpertLists lists;
  std::uint64_t rows, columns, depth;  ///< of the kernel
  T bias_scale;
  bool add;
};

/// Results of one expert: from (row, column) on, at most 64 rows and as many columns as a tile of the body has. `list`
/// names the rows of the factors: of A where C has rows of tokens, of A and B where C is a weight's gradient.
struct ExpertTile {
  std::uint64_t expert;
  const std::uint32_t* list;
  std::uint32_t count;
  std::uint64_t row, column;
};

/// Tiles of C[row] (=, +=) A[row] op(B of the row's expert) (+ bias).
template <class T>
struct TilesOfRows {
  ExpertFactors<T> of;
  [[nodiscard]] std::uint64_t most(std::uint32_t width) const {
    return ExpertLists::most_tiles(of.rows, of.lists.experts) * ((of.columns + width - 1) / width);
  }
  /// Without rows where there is no such tile.
  [[nodiscard]] ORRERY_ON_DEVICE ExpertTile tile(std::uint64_t n, std::uint32_t width) const {
    const std::uint64_t across = (of.columns + width - 1) / width, number = n / across;
    if (number >= of.lists.tiles[of.lists.experts]) return {};
    const std::uint32_t expert = of.lists.expert_of_tile(number);
    const auto first = static_cast<std::uint32_t>(number - of.lists.tiles[expert]) * ExpertLists::tile;
    const std::uint32_t left = of.lists.count(expert) - first;
    return {expert, of.lists.rows + of.lists.begin[expert] + first, left < ExpertLists::tile ? left : ExpertLists::tile,
            0, n % across * width};
  }
  ORRERY_ON_DEVICE void put(const ExpertTile& t, std::uint32_t r, std::uint32_t c, T value) const {
    if (r >= t.count || t.column + c >= of.columns) return;
    const std::uint64_t to = t.list[r] * of.columns + t.column + c;
    if (of.add) value += of.c.template load<T>(to);
    if (of.bias.data != nullptr) {
      value += of.bias_scale * of.bias.template load<T>(t.expert * of.columns + t.column + c);
    }
    of.c.store(to, value);
  }
};

/// Tiles of C of an expert (=, +=) A^T B over its rows.
template <class T>
struct TilesOfWeights {
  ExpertFactors<T> of;
  [[nodiscard]] std::uint64_t most(std::uint32_t width) const {
    const std::uint64_t down = (of.rows + ExpertLists::tile - 1) / ExpertLists::tile;
    return of.lists.experts * down * ((of.columns + width - 1) / width);
  }
  [[nodiscard]] ORRERY_ON_DEVICE ExpertTile tile(std::uint64_t n, std::uint32_t width) const {
    const std::uint64_t across = (of.columns + width - 1) / width;
    const std::uint64_t down = (of.rows + ExpertLists::tile - 1) / ExpertLists::tile;
    const auto expert = static_cast<std::uint32_t>(n / across / down);
    return {expert, of.lists.rows + of.lists.begin[expert], of.lists.count(expert),
            n / across % down * ExpertLists::tile, n % across * width};
  }
  ORRERY_ON_DEVICE void put(const ExpertTile& t, std::uint32_t r, std::uint32_t c, T value) const {
    if (t.row + r >= of.rows || t.column + c >= of.columns) return;
    const std::uint64_t to = (t.expert * of.rows + t.row + r) * of.columns + t.column + c;
    if (of.add) value += of.c.template load<T>(to);
    of.c.store(to, value);
  }
};

/// Runs make(block, tile) for all tiles.
template <class Tiles, class Make>
struct ForEachTile {
  static constexpr std::uint32_t most_threads = Make::warps * lanes_of_warp;
  Tiles tiles;
  Make make;
  std::uint64_t most;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    for (std::uint64_t n = b.index(); n < most; n += b.blocks()) {
      make(b, tiles, tiles.tile(n, Make::width));
      b.sync();  // shared memory is used again
    }
  }
};

template <class Launcher, class Tiles, class Make>
void for_each_tile(Launcher& l, const Tiles& tiles, Make make) {
  const std::uint64_t most = tiles.most(Make::width);
  if (most == 0) return;
  l.launch_warps(ForEachTile<Tiles, Make>{tiles, make, most}, std::min(most_blocks, most), Make::warps,
                 Make::shared_bytes);
}

}  // namespace orrery::device
