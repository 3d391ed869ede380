#include "planner/levels.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "planner/openings.hpp"

namespace orrery {
namespace {

std::vector<std::string> texts(const std::set<std::uint64_t>& numbers) {
  std::vector<std::string> out;
  for (const std::uint64_t n : numbers) out.push_back(fmt::to_string(n));
  return out;
}

/// Names of a choice, a switch or a share that are allowed.
std::vector<std::string> allowed(const Dimension& d, const SearchLimits& limits) {
  std::vector<std::string> out;
  for (std::uint64_t v = 0; v < d.names.size(); ++v) {
    const bool is_turned = d.names[v] != "auto" && d.names[v] != "as written" && d.names[v] != "custom";
    if (is_turned && limits.allow(d.key, v)) out.emplace_back(d.names[v]);
  }
  return out;
}

}  // namespace

Levels levels_of(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                 const SearchLimits& limits) {
  Levels out;
  const Calibration unpriced;
  Appraiser appraiser(model, workload, cluster, unpriced, limits.close);
  const std::vector<Plan> shapes = coarse_shapes(appraiser, limits, dimensions());
  out.shapes = shapes.size();
  for (const Dimension& d : dimensions()) {
    if (!is_searched(d) || d.key == "plan.collective_algorithm" || d.key == "plan.gradient_bucket") continue;
    if (d.key.ends_with("_tier") && !cluster.disk) continue;
    const bool coarse = d.kind == DimensionKind::axis || d.key == "plan.microbatch_size";
    Level level{std::string(d.key), is_named(d) ? allowed(d, limits) : std::vector<std::string>{}};
    if (coarse) {
      std::set<std::uint64_t> sizes;
      for (const Plan& plan : shapes) {
        if (d.kind == DimensionKind::axis) {
          sizes.insert(d.get(appraiser.run(plan)));
          continue;
        }
        for (const std::uint32_t n : microbatch_sizes(plan, workload)) {
          if (limits.allow(d.key, n)) sizes.insert(n);
        }
      }
      level.values = texts(sizes);
    } else if (const auto at = limits.only.find(d.key); !is_named(d) && at != limits.only.end()) {
      level.values = texts({at->second.begin(), at->second.end()});
    }
    if (level.values.size() == 1 && !coarse) continue;  // decided
    (coarse ? out.coarse : out.changed).push_back(std::move(level));
  }
  return out;
}

std::string describe(const Levels& levels) {
  const auto list = [](const std::vector<Level>& of) {
    std::string out;
    for (const Level& l : of) {
      out += fmt::format(
          "  {:<28}{}\n", l.key,
          l.values.empty() ? "whole numbers near the plan's" : fmt::format("{}", fmt::join(l.values, ", ")));
    }
    return out;
  };
  return fmt::format(
             "{} shapes (sizes of the axes), each with every size of microbatch while larger ones are faster:\n",
             levels.shapes) +
         list(levels.coarse) +
         "Then changes of the best of these, one by one and in pairs, factors of axes among them:\n" +
         list(levels.changed) +
         "  order of axes               each axis in each other's place\n"
         "  plan.stage_layers           first and last stage a layer more or less\n";
}

}  // namespace orrery
