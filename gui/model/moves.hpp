#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/program/program.hpp"

namespace orrery::gui {

/// One operation of a block on a few neighbouring ranks: products, and blocks that move between ranks. It is read from
/// the Program, so the picture shows what the simulator prices and the executor runs.
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
  /// A block on its way from the cell of one rank to another's.
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

/// Ranks as a grid, and their operations one after another in one run of a block.
struct RankMoves {
  std::vector<Rank> ranks;  ///< cell (layer, row, column), the column innermost
  std::uint32_t layers = 1, rows = 1, columns = 1;
  std::string row_axis, column_axis, layer_axis;  ///< names of the axes; empty where there is only one
  std::string block;
  std::vector<RankMove> moves;
};

/// Most cells that are shown along an axis; of a longer axis the first ones are.
inline constexpr std::uint32_t most_cells = 8;

/// Blocks of rank 0 in which ranks communicate or multiply, in the order of their first run.
[[nodiscard]] std::vector<std::string> blocks_with_moves(const Program&);
/// The moves of one block, by its name; an empty name takes the first forward block of a layer. There are no moves
/// where there is no such block.
[[nodiscard]] RankMoves moves_of(const Program&, const std::string& block);

}  // namespace orrery::gui
