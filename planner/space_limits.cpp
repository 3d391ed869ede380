#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "core/plan/plan_names.hpp"
#include "planner/space.hpp"

namespace orrery {
namespace {

std::vector<std::string_view> parts(std::string_view text, char between) {
  std::vector<std::string_view> list;
  while (!text.empty()) {
    const std::size_t end = text.find(between);
    if (end != 0) list.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return list;
}

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t n = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (wrong != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return n;
}

/// Keeps of `values` those whose names are listed.
template <class T, class Name>
bool keep(std::vector<T>& values, const std::vector<std::string_view>& names, Name&& name) {
  const std::vector<T> all = values;
  values.clear();
  for (const std::string_view wanted : names) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const T& v) { return name(v) == wanted; });
    if (at == all.end()) return false;
    values.push_back(*at);
  }
  return !values.empty();
}

/// What is in the space or not.
bool* switch_named(SpaceLimits& limits, std::string_view key) {
  if (key == "replica") return &limits.replicas;
  if (key == "context") return &limits.context;
  if (key == "expert") return &limits.expert;
  if (key == "inner_ring") return &limits.inner_rings;
  if (key == "recompute_layers") return &limits.recompute_layers;
  if (key == "offload") return &limits.offload;
  if (key == "grid_context") return &limits.grid_context;
  if (key == "zero_split") return &limits.zero_split;
  if (key == "zero_chunks") return &limits.zero_chunks;
  if (key == "offload_beside") return &limits.offload_beside;
  if (key == "parameter_chunks") return &limits.parameter_chunks;
  if (key == "disks") return &limits.disks;
  return nullptr;
}

}  // namespace

SpaceLimits limits_of(std::string_view text, Diagnostics& out) {
  SpaceLimits limits;
  for (const std::string_view setting : parts(text, ' ')) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string_view key = setting.substr(0, equals);
    const std::string_view value = equals < setting.size() ? setting.substr(equals + 1) : std::string_view{};
    const std::vector<std::string_view> values = parts(value, ',');
    bool good = false;
    const std::optional<Axis> axis = axis_named(key);
    const std::optional<std::uint32_t> size = number(value);
    if (axis && size) {
      good = *size >= 1;
      limits.sizes[index(*axis)] = *size;
    } else if ((key == "mbs" || key == "microbatch_size") && size) {
      good = *size >= 1;
      limits.microbatch_size = *size;
    } else if (key == "tensor" || key == "tp") {
      good = keep(limits.tensor, values, [](TensorAlgorithm a) { return name_of(a); });
    } else if (key == "schedule") {
      good = keep(limits.schedules, values, [](ScheduleName s) { return name_of(s); });
    } else if (key == "zero") {
      good = keep(limits.zero, values, [](std::uint32_t z) { return fmt::to_string(z); });
    } else if (key == "chunks") {
      const auto n = number(value);
      good = n && *n >= 1;
      limits.most_chunks = n.value_or(0);
    } else if (axis == Axis::context && value != "off" && value != "on") {
      good = keep(limits.context_algorithms, values, [](ContextAlgorithm a) { return name_of(a); });
    } else if (bool* limit = switch_named(limits, axis ? name_of(*axis) : key)) {
      good = value == "off" || value == "on";
      *limit = value == "on";
    }
    if (good) continue;
    out.error("cli.only", fmt::format("--only does not know \"{}\"", setting),
              {"Known: sizes as in tensor=8, pipeline=2, dp=4, cp=1, ep=8, microbatch_size=1; tensor=1d,2d,2.5d,3d;",
               "schedule=1f1b,... of those in the space; zero=0,1,2,3; chunks=N, at most N;",
               "replica=off; context=off or all_gather,ulysses,ring,ring_self_attention; inner_ring=off; expert=off;",
               "recompute_layers=off; offload=off; disks=off; offload_beside=off; grid_context=off; zero_chunks=off;",
               "parameter_chunks=off; zero_split=off.  Separate settings by spaces."});
  }
  return limits;
}

}  // namespace orrery
