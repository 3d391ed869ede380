#pragma once

#include <cstdint>

#include "core/base/random.hpp"

namespace orrery {

/// The choices that LayerRouting has dealt out, as numbers alone: a GPU reads them too.
struct DealtChoices {
  struct Choice {
    std::uint32_t expert = 0;
    bool kept = true;  ///< false: dropped, the expert's capacity is used up
  };
  std::uint64_t group, groups_of_sequence, capacity, seed, stream;
  std::uint32_t each;                 ///< choices of a token in each of the groups of experts that it visits
  std::uint32_t size;                 ///< experts of a group
  std::uint32_t experts, groups;      ///< of the layer; groups of experts
  const std::uint64_t* begin;         ///< [experts + 1]: where each expert's choices begin in the dealt order
  const std::uint64_t* tokens_begin;  ///< [groups + 1]: where each group's tokens begin

  /// The last i < n with begin[i] <= at, where begin rises and begin[n] is above `at`.
  [[nodiscard]] static constexpr std::uint32_t holder(const std::uint64_t* begin, std::uint32_t n, std::uint64_t at) {
    std::uint32_t low = 0, high = n;
    while (high - low > 1) {
      const std::uint32_t middle = (low + high) / 2;
      (begin[middle] <= at ? low : high) = middle;
    }
    return low;
  }
  [[nodiscard]] constexpr Choice operator()(std::uint64_t sequence, std::uint64_t position, std::uint32_t index) const {
    const std::uint64_t number = sequence * groups_of_sequence + position / group;
    const std::uint64_t turn = random_bits(seed, stream, number) % group;
    // The place among groups comes first, then the place among the group's experts.
    const std::uint64_t place = (position % group + turn) % group + index / each * group;
    const std::uint32_t g = holder(tokens_begin, groups, place);
    const std::uint64_t tokens = tokens_begin[g + 1] - tokens_begin[g];
    const std::uint64_t at = begin[g * size] + (place - tokens_begin[g]) + index % each * tokens;
    const std::uint32_t expert = holder(begin, experts, at);
    return {expert, at - begin[expert] < capacity};
  }
};

}  // namespace orrery
