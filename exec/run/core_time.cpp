#include "exec/run/core_time.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

namespace orrery {

double needed_core_time(const Program& program, const Trace& trace, std::uint32_t cores) {
  constexpr double seconds = 1e-12;  // per picosecond
  const bool all_at_once = trace.ranks.size() <= cores;
  double sum = 0.0;
  std::vector<std::pair<std::int64_t, int>> changes;  // of the number of kernels that run
  for (const RankTrace& rank : trace.ranks) {
    for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun& run) {
      if (!std::holds_alternative<Compute>(run.op->action)) return;
      const Span& span = rank.spans[index(run.id)];
      sum += static_cast<double>(span.end - span.start);
      if (all_at_once || span.end == span.start) return;
      changes.emplace_back(span.start, 1);
      changes.emplace_back(span.end, -1);
    });
  }
  if (all_at_once) return sum * seconds;
  std::sort(changes.begin(), changes.end());
  sum = 0.0;
  std::int64_t running = 0;
  std::int64_t at = 0;
  for (const auto& [when, change] : changes) {
    sum += static_cast<double>(std::min<std::int64_t>(running, cores)) * static_cast<double>(when - at);
    running += change;
    at = when;
  }
  return sum * seconds;
}

std::optional<std::string> core_shortage(const CoreTime& time) {
  constexpr double enough = 0.9;
  if (time.needed <= 0.0 || time.had >= enough * time.needed) return std::nullopt;
  return fmt::format(
      "this machine was busy: the threads were given {:.3g} s of the {:.3g} s of core time that they needed ({:.0f} "
      "%), "
      "so the times are too long; measure again when nothing else runs",
      time.had, time.needed, 100.0 * time.had / time.needed);
}

double program_core_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

CoreTime SerialWork::so_far() const {
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(),
          program_core_seconds() - had_before_};
}

}  // namespace orrery
