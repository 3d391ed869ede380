#include "sweep/sweep_points.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace orrery {
namespace {

bool nested_before(const SweepKey& a, const SweepKey& b) { return nesting_of(a) < nesting_of(b); }

/// Number of combinations; most_sweep_points + 1 for all larger ones.
std::size_t size_of(const std::vector<SweepAxis>& grid) {
  std::size_t size = 1;
  for (const SweepAxis& axis : grid) {
    if (size > most_sweep_points / axis.values.size()) return most_sweep_points + 1;
    size *= axis.values.size();
  }
  return size;
}

}  // namespace

std::size_t SweepPoints::place(std::string_view word) const {
  const auto at = std::find_if(keys.begin(), keys.end(), [&](const SweepKey& k) { return k.word == word; });
  return static_cast<std::size_t>(at - keys.begin());
}

const std::string& SweepPoints::value(std::size_t point, std::string_view word) const {
  static const std::string none;
  const std::size_t at = place(word);
  return at == keys.size() ? none : rows[point][at];
}

std::vector<std::size_t> SweepPoints::varied() const {
  std::vector<std::size_t> out;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    if (std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return row[k] != rows.front()[k]; })) {
      out.push_back(k);
    }
  }
  return out;
}

SweepPoints sweep_points(std::vector<std::vector<SweepAxis>> grids) {
  SweepPoints out;
  std::size_t all = 0;
  for (std::vector<SweepAxis>& grid : grids) {
    std::sort(grid.begin(), grid.end(), [](const auto& a, const auto& b) { return nested_before(a.key, b.key); });
    all += size_of(grid);
    if (all > most_sweep_points) return {};
    for (const SweepAxis& axis : grid) {
      if (out.place(axis.key.word) == out.keys.size()) out.keys.push_back(axis.key);
    }
  }
  std::sort(out.keys.begin(), out.keys.end(), nested_before);
  std::set<std::vector<std::string>> seen;
  for (const std::vector<SweepAxis>& grid : grids) {
    const std::size_t size = size_of(grid);
    for (std::size_t i = 0; i < size; ++i) {
      std::vector<std::string> row(out.keys.size());
      std::size_t rest = i;
      for (auto axis = grid.rbegin(); axis != grid.rend(); ++axis) {
        row[out.place(axis->key.word)] = axis->values[rest % axis->values.size()];
        rest /= axis->values.size();
      }
      if (seen.insert(row).second) out.rows.push_back(std::move(row));
    }
  }
  return out;
}

std::optional<SweepShard> sweep_shard(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto read = [](std::string_view part, std::uint64_t& into) {
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), into);
    return failure == std::errc{} && end == part.data() + part.size();
  };
  SweepShard shard;
  if (!read(text.substr(0, slash), shard.number) || !read(text.substr(slash + 1), shard.count)) return std::nullopt;
  if (shard.number < 1 || shard.number > shard.count || shard.count > most_sweep_points) return std::nullopt;
  return shard;
}

}  // namespace orrery
