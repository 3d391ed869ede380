#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/model/timeline.hpp"

namespace orrery::gui {

/// An operation of a timeline.
struct OpPlace {
  std::uint32_t rank = 0;  ///< position in Timeline::ranks
  OpId op{};
  friend bool operator==(const OpPlace&, const OpPlace&) = default;
};

/// A slice of a timeline: positions in its vectors.
struct SlicePlace {
  std::uint32_t rank = 0, lane = 0, slice = 0;
  friend bool operator==(const SlicePlace&, const SlicePlace&) = default;
};
[[nodiscard]] const Slice& slice_of(const Timeline&, const SlicePlace&);
[[nodiscard]] OpPlace op_of(const Timeline&, const SlicePlace&);
/// The slice of an op; empty where the op took no time. It searches by halving, because on every lane ops run in list
/// order.
[[nodiscard]] std::optional<SlicePlace> place_of(const Timeline&, const OpPlace&);
/// Position of a rank; empty where the trace left it out.
[[nodiscard]] std::optional<std::uint32_t> rank_position(const Timeline&, Rank);

/// A search among slices by words, all of which must match.
///
///     rank 3   stage 1   microbatch 4   layer 7   op 118     the slice's number of that kind
///     any other word                                         is part of the operation's name or kind
///
/// The word "mb" stands for microbatch too, and the case of letters does not matter.
class SliceQuery {
 public:
  SliceQuery(const Timeline&, std::string_view text);
  [[nodiscard]] bool is_empty() const { return empty_; }
  [[nodiscard]] bool matches(const TimelineRank&, const Slice&) const;

 private:
  bool empty_ = true;
  std::vector<bool> named_;  ///< [name][kind]
  std::optional<std::uint32_t> rank_, stage_, microbatch_, layer_, op_;
};

[[nodiscard]] std::uint64_t count_matches(const Timeline&, const SliceQuery&);
/// The next match behind `from` (or before it), in order of start, rank and lane; without `from` the first (last). Past
/// the end it goes on at the other end.
[[nodiscard]] std::optional<SlicePlace> next_match(const Timeline&, const SliceQuery&, std::optional<SlicePlace> from,
                                                   bool forward);

}  // namespace orrery::gui
