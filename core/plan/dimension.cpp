#include "core/plan/dimension.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/base/whole_number.hpp"
#include "core/plan/dimension_rows.hpp"

namespace orrery {

std::string_view Dimension::table() const { return key.substr(0, std::max(key.rfind('.') + 1, std::size_t{1}) - 1); }
std::string_view Dimension::word() const { return key.substr(key.rfind('.') + 1); }

bool shares_weights(const PlannedRun& run) {
  return run.plan.mesh.size(Axis::replica) > 1 || !shard_axes_of(run.plan).empty();
}

std::vector<std::uint64_t> divisors_of(std::uint64_t n) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d != n) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::uint64_t> doublings(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = from; n <= to; n *= 2) out.push_back(n);
  return out;
}

std::vector<std::uint64_t> numbers(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> out;
  for (std::uint64_t n = from; n <= to; ++n) out.push_back(n);
  return out;
}

std::vector<std::string_view> switch_names() { return {"off", "on"}; }
std::vector<std::string_view> or_auto(std::vector<std::string_view> names) {
  names.insert(names.begin(), "auto");
  return names;
}
std::vector<std::string_view> as_written(std::string_view usual) { return {usual, "as written"}; }

Dimensions dimensions() {
  static const std::vector<Dimension> all = [] {
    std::vector<Dimension> rows;
    for (auto* part : {run_dimensions, mesh_dimensions, schedule_dimensions, layer_dimensions, state_dimensions,
                       pricing_dimensions}) {
      for (Dimension& row : part()) rows.push_back(std::move(row));
    }
    return rows;
  }();
  return all;
}

const Dimension* dimension_named(std::string_view key, Dimensions table) {
  const auto at = std::find_if(table.begin(), table.end(), [&](const Dimension& d) { return d.key == key; });
  return at == table.end() ? nullptr : &*at;
}

const Dimension& dimension(std::string_view key) {
  const Dimension* found = dimension_named(key);
  ORRERY_ASSERT(found != nullptr, key);
  return *found;
}

bool is_named(const Dimension& d) { return !d.names.empty(); }

bool is_called(const Dimension& d, std::string_view word) {
  constexpr std::string_view kind = ".kind";
  if (d.key.ends_with(kind))
    return d.key == word || d.key.substr(0, d.key.size() - kind.size()).ends_with("." + std::string(word));
  return d.key == word || d.word() == word || std::find(d.aliases.begin(), d.aliases.end(), word) != d.aliases.end();
}

bool applies(const Dimension& d, const PlannedRun& run) { return d.applies == nullptr || d.applies(run); }

bool put(PlannedRun& run, const Dimension& d, std::uint64_t value, std::string& reason) {
  const std::uint64_t least = is_named(d) ? 0 : d.least, most = is_named(d) ? d.names.size() - 1 : d.most;
  if (value != d.usual && (value < least || value > most)) {
    reason = fmt::format("{} is {}; it must be from {} to {}.", d.key, value, least, most);
    return false;
  }
  return value == d.get(run) || d.put(run, value, reason);  // what stands is kept to the byte
}

std::vector<std::uint64_t> values(const Dimension& d, const PlannedRun& run) {
  std::vector<std::uint64_t> out = d.values != nullptr ? d.values(run)
                                   : is_named(d)       ? numbers(0, d.names.size() - 1)
                                                       : numbers(d.least, d.most);
  const std::uint64_t own = d.get(run);
  if (const auto at = std::lower_bound(out.begin(), out.end(), own); at == out.end() || *at != own) out.insert(at, own);
  return out;
}

std::string text_of(const Dimension& d, std::uint64_t value) {
  return value < d.names.size() ? std::string(d.names[value]) : fmt::to_string(value);
}

std::optional<std::uint64_t> value_named(const Dimension& d, const std::string& text, std::string& why) {
  const std::optional<std::uint64_t> number = whole_number(text);
  if (!is_named(d)) {
    if (number) return number;
    why = fmt::format("{} must be a whole number, not \"{}\"", d.key, text);
    return std::nullopt;
  }
  // Files write switches as true and false, and shares as eighths.
  if (d.kind == DimensionKind::share && number && *number + 1 < d.names.size()) return number;
  std::string_view name = text;
  if (d.kind == DimensionKind::toggle && text == "true") name = "on";
  if (d.kind == DimensionKind::toggle && text == "false") name = "off";
  const auto at = std::find(d.names.begin(), d.names.end(), name);
  if (at != d.names.end()) return static_cast<std::uint64_t>(at - d.names.begin());
  why = fmt::format("{} must be one of {}, not \"{}\"", d.key, fmt::join(d.names, ", "), text);
  return std::nullopt;
}

}  // namespace orrery
