#include "core/program/sight.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// Pairs whose key stands at least `distance` positions before the query.
std::uint64_t pairs_behind(std::uint64_t distance, Positions queries, Positions keys) {
  if (queries.first >= queries.end || keys.first >= keys.end) return 0;
  // The first query meets `low` keys, each later one a key more; none meets less than 0 or more than all.
  const auto all = static_cast<std::int64_t>(keys.end - keys.first);
  const auto behind = static_cast<std::int64_t>(keys.first + distance);
  const std::int64_t low = static_cast<std::int64_t>(queries.first) + 1 - behind;
  const std::int64_t high = static_cast<std::int64_t>(queries.end) - behind;
  const std::int64_t from = std::max<std::int64_t>(low, 1), to = std::min(high, all);
  const std::int64_t rising = from <= to ? (from + to) * (to - from + 1) / 2 : 0;
  const std::int64_t full = std::max<std::int64_t>(high - std::max(low, all + 1) + 1, 0);
  return static_cast<std::uint64_t>(rising + full * all);
}

Positions both(Positions a, Positions b) { return {std::max(a.first, b.first), std::min(a.end, b.end)}; }

std::uint64_t pairs_in_chunks(std::uint64_t size, Positions queries, Positions keys) {
  const std::uint64_t first = std::max(queries.first, keys.first) / size;
  const std::uint64_t end = (std::min(queries.end, keys.end) + size - 1) / size;
  if (first >= end) return 0;
  const auto in = [&](std::uint64_t chunk) {
    const Positions all{chunk * size, (chunk + 1) * size};
    return pairs_behind(0, both(queries, all), both(keys, all));
  };
  if (end - first == 1) return in(first);
  // Chunks between the outer ones lie whole in both ranges.
  return in(first) + in(end - 1) + (end - first - 2) * (size * (size + 1) / 2);
}

}  // namespace

Sight sight_of(const Kernel& k) { return {k.options.causal, k.options.chunked, k.window}; }

std::uint64_t seen_pairs(const Sight& sight, Positions queries, Positions keys) {
  if (!sight.causal) return (queries.end - queries.first) * (keys.end - keys.first);
  if (sight.window == 0) return pairs_behind(0, queries, keys);
  if (sight.chunked) return pairs_in_chunks(sight.window, queries, keys);
  return pairs_behind(0, queries, keys) - pairs_behind(sight.window, queries, keys);
}

std::uint64_t seen_pairs(const Sight& sight, std::uint64_t length) {
  return seen_pairs(sight, {0, length}, {0, length});
}

bool is_local(const Sight& sight, std::uint64_t length) { return sight.window > 0 && sight.window < length; }

}  // namespace orrery
