#include "exec/kernels/cuda/cudnn/attention_bands.hpp"

#include <algorithm>

#include "exec/kernels/device/global_place.hpp"

namespace orrery::cudnn {
namespace {

/// Local rows from `lies` on, whose positions are [begin, end).
struct Run {
  std::int64_t lies, begin, end;
};

/// A zigzag cut has at most two for each rank.
std::vector<Run> runs_of(const Place& place, std::int64_t count) {
  const device::Positions position(place);
  std::vector<Run> runs;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(position(static_cast<std::uint64_t>(i)));
    if (!runs.empty() && runs.back().end == at) {
      ++runs.back().end;
    } else {
      runs.push_back({i, at, at + 1});
    }
  }
  return runs;
}

/// Keys in order of their positions.
class OrderedKeys {
 public:
  explicit OrderedKeys(std::vector<Run> runs) : runs_(std::move(runs)) {
    std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
  }
  /// How many stand before a position.
  [[nodiscard]] std::int64_t before(std::int64_t position) const {
    std::int64_t n = 0;
    for (const Run& r : runs_) n += std::clamp(position, r.begin, r.end) - r.begin;
    return n;
  }
  [[nodiscard]] std::int64_t all() const { return before(runs_.back().end); }
  /// Runs that lie side by side, too, are one.
  [[nodiscard]] std::vector<KeyRun> runs() const {
    std::vector<KeyRun> all;
    std::int64_t stands = 0;
    for (const Run& r : runs_) {
      const std::int64_t count = r.end - r.begin;
      if (!all.empty() && all.back().lies + all.back().count == r.lies) {
        all.back().count += count;
      } else {
        all.push_back({r.lies, stands, count});
      }
      stands += count;
    }
    return all;
  }
  /// Positions at which `before` begins or ceases to grow, `shift` further on.
  void ends(std::int64_t shift, std::vector<std::int64_t>& to) const {
    for (const Run& r : runs_) {
      to.push_back(r.begin + shift);
      to.push_back(r.end + shift);
    }
  }

 private:
  std::vector<Run> runs_;
};

/// Joins a band to the one before it where both are one.
bool join(Band& a, const Band& b) {
  if (a.first + a.queries != b.first) return false;
  if (!a.causal && !b.causal) {
    if (a.first_key != b.first_key || a.keys != b.keys) return false;
    a.queries += b.queries;
    return true;
  }
  if (!a.causal || !b.causal) return false;
  const std::int64_t grown = b.first_key + b.keys - a.first_key;
  if (grown != a.keys + b.queries) return false;
  // A band without a window may be the beginning of one, where no query has more keys than that shows.
  const bool fits = a.window == b.window ? a.window > 0 || a.first_key == b.first_key
                                         : a.window == 0 && a.keys <= b.window && b.window > 0;
  if (!fits) return false;
  a = {a.first, a.queries + b.queries, a.first_key, grown, true, b.window};
  return true;
}

/// Queries of consecutive positions [begin, end) for which neither end of their keys begins or ceases to move.
/// False where a window moves over keys that end before the queries.
bool add_piece(const OrderedKeys& keys, const Kernel& k, std::int64_t first, std::int64_t begin, std::int64_t end,
               std::vector<Band>& bands) {
  const auto window = static_cast<std::int64_t>(k.window);
  const auto from = [&](std::int64_t query) { return window > 0 ? keys.before(query - window + 1) : 0; };
  const auto to = [&](std::int64_t query) { return k.options.causal ? keys.before(query + 1) : keys.all(); };
  const std::int64_t last = end - 1, first_key = from(begin), end_key = to(last);
  if (end_key <= from(last)) return true;  // they see none
  const bool ends_move = to(begin) != end_key, begins_move = first_key != from(last);
  if (begins_move && !ends_move) return false;
  const Band band{
      first, end - begin, first_key, end_key - first_key, ends_move, begins_move ? end_key - from(last) : 0};
  if (bands.empty() || !join(bands.back(), band)) bands.push_back(band);
  return true;
}

}  // namespace

std::optional<AttentionBands> attention_bands(const Kernel& k, const Place& own, const Place& brought) {
  if (k.options.chunked && k.window > 0) return std::nullopt;
  const OrderedKeys keys(runs_of(brought, static_cast<std::int64_t>(k.depth / k.batch)));
  std::vector<std::int64_t> cuts;  // positions of queries before which the ends of what they see change their ways
  if (k.options.causal) keys.ends(0, cuts);
  if (k.window > 0) keys.ends(static_cast<std::int64_t>(k.window) - 1, cuts);
  std::sort(cuts.begin(), cuts.end());
  AttentionBands all{keys.runs(), {}};
  for (const Run& r : runs_of(own, static_cast<std::int64_t>(k.rows / k.batch))) {
    std::int64_t begin = r.begin;
    const auto piece = [&](std::int64_t end) {
      if (end <= begin || end > r.end) return true;
      const bool taken = add_piece(keys, k, r.lies + begin - r.begin, begin, end, all.bands);
      begin = end;
      return taken;
    };
    for (const std::int64_t cut : cuts) {
      if (!piece(cut)) return std::nullopt;
    }
    if (!piece(r.end)) return std::nullopt;
  }
  return all;
}

}  // namespace orrery::cudnn
