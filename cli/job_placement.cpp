#include "cli/job_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "cli/common.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/spec_check.hpp"

namespace orrery {

namespace {

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t end = text.find(at);
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size() || value >= max_devices) return std::nullopt;
  return value;
}

/// "0-3,8"
std::vector<std::uint32_t> numbers_of(const char* flag, std::string_view text) {
  std::vector<std::uint32_t> out;
  for (const std::string_view run : split(text, ',')) {
    const std::size_t dash = run.find('-');
    const std::optional<std::uint32_t> first = number_of(run.substr(0, dash));
    const std::optional<std::uint32_t> last = dash == std::string_view::npos ? first : number_of(run.substr(dash + 1));
    if (!first || !last || *last < *first) {
      refuse("cli.jobs", fmt::format("{}: \"{}\" is neither a number nor a run of numbers", flag, escaped(run)),
             {"\"0-3/4,6\" would give 0 to 3 to the first plan, 4 and 6 to the second."});
    }
    for (std::uint32_t n = *first; n <= *last; ++n) out.push_back(n);
  }
  return out;
}

/// The list of each job.
std::vector<std::vector<std::uint32_t>> lists_of(const char* flag, const std::string& text, std::size_t jobs) {
  const std::vector<std::string_view> parts = split(text, '/');
  if (parts.size() != jobs) {
    refuse("cli.jobs", fmt::format("{} has {} for {}", flag, counted(parts.size(), "list"), counted(jobs, "plan")),
           {"Give one list for each plan, with / between them: \"0-3/4-7\"."});
  }
  std::vector<std::vector<std::uint32_t>> out;
  for (const std::string_view part : parts) out.push_back(numbers_of(flag, part));
  return out;
}

}  // namespace

std::vector<std::vector<std::uint32_t>> place_jobs(const std::vector<std::uint32_t>& ranks, std::uint32_t per_node,
                                                   const JobPlacement& how) {
  if ((how.interleave ? 1 : 0) + (how.nodes ? 1 : 0) + (how.gpus ? 1 : 0) > 1) {
    refuse("cli.jobs", "only one of --interleave, --nodes and --on-gpus can say where jobs lie");
  }
  const std::size_t jobs = ranks.size();
  std::vector<std::vector<std::uint32_t>> out(jobs);
  const auto nodes_for = [&](std::size_t j) { return (ranks[j] + per_node - 1) / per_node; };
  const auto fill = [&](std::size_t j, std::uint32_t node) {
    for (std::uint32_t g = 0; g < per_node && out[j].size() < ranks[j]; ++g) out[j].push_back(node * per_node + g);
  };
  if (how.gpus) {
    out = lists_of("--on-gpus", *how.gpus, jobs);
    for (std::size_t j = 0; j < jobs; ++j) {
      if (out[j].size() == ranks[j]) continue;
      refuse("cli.jobs", fmt::format("--on-gpus gives {} to plan {}", counted(out[j].size(), "GPU"), j + 1),
             {fmt::format("It has {}.", counted(ranks[j], "rank"))});
    }
  } else if (how.nodes) {
    const std::vector<std::vector<std::uint32_t>> nodes = lists_of("--nodes", *how.nodes, jobs);
    for (std::size_t j = 0; j < jobs; ++j) {
      if (nodes[j].size() != nodes_for(j)) {
        refuse("cli.jobs", fmt::format("--nodes gives {} to plan {}", counted(nodes[j].size(), "node"), j + 1),
               {fmt::format("Its {} fill {} of {}.", counted(ranks[j], "rank"), counted(nodes_for(j), "node"),
                            counted(per_node, "GPU"))});
      }
      for (const std::uint32_t n : nodes[j]) {
        if (n >= max_devices / per_node) refuse("cli.jobs", fmt::format("--nodes: there is no node {}", n));
        fill(j, n);
      }
    }
  } else if (how.interleave) {
    std::uint32_t node = 0;
    for (bool more = true; more;) {
      more = false;
      for (std::size_t j = 0; j < jobs; ++j) {
        if (out[j].size() < ranks[j]) fill(j, node++);
        more = more || out[j].size() < ranks[j];
      }
    }
  } else {
    std::uint32_t next = 0;
    for (std::size_t j = 0; j < jobs; ++j) {
      const std::uint32_t left = (per_node - next % per_node) % per_node;
      if (ranks[j] > left) next += left;
      for (std::uint32_t r = 0; r < ranks[j]; ++r) out[j].push_back(next++);
    }
  }
  std::map<std::uint32_t, std::size_t> owner;
  for (std::size_t j = 0; j < jobs; ++j) {
    for (const std::uint32_t g : out[j]) {
      const auto [at, is_new] = owner.try_emplace(g, j);
      if (is_new) continue;
      refuse("cli.jobs", fmt::format("GPU {} of node {} would belong to {}", g % per_node, g / per_node,
                                     at->second == j ? fmt::format("plan {} twice", j + 1)
                                                     : fmt::format("plans {} and {}", at->second + 1, j + 1)));
    }
  }
  return out;
}

std::map<std::uint32_t, double> slow_gpus_of(const std::vector<std::string>& given) {
  std::map<std::uint32_t, double> out;
  for (const std::string& text : given) {
    const std::size_t at = text.find('=');
    const std::string number = at == std::string::npos ? "" : text.substr(at + 1);
    double factor = 0.0;
    const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), factor);
    if (failure != std::errc{} || end != number.data() + number.size() || !(factor >= 1.0 && factor <= 1000.0)) {
      refuse("cli.slowdown", fmt::format("--slow-gpus: \"{}\" needs a factor from 1 to 1000", escaped(text)),
             {"\"3,8-15=1.3\": GPUs 3 and 8 to 15 take 1.3 times as long."});
    }
    for (const std::uint32_t gpu : numbers_of("--slow-gpus", std::string_view(text).substr(0, at))) {
      out.try_emplace(gpu, 1.0).first->second *= factor;
    }
  }
  return out;
}

std::vector<SlowRank> slow_ranks_on(const std::map<std::uint32_t, double>& slow, std::uint64_t ranks,
                                    const std::vector<std::uint32_t>& placement) {
  std::vector<SlowRank> out;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const auto found = slow.find(placement.empty() ? r : placement[r]);
    if (found != slow.end()) out.push_back({Rank{r}, found->second});
  }
  return out;
}

void require_ranks_on(const std::map<std::uint32_t, double>& slow, const std::vector<std::vector<SlowRank>>& found) {
  std::size_t ranks = 0;
  for (const std::vector<SlowRank>& job : found) ranks += job.size();
  if (ranks == slow.size()) return;
  refuse("cli.slowdown",
         fmt::format("--slow-gpus names {}, but ranks lie on {} of them", counted(slow.size(), "GPU"), ranks),
         {"GPUs count from 0, node by node."});
}

std::string runs_text(const std::vector<std::uint32_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    out += fmt::format("{}{}", out.empty() ? "" : ",", numbers[i]);
    if (end > i + 1) out += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace orrery
