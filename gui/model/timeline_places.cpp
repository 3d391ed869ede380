#include "gui/model/timeline_places.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <sstream>
#include <tuple>

namespace orrery::gui {
namespace {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::uint32_t> number(const std::string& word) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

using Order = std::tuple<std::int64_t, std::uint32_t, std::uint32_t, std::uint32_t>;
Order order_of(const Timeline& timeline, const SlicePlace& p) {
  return {slice_of(timeline, p).start, p.rank, p.lane, p.slice};
}

/// The first match of a lane behind `from`, or the last before it.
std::optional<SlicePlace> lane_match(const Timeline& timeline, const SliceQuery& query, std::uint32_t r,
                                     std::uint32_t l, const std::optional<Order>& from, bool forward) {
  const TimelineRank& rank = timeline.ranks[r];
  const std::vector<Slice>& slices = rank.lanes[l].slices;
  const auto behind = [&](const Slice& s) {
    return Order{s.start, r, l, static_cast<std::uint32_t>(&s - slices.data())};
  };
  const auto place = [&](const Slice& s) { return SlicePlace{r, l, static_cast<std::uint32_t>(&s - slices.data())}; };
  if (forward) {
    auto s =
        from ? std::partition_point(slices.begin(), slices.end(), [&](const Slice& x) { return behind(x) <= *from; })
             : slices.begin();
    for (; s != slices.end(); ++s) {
      if (query.matches(rank, *s)) return place(*s);
    }
    return std::nullopt;
  }
  auto s = from ? std::partition_point(slices.begin(), slices.end(), [&](const Slice& x) { return behind(x) < *from; })
                : slices.end();
  while (s != slices.begin()) {
    --s;
    if (query.matches(rank, *s)) return place(*s);
  }
  return std::nullopt;
}

}  // namespace

const Slice& slice_of(const Timeline& timeline, const SlicePlace& p) {
  return timeline.ranks[p.rank].lanes[p.lane].slices[p.slice];
}

OpPlace op_of(const Timeline& timeline, const SlicePlace& p) { return {p.rank, slice_of(timeline, p).op}; }

std::optional<SlicePlace> place_of(const Timeline& timeline, const OpPlace& p) {
  if (p.rank >= timeline.ranks.size()) return std::nullopt;
  const TimelineRank& rank = timeline.ranks[p.rank];
  for (std::uint32_t l = 0; l < rank.lanes.size(); ++l) {
    const std::vector<Slice>& slices = rank.lanes[l].slices;
    const auto at = std::partition_point(slices.begin(), slices.end(), [&](const Slice& s) { return s.op < p.op; });
    if (at != slices.end() && at->op == p.op) {
      return SlicePlace{p.rank, l, static_cast<std::uint32_t>(at - slices.begin())};
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> rank_position(const Timeline& timeline, Rank rank) {
  const auto at =
      std::find_if(timeline.ranks.begin(), timeline.ranks.end(), [&](const TimelineRank& r) { return r.rank == rank; });
  if (at == timeline.ranks.end()) return std::nullopt;
  return static_cast<std::uint32_t>(at - timeline.ranks.begin());
}

SliceQuery::SliceQuery(const Timeline& timeline, std::string_view text) {
  std::istringstream in(lower_case(text));
  const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < words.size(); ++i) {
    empty_ = false;
    const std::string& word = words[i];
    std::optional<std::uint32_t>* field = word == "rank"                         ? &rank_
                                          : word == "stage"                      ? &stage_
                                          : word == "microbatch" || word == "mb" ? &microbatch_
                                          : word == "layer"                      ? &layer_
                                          : word == "op"                         ? &op_
                                                                                 : nullptr;
    const auto value = field != nullptr && i + 1 < words.size() ? number(words[i + 1]) : std::nullopt;
    if (value) {
      *field = value;
      ++i;
    } else {
      parts.push_back(word);
    }
  }
  named_.reserve(timeline.names.size() * slice_kind_count);
  for (const std::string& name : timeline.names) {
    for (std::size_t kind = 0; kind < slice_kind_count; ++kind) {
      const std::string whole = lower_case(name) + " " + name_of(static_cast<SliceKind>(kind));
      named_.push_back(std::all_of(parts.begin(), parts.end(),
                                   [&](const std::string& part) { return whole.find(part) != std::string::npos; }));
    }
  }
}

bool SliceQuery::matches(const TimelineRank& rank, const Slice& s) const {
  return !empty_ && named_[s.name * slice_kind_count + static_cast<std::size_t>(s.kind)] &&
         (!rank_ || index(rank.rank) == *rank_) && (!stage_ || rank.stage == *stage_) &&
         (!microbatch_ || s.microbatch == *microbatch_) && (!layer_ || s.layer == *layer_) &&
         (!op_ || index(s.op) == *op_);
}

std::uint64_t count_matches(const Timeline& timeline, const SliceQuery& query) {
  std::uint64_t count = 0;
  for (const TimelineRank& rank : timeline.ranks) {
    for (const TimelineLane& lane : rank.lanes) {
      for (const Slice& s : lane.slices) count += query.matches(rank, s) ? 1 : 0;
    }
  }
  return count;
}

std::optional<SlicePlace> next_match(const Timeline& timeline, const SliceQuery& query, std::optional<SlicePlace> from,
                                     bool forward) {
  std::optional<Order> limit;
  if (from) limit = order_of(timeline, *from);
  std::optional<SlicePlace> best;
  for (std::uint32_t r = 0; r < timeline.ranks.size(); ++r) {
    for (std::uint32_t l = 0; l < timeline.ranks[r].lanes.size(); ++l) {
      const auto found = lane_match(timeline, query, r, l, limit, forward);
      if (!found) continue;
      const bool better = !best || (order_of(timeline, *found) < order_of(timeline, *best)) == forward;
      if (better) best = found;
    }
  }
  if (!best && from) return next_match(timeline, query, std::nullopt, forward);
  return best;
}

}  // namespace orrery::gui
