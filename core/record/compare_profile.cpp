#include "core/record/compare_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

struct Sum {
  std::int64_t time = 0;
  std::uint64_t count = 0;
};
/// Kind and size of the group: 0 where there is no group, or where sizes are not told apart.
using Sums = std::map<std::pair<WorkKind, std::uint32_t>, Sum>;

void add(Sums& sums, WorkKind kind, std::uint32_t ranks, std::int64_t time) {
  Sum& s = sums[{kind, ranks}];
  s.time += time;
  ++s.count;
}

}  // namespace

Comparison compare(const Trace& predicted, const Program& program, const ProfiledStep& measured,
                   const Tolerance& tolerance) {
  constexpr double picosecond = 1e-12;
  Comparison c;
  c.predicted = predicted.origin;
  c.measured = measured.origin;
  c.tolerance = tolerance;
  c.judges_memory = false;

  if (measured.of_ranks && *measured.of_ranks != program.mesh.size()) {
    c.same_plan = false;
    c.mismatches.push_back("the profile was recorded in a run of " + std::to_string(*measured.of_ranks) +
                           " ranks, but the plan has " + std::to_string(program.mesh.size()));
  }
  // Kinds of collective for which every run tells the size of its group.
  std::array<bool, work_kind_count> sized;
  sized.fill(true);
  for (const ProfiledKernel& k : measured.kernels) {
    if (is_collective(k.kind) && k.ranks == 0) sized[index(k.kind)] = false;
  }
  std::int64_t predicted_step = 0;
  for (const RankTrace& r : predicted.ranks) {
    for (const Span& s : r.spans) predicted_step = std::max(predicted_step, s.end);
  }
  c.predicted_step = Seconds::of(static_cast<double>(predicted_step) * picosecond);
  c.measured_step = Seconds::of(static_cast<double>(measured.duration) * picosecond);

  Sums left, right;
  RankTimes busy;
  ProfiledTimes times;
  std::int64_t ranks = 0;
  for (const StepOfRank& m : measured.ranks) {
    if (index(m.rank) >= program.mesh.size()) {
      c.same_plan = false;
      c.mismatches.push_back("the profile has rank " + std::to_string(index(m.rank)) +
                             ", but the plan has ranks 0 to " + std::to_string(program.mesh.size() - 1));
      continue;
    }
    auto p = std::find_if(predicted.ranks.begin(), predicted.ranks.end(),
                          [&](const RankTrace& r) { return r.rank == m.rank; });
    if (p == predicted.ranks.end()) {  // a rank of the same class does the same
      p = std::find_if(predicted.ranks.begin(), predicted.ranks.end(),
                       [&](const RankTrace& r) { return class_of(program, r.rank) == class_of(program, m.rank); });
    }
    if (p == predicted.ranks.end()) {
      c.mismatches.push_back("rank " + std::to_string(index(m.rank)) + " is not in the prediction");
      continue;
    }
    ORRERY_ASSERT(p->spans.size() == step_ops(program, p->rank));  // the prediction is of the plan
    ++ranks;
    for_each_op(program, program.classes[class_of(program, m.rank)].step, [&](const OpRun& run) {
      if (!is_timed(*run.op)) return;
      const Span span = p->spans[index(run.id)];
      const WorkKind kind = work_kind_of(*run.block, *run.op);
      const auto* collective = std::get_if<Collective>(&run.op->action);
      const std::uint32_t members = collective != nullptr ? group_size(program[collective->group], program.mesh) : 0;
      // A group of one sends nothing, and no training program starts a kernel for it.
      if (members == 1) return;
      const std::uint32_t size = is_collective(kind) && sized[index(kind)] ? members : 0;
      add(left, kind, size, span.end - span.start);
    });
    for (const StepRun& r : m.runs) {
      const ProfiledKernel& k = measured.kernels[r.kernel];
      add(right, k.kind, sized[index(k.kind)] ? k.ranks : 0, r.span.end - r.span.start);
    }
    const RankTimes pt = account(program, *p, predicted.concurrent_lanes);
    busy.busy += pt.busy;
    busy.collectives += pt.collectives;
    const ProfiledTimes mt = account(measured, m);
    times.busy += mt.busy;
    times.collectives += mt.collectives;
    times.bubble += mt.bubble + mt.message;
    c.predicted_peak_bytes = std::max(c.predicted_peak_bytes, p->peak_bytes);
    c.measured_peak_bytes = std::max(c.measured_peak_bytes, m.peak_bytes.value_or(0));
  }
  if (ranks == 0 && c.same_plan) {
    c.same_plan = false;
    c.mismatches.emplace_back("the prediction and the profile have no rank in common");
  }
  c.step_error = relative_error(c.predicted_step.base(), c.measured_step.base());
  if (ranks > 0) {
    const auto mean = [&](std::int64_t sum) {
      return Seconds::of(static_cast<double>(sum) / static_cast<double>(ranks) * picosecond);
    };
    const auto row = [&](std::string name, std::int64_t p, std::int64_t m) {
      ComparedTime out{std::move(name), mean(p), mean(m), 0, 0, {}, {}};
      out.error = relative_error(out.predicted.base(), out.measured.base());
      return out;
    };
    c.parts.push_back(row("compute", busy.busy, times.busy));
    c.parts.push_back(row("waiting for collectives", busy.collectives, times.collectives));
    c.parts.push_back(row("bubble", ranks * predicted_step - busy.busy - busy.collectives, times.bubble));
    for (const auto& [key, sum] : right) left.try_emplace(key);
    for (const auto& [key, p] : left) {
      const auto at = right.find(key);
      const Sum m = at == right.end() ? Sum{} : at->second;
      ComparedTime line = row(name_of(key.first, key.second), p.time, m.time);
      line.predicted_count = p.count / static_cast<std::uint64_t>(ranks);
      line.measured_count = m.count / static_cast<std::uint64_t>(ranks);
      c.operations.push_back(std::move(line));
    }
  }
  c.within_tolerance =
      c.step_error && std::abs(*c.step_error) <= tolerance.step_time && c.mismatches.empty() && c.same_plan;
  return c;
}

}  // namespace orrery
