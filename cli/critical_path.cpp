#include "cli/critical_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

Seconds seconds(std::int64_t picoseconds) { return Seconds::of(static_cast<double>(picoseconds) * 1e-12); }

/// A part of the path that stays on one rank.
struct Stretch {
  Rank rank{};
  std::size_t ops = 0;
  std::int64_t start = 0, end = 0;
  std::map<Operation, std::int64_t> time;
  Operation last{};  ///< over which it came to the next rank
};

std::vector<Stretch> stretches(const CriticalPath& path) {
  std::vector<Stretch> out;
  for (const CriticalStep& s : path.steps) {
    if (out.empty() || out.back().rank != s.rank) out.push_back({s.rank, 0, s.start, s.end, {}, {}});
    Stretch& at = out.back();
    ++at.ops;
    at.end = s.end;
    at.time[s.operation] += s.end - s.start;
    at.last = s.operation;
  }
  return out;
}

constexpr std::size_t most = 12;  ///< rows of a table

std::string gain_name(const Gain& g) {
  if (g.links) return fmt::format("links: {}", name_of(*g.links));
  return g.all_compute ? "all kernels together" : name_of(g.operation);
}

}  // namespace

std::string path_text(const Simulation& simulation, std::optional<Seconds> least_anywhere) {
  const CriticalPath& path = *simulation.critical_path;
  const std::int64_t step = path.steps.empty() ? 0 : path.steps.back().end;
  const std::vector<Stretch> parts = stretches(path);
  std::string out = fmt::format("critical path: {}, {} from rank to rank\n\n", counted(path.steps.size(), "operation"),
                                counted(parts.empty() ? 0 : parts.size() - 1, "time", "times"));
  const bool replayed = !simulation.gains.empty();
  std::vector<std::string> head{"on the path", "<", "of the step"};
  if (replayed) head.push_back("10 % less of it saves");
  Table table(head);
  const auto share = [&](std::int64_t t) {
    return percent(static_cast<double>(t) / static_cast<double>(std::max<std::int64_t>(step, 1)));
  };
  if (replayed) {
    std::size_t shown = 0;
    for (const Gain& g : simulation.gains) {
      if (!g.links && ++shown > most) continue;
      table.row({gain_name(g), g.links ? "-" : short_text(seconds(g.on_path)), g.links ? "-" : share(g.on_path),
                 fmt::format("{} ({})", short_text(seconds(g.saved)), share(g.saved))});
    }
  } else {
    const std::vector<std::int64_t> sums = path.by_operation();
    std::vector<std::size_t> order(sums.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sums[a] > sums[b]; });
    order.resize(most);
    for (const std::size_t i : order) {
      if (sums[i] > 0)
        table.row({name_of(Operation{static_cast<std::uint8_t>(i)}), short_text(seconds(sums[i])), share(sums[i])});
    }
  }
  if (path.waiting > 0) {
    std::vector<std::string> row{"waiting for a core", short_text(seconds(path.waiting)), share(path.waiting)};
    if (replayed) row.emplace_back("");
    table.row(std::move(row));
  }
  out += table.str();
  const auto ops = static_cast<std::size_t>(
      std::count_if(simulation.gains.begin(), simulation.gains.end(), [](const Gain& g) { return !g.links; }));
  if (ops > most) out += fmt::format("the longest {} of {}; --json has all\n", most, ops);
  if (least_anywhere) {
    const auto saved =
        static_cast<std::int64_t>(std::max(0.0, static_cast<double>(step) - least_anywhere->base() * 1e12));
    out += fmt::format("ranks elsewhere: saves {} ({}) at most; orrery place looks for where\n",
                       short_text(seconds(saved)), share(saved));
  }
  // The longest stretches, in order of time.
  std::vector<std::size_t> shown(parts.size());
  for (std::size_t i = 0; i < shown.size(); ++i) shown[i] = i;
  std::stable_sort(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
    return parts[a].end - parts[a].start > parts[b].end - parts[b].start;
  });
  shown.resize(std::min(shown.size(), most));
  std::sort(shown.begin(), shown.end());
  Table way({"rank", "from", "to", "operations", "mostly", "<", "until its last"});
  for (const std::size_t i : shown) {
    const Stretch& s = parts[i];
    const auto longest = std::max_element(s.time.begin(), s.time.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
    way.row(
        {std::to_string(index(s.rank)), short_text(seconds(s.start)), short_text(seconds(s.end)), std::to_string(s.ops),
         name_of(longest->first), short_text(seconds(longest->second)),
         i + 1 < parts.size() ? fmt::format("{}, for rank {}", name_of(s.last), index(parts[i + 1].rank)) : "the end"});
  }
  out += "\n" + way.str();
  if (parts.size() > most) out += fmt::format("the longest {} of {}; --json has all\n", most, parts.size());
  return out;
}

nlohmann::ordered_json path_json(const Simulation& simulation, std::optional<Seconds> least_anywhere) {
  const CriticalPath& path = *simulation.critical_path;
  nlohmann::ordered_json json;
  json["waiting_s"] = seconds(path.waiting).base();
  json["by_operation"] = nlohmann::ordered_json::array();
  const std::vector<std::int64_t> sums = path.by_operation();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] == 0) continue;
    json["by_operation"].push_back(
        {{"operation", name_of(Operation{static_cast<std::uint8_t>(i)})}, {"on_path_s", seconds(sums[i]).base()}});
  }
  json["gains"] = nlohmann::ordered_json::array();
  for (const Gain& g : simulation.gains) {
    nlohmann::ordered_json one{{"of", gain_name(g)}, {"on_path_s", seconds(g.on_path).base()}};
    if (g.links) one["on_path_s"] = nullptr;  // messages of many ops cross them at once
    one["saved_by_a_tenth_less_s"] = seconds(g.saved).base();
    json["gains"].push_back(std::move(one));
  }
  if (least_anywhere) json["least_step_time_anywhere_s"] = least_anywhere->base();
  json["steps"] = nlohmann::ordered_json::array();
  for (const CriticalStep& s : path.steps) {
    json["steps"].push_back({{"rank", index(s.rank)},
                             {"op", index(s.op)},
                             {"operation", name_of(s.operation)},
                             {"start_s", seconds(s.start).base()},
                             {"end_s", seconds(s.end).base()}});
  }
  return json;
}

}  // namespace orrery
