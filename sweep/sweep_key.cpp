#include "sweep/sweep_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "core/base/nearest.hpp"
#include "core/base/whole_number.hpp"

namespace orrery {
namespace {

constexpr std::array<std::string_view, 3> settings = {"model", "cluster", "for"};
constexpr std::size_t most_values = 10'000;  ///< of one key

/// The values of "8..64" or "64..256+64"; false where it is no range.
bool read_range(std::string_view text, std::vector<std::uint64_t>& into, std::string& why) {
  const std::size_t dots = text.find("..");
  std::string_view last = text.substr(dots + 2);
  std::optional<std::uint64_t> step;
  if (const std::size_t plus = last.find('+'); plus != std::string_view::npos) {
    step = whole_number(last.substr(plus + 1));
    last = last.substr(0, plus);
    if (!step || *step == 0) {
      why = fmt::format("\"{}\" has no step; 64..256+64 is 64, 128, 192, 256", text);
      return false;
    }
  }
  const std::optional<std::uint64_t> from = whole_number(text.substr(0, dots)), to = whole_number(last);
  if (!from || !to || *from == 0 || *to < *from) {
    why = fmt::format("\"{}\" is no range; 8..64 is 8, 16, 32, 64", text);
    return false;
  }
  for (std::uint64_t v = *from; v <= *to; v = step ? v + *step : 2 * v) {
    if (into.size() == most_values) {
      why = fmt::format("\"{}\" has more than {} values", text, most_values);
      return false;
    }
    into.push_back(v);
  }
  return true;
}

/// One value of a list, as plan files say it, or the values of a range.
bool read_item(const SweepKey& key, std::string_view item, std::vector<std::string>& into, std::string& why) {
  const Dimension* d = key.dimension;
  if (item.empty()) {
    why = "a value is empty";
    return false;
  }
  if (d == nullptr) {
    into.emplace_back(item);
    return true;
  }
  if (is_named(*d)) {
    std::optional<std::uint64_t> value = value_named(*d, std::string(item), why);
    // Plan files say true where words say on.
    if (!value && item == "true") value = value_named(*d, "on", why);
    if (!value && item == "false") value = value_named(*d, "off", why);
    if (!value) return false;
    into.push_back(text_of(*d, *value));
    return true;
  }
  std::vector<std::uint64_t> values;
  if (item.find("..") != std::string_view::npos) {
    if (!read_range(item, values, why)) return false;
  } else if (const std::optional<std::uint64_t> value = whole_number(item)) {
    values.push_back(*value);
  } else {
    why = fmt::format("\"{}\" is not a whole number", item);
    return false;
  }
  for (const std::uint64_t v : values) {
    if (v < d->least || v > d->most) {
      why = fmt::format("it is {}; from {} to {} is allowed", v, d->least, d->most);
      return false;
    }
    into.push_back(fmt::format("{}", v));
  }
  return true;
}

}  // namespace

std::string_view SweepKey::name() const { return dimension == nullptr ? std::string_view(word) : dimension->word(); }

std::optional<SweepKey> sweep_key_named(std::string_view name) {
  for (const std::string_view s : settings) {
    if (s == name) return SweepKey{std::string(s), nullptr};
  }
  for (const Dimension& d : dimensions()) {
    if (is_turned(d) && is_called(d, name)) return SweepKey{std::string(d.key), &d};
  }
  return std::nullopt;
}

std::vector<std::string> nearest_sweep_keys(const std::string& name) {
  std::vector<std::string> known(settings.begin(), settings.end());
  for (const Dimension& d : dimensions()) {
    if (!is_turned(d)) continue;
    known.emplace_back(d.word());
    known.insert(known.end(), d.aliases.begin(), d.aliases.end());
  }
  return nearest(name, known);
}

std::size_t nesting_of(const SweepKey& key) {
  if (key.dimension == nullptr) {
    return static_cast<std::size_t>(std::find(settings.begin(), settings.end(), key.word) - settings.begin());
  }
  // The length changes more than the batch does, so it is outside.
  constexpr std::array<std::string_view, 3> first = {"gpus", "workload.sequence", "workload.batch"};
  const auto at = std::find(first.begin(), first.end(), key.word);
  if (at != first.end()) return settings.size() + static_cast<std::size_t>(at - first.begin());
  return settings.size() + first.size() + static_cast<std::size_t>(key.dimension - dimensions().data());
}

std::optional<SweepAxis> sweep_axis(const SweepKey& key, std::string_view list, std::string& why) {
  SweepAxis axis{key, {}};
  while (true) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!read_item(key, item, axis.values, why)) return std::nullopt;
    if (comma == list.size()) break;
    list.remove_prefix(comma + 1);
  }
  for (std::size_t i = 0; i < axis.values.size(); ++i) {
    if (std::find(axis.values.begin(), axis.values.begin() + static_cast<std::ptrdiff_t>(i), axis.values[i]) !=
        axis.values.begin() + static_cast<std::ptrdiff_t>(i)) {
      why = fmt::format("{} stands twice", axis.values[i]);
      return std::nullopt;
    }
  }
  return axis;
}

std::optional<double> number_of(const SweepKey& key, const std::string& value) {
  if (key.dimension == nullptr || is_named(*key.dimension)) return std::nullopt;
  const std::optional<std::uint64_t> number = whole_number(value);
  if (!number) return std::nullopt;
  return static_cast<double>(*number);
}

}  // namespace orrery
