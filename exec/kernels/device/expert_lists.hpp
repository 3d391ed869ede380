#pragma once

#include "exec/kernels/device/in_order.hpp"

/// The rows of each expert, which only the device knows.
namespace orrery::device {

/// rows[begin[e]] to rows[begin[e + 1]] are the rows of expert e in their order, and its tiles of `tile` rows have the
/// numbers from tiles[e] to tiles[e + 1].
struct ExpertLists {
  std::uint32_t *begin, *tiles, *rows;
  std::uint32_t experts;

  static constexpr std::uint32_t tile = 64;
  /// No more tiles than that, however rows are shared out.
  [[nodiscard]] static std::uint64_t most_tiles(std::uint64_t rows, std::uint64_t experts) {
    return rows / tile + std::min(rows, experts);
  }
  [[nodiscard]] static std::uint64_t bytes(std::uint64_t rows, std::uint64_t experts) {
    return (3 * experts + 2 + rows) * sizeof(std::uint32_t);
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint32_t count(std::uint32_t e) const { return begin[e + 1] - begin[e]; }
  /// Requires that some expert has such a tile.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint32_t expert_of_tile(std::uint64_t number) const {
    std::uint32_t low = 0, high = experts;  // tiles[low] <= number < tiles[high]
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (tiles[middle] <= number ? low : high) = middle;
    }
    return low;
  }
};

struct CountRows {
  const std::int32_t* experts;
  std::uint32_t* counts;
  [[nodiscard]] ORRERY_ON_DEVICE bool matches(std::uint64_t e, std::uint64_t row) const {
    return experts[row] == static_cast<std::int32_t>(e);
  }
  ORRERY_ON_DEVICE void put(std::uint64_t, std::uint32_t, std::uint64_t) const {}
  ORRERY_ON_DEVICE void total(std::uint64_t e, std::uint32_t n) const { counts[e] = n; }
};

struct ListRows {
  const std::int32_t* experts;
  ExpertLists lists;
  [[nodiscard]] ORRERY_ON_DEVICE bool matches(std::uint64_t e, std::uint64_t row) const {
    return experts[row] == static_cast<std::int32_t>(e);
  }
  ORRERY_ON_DEVICE void put(std::uint64_t e, std::uint32_t rank, std::uint64_t row) const {
    lists.rows[lists.begin[e] + rank] = static_cast<std::uint32_t>(row);
  }
  ORRERY_ON_DEVICE void total(std::uint64_t, std::uint32_t) const {}
};

/// i counts the experts, and one more for the ends.
struct SumCounts {
  const std::uint32_t* counts;
  ExpertLists lists;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    std::uint32_t rows = 0, tiles = 0;
    for (std::uint64_t e = 0; e < i; ++e) {
      rows += counts[e];
      tiles += (counts[e] + ExpertLists::tile - 1) / ExpertLists::tile;
    }
    lists.begin[i] = rows;
    lists.tiles[i] = tiles;
  }
};

/// Takes the launcher's scratch.
template <class Launcher>
ExpertLists list_rows(Launcher& l, const std::int32_t* experts, std::uint64_t rows, std::uint32_t count) {
  auto* memory = static_cast<std::uint32_t*>(l.scratch(ExpertLists::bytes(rows, count)));
  const ExpertLists lists{memory, memory + count + 1, memory + 3 * count + 2, count};
  std::uint32_t* counts = memory + 2 * count + 2;
  in_order(l, count, rows, CountRows{experts, counts});
  for_each(l, count + 1, SumCounts{counts, lists});
  in_order(l, count, rows, ListRows{experts, lists});
  return lists;
}

}  // namespace orrery::device
