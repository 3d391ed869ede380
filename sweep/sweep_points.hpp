#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sweep/sweep_key.hpp"

namespace orrery {

/// The points of a sweep, each a value for every key. They stand in one order, whoever enumerates them: key by key as
/// nesting_of() has it, the last key changing fastest.
struct SweepPoints {
  std::vector<SweepKey> keys;
  std::vector<std::vector<std::string>> rows;  ///< a value for each key; empty: the key is not set at this point
  friend bool operator==(const SweepPoints&, const SweepPoints&) = default;

  [[nodiscard]] std::size_t size() const { return rows.size(); }
  /// Place of a key; keys.size() where the sweep does not have it.
  [[nodiscard]] std::size_t place(std::string_view word) const;
  /// The value of a key at a point; empty where it is not set.
  [[nodiscard]] const std::string& value(std::size_t point, std::string_view word) const;
  /// Places of the keys that have more than one value.
  [[nodiscard]] std::vector<std::size_t> varied() const;
};

inline constexpr std::size_t most_sweep_points = 1'000'000;

/// Every combination of the axes' values, grid after grid; a point that an earlier grid has is left out. Empty where
/// there are more than most_sweep_points.
[[nodiscard]] SweepPoints sweep_points(std::vector<std::vector<SweepAxis>> grids);

/// One of n parts of a sweep that different processes compute: every n-th point, so that all have as much to do.
struct SweepShard {
  std::uint64_t number = 1, count = 1;  ///< from 1 to count
  [[nodiscard]] bool has(std::size_t point) const { return point % count == number - 1; }
};
/// Reads "3/64". Empty where it is no such text.
[[nodiscard]] std::optional<SweepShard> sweep_shard(std::string_view text);

}  // namespace orrery
