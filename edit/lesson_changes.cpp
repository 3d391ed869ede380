#include "edit/lesson_changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "core/base/counted.hpp"
#include "core/base/nearest.hpp"
#include "planner/move.hpp"

namespace orrery {
namespace {

std::vector<std::string> keys_of_dimensions() {
  std::vector<std::string> out{"mesh.order"};
  for (const Dimension& d : dimensions()) {
    if (is_turned(d)) out.emplace_back(d.key);
  }
  return out;
}

}  // namespace

std::optional<LessonChange> plan_change(const std::string& text, std::string& why) {
  std::istringstream in(text);
  std::string key, word;
  std::vector<std::string> words;
  in >> key;
  while (in >> word) words.push_back(word);
  LessonChange out;
  if (key == "mesh.order") {
    for (const std::string& name : words) {
      const auto axis = axis_named(name);
      if (!axis) {
        why = fmt::format("no axis is named \"{}\"; the axes are {}", name, plan_axes_text());
        return std::nullopt;
      }
      out.order.push_back(*axis);
    }
    if (out.order.empty()) why = "mesh.order names the axes, outermost first";
    return out.order.empty() ? std::nullopt : std::optional(std::move(out));
  }
  const std::vector<std::string> keys = keys_of_dimensions();
  const bool known = std::find(keys.begin(), keys.end(), key) != keys.end();
  if (!known || words.size() != 1) {
    why = !known
              ? fmt::format("a lesson cannot change \"{}\"; nearest: {}", key, fmt::join(nearest(key, keys, 2), ", "))
              : fmt::format("\"{}\" is not a key and its value, as in \"mesh.tensor 4\"", text);
    return std::nullopt;
  }
  out.dimension = dimension_named(key);
  const auto value = value_named(*out.dimension, words.front(), why);
  if (!value) return std::nullopt;
  out.value = *value;
  return out;
}

PlannedRun in_order(PlannedRun run, const std::vector<Axis>& order) {
  const auto place = [&](Axis axis) {
    return std::find(order.begin(), order.end(), axis) - order.begin();  // behind them all where it is not named
  };
  std::stable_sort(run.plan.mesh.axes.begin(), run.plan.mesh.axes.end(),
                   [&](const MeshAxis& a, const MeshAxis& b) { return place(a.axis) < place(b.axis); });
  run.plan.placement.clear();
  return run;
}

std::optional<PlannedRun> with_swapped_devices(PlannedRun run, std::uint32_t one, std::uint32_t other,
                                               std::string& why) {
  const std::uint64_t devices = run.cluster->devices();
  if (one >= devices || other >= devices) {
    why = fmt::format("the plan's cluster has {}, but this is number {}", counted(devices, "device"),
                      std::max(one, other));
    return std::nullopt;
  }
  std::vector<std::uint32_t>& placement = run.plan.placement;
  if (placement.empty()) {
    for (std::uint32_t r = 0; r < run.plan.mesh.size(); ++r) placement.push_back(r);
  }
  bool any = false;
  for (std::uint32_t& device : placement) {
    any = any || device == one || device == other;
    device = device == one ? other : device == other ? one : device;
  }
  if (!any) {
    why = "neither device runs a rank";
    return std::nullopt;
  }
  // Axes that are back in their first order need no list.
  bool plain = true;
  for (std::uint32_t r = 0; r < placement.size(); ++r) plain = plain && placement[r] == r;
  if (plain) placement.clear();
  return run;
}

std::optional<PlannedRun> with_changes(PlannedRun run, const std::vector<LessonChange>& changes, std::string& why) {
  for (const LessonChange& c : changes) {
    if (!c.dimension) {
      run = in_order(std::move(run), c.order);
    } else if (c.dimension->get(run) != c.value) {
      auto move = moved(run, *c.dimension, c.value, why);
      if (!move) return std::nullopt;
      run = std::move(move->run);
    }
  }
  for (const LessonChange& c : changes) {
    if (c.dimension && c.dimension->get(run) != c.value) {
      why = fmt::format("a later change undoes {} {}", c.dimension->key, text_of(*c.dimension, c.value));
      return std::nullopt;
    }
  }
  return run;
}

}  // namespace orrery
