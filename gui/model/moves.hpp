#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program/program.hpp"

namespace orrery::gui {

/// What one operation of a block does on a few neighbouring ranks: products, and blocks that move between ranks.
/// Read from the Program, so what is shown is what the simulator prices and the executor runs.
struct RankMove {
  enum class Motion : std::uint8_t {
    product,  ///< every rank multiplies
    attend,   ///< every rank does a part of attention
    broadcast,
    reduce,
    all_gather,
    reduce_scatter,
    all_reduce,
    all_to_all,
    permute,
  };
  /// A block on its way, from the cell of one rank to another's.
  struct Arrow {
    std::uint32_t from = 0, to = 0;
    friend bool operator==(const Arrow&, const Arrow&) = default;
  };
  Motion motion = Motion::product;
  std::string what;         ///< buffers: "ffn.up.weight"; of a product its operands and result
  std::string along;        ///< axes along which it moves: "column"; empty: nothing moves
  std::uint64_t bytes = 0;  ///< payload on one rank
  std::string shape;        ///< of a product: "4096 x 1600 x 800"
  std::vector<Arrow> arrows;
};

/// Ranks as a grid, and what they do one after another in one run of a block.
struct RankMoves {
  std::vector<Rank> ranks;  ///< cell (layer, row, column), the column innermost
  std::uint32_t layers = 1, rows = 1, columns = 1;
  std::string row_axis, column_axis, layer_axis;  ///< names of the axes; empty where there is but one
  std::string block;
  std::vector<RankMove> moves;
};

/// Cells that are shown along an axis at most; of a longer axis the first ones.
inline constexpr std::uint32_t most_cells = 8;

/// Blocks of rank 0 in which ranks communicate or multiply, in the order of their first run.
[[nodiscard]] std::vector<std::string> blocks_with_moves(const Program&);
/// Those of one block, by its name; an empty name takes the first forward block of a layer.  No moves where there is no
/// such block.
[[nodiscard]] RankMoves moves_of(const Program&, const std::string& block);

}  // namespace orrery::gui
