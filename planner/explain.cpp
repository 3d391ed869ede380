#include "planner/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "core/base/units_text.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_names.hpp"
#include "core/program/lower/lower.hpp"
#include "planner/complete.hpp"
#include "planner/describe.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

constexpr std::size_t pass_count = static_cast<std::size_t>(Pass::optimizer) + 1;

/// Compute-lane time by pass, mean over classes of ranks.
std::array<double, pass_count> compute_by_pass(const Program& program, const CostModel& costs) {
  std::array<double, pass_count> sums{};
  std::vector<std::optional<std::array<double, pass_count>>> blocks(program.blocks.size());
  for (const RankClass& ranks : program.classes) {
    for (const Slot& slot : ranks.step) {
      auto& known = blocks[index(slot.block)];
      if (!known) {
        known.emplace();
        known->fill(0.0);
        const Block& block = program[slot.block];
        for (const Op& op : block.ops) {
          const auto* compute = std::get_if<Compute>(&op.action);
          if (compute == nullptr) continue;
          (*known)[index(block.kernels[compute->kernel].pass)] +=
              static_cast<double>(picoseconds(costs.compute(program, block, op)));
        }
      }
      for (std::size_t p = 0; p < pass_count; ++p) sums[p] += (*known)[p] * slot.repeat;
    }
  }
  for (double& s : sums) s *= 1e-12 / static_cast<double>(program.classes.size());
  return sums;
}

struct Priced {
  Report report;
  std::vector<TimeTerm> terms;
};

Priced price(const PlannedRun& run, const Calibration& calibration) {
  const Program program = lower(run.model, run.workload, run.plan);
  const CostModel costs(*run.cluster, calibration, run.plan.mesh, run.plan.placement, run.plan.collective_algorithm);
  Priced out{estimate(run, program, costs), {}};
  judge_memory(out.report, run, program, calibration);
  const auto passes = compute_by_pass(program, costs);
  for (std::size_t p = 0; p < pass_count; ++p) {
    if (passes[p] == 0.0) continue;
    std::string name(name_of(static_cast<Pass>(p)));
    std::replace(name.begin(), name.end(), '_', ' ');
    out.terms.push_back({std::move(name), Seconds::of(passes[p])});
  }
  out.terms.push_back({"waiting for collectives", exposed_collectives(out.report)});
  out.terms.push_back({"bubble", out.report.bubble_fraction * out.report.step_time});
  return out;
}

std::string memory_text(const StageMemory& m) {
  const auto gib = [](std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); };
  return fmt::format("weights {}, gradients {}, optimizer {}, activations {}, workspace {}", gib(m.weights),
                     gib(m.gradients), gib(m.optimizer), gib(m.activations), gib(m.workspace));
}

std::uint32_t fullest(const Report& report) {
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < report.memory_by_stage.size(); ++i) {
    if (held(report.memory_by_stage[i]) > held(report.memory_by_stage[at])) at = i;
  }
  return at;
}

std::string overflow_text(const Report& report) {
  const MemoryVerdict short_of = memory_verdict(report);
  std::string out = "it needs " + text_of(short_of) + ".\n";
  if (short_of.where != MemoryVerdict::Where::device) return out;
  return out + fmt::format("  Tensors at their peak: {}.\n", memory_text(report.memory_by_stage[fullest(report)]));
}

std::string memory_of(const PlanChange& c) { return text_of(c.memory); }

double percent(Seconds part, Seconds whole) { return whole > Seconds() ? 100.0 * (part / whole) : 0.0; }

bool quicker(const PlanChange& a, const PlanChange& b) { return a.step_time < b.step_time; }

std::string text_of(const Explanation& e) {
  const Report& r = e.report;
  std::string text = describe(e.plan) + "\n";
  for (const Resolution& x : e.resolved) text += fmt::format("  auto: {} = {} ({})\n", x.key, x.value, x.reason);
  if (!r.fits) text += "Does not fit: " + overflow_text(r);
  if (e.smallest_fix) {
    const PlanChange& fix = *e.smallest_fix;
    if (fix.memory.fits) {
      text += fmt::format("  Smallest single change that fits: {} ({}, {} a step).\n", describe(fix), memory_of(fix),
                          short_text(fix.step_time));
    } else {
      text += fmt::format("  No single change fits.  Least memory: {} ({}).\n", describe(fix), memory_of(fix));
    }
  }
  text += fmt::format("Step {}:\n", short_text(r.step_time, 4));
  for (const TimeTerm& t : e.terms) {
    text += fmt::format("  {:<22} {:>9}  {:5.1f} %\n", t.name, short_text(t.time), percent(t.time, r.step_time));
  }
  if (r.fits && !r.memory_by_stage.empty()) {
    const StageMemory& m = r.memory_by_stage[e.fullest_stage];
    const auto gib = [](std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); };
    text += fmt::format("Memory: stage {} is the fullest, its process holds {}{}; tensors {}: {}.\n", m.stage,
                        gib(held(m)), m.capacity ? " of " + gib(*m.capacity) : "", gib(m.peak), memory_text(m));
  }
  if (!r.fits) return text;
  switch (e.binding) {
    case Binding::choice:
      text += fmt::format("A single change is faster: {} takes {} ({:.1f} % less) in {}.\n", describe(e.faster.front()),
                          short_text(e.faster.front().step_time, 4),
                          percent(r.step_time - e.faster.front().step_time, r.step_time), memory_of(e.faster.front()));
      break;
    case Binding::memory:
      text +=
          fmt::format("Memory binds: {} would take {} ({:.1f} % less) but needs {}.\n",
                      describe(e.faster_if_it_fitted.front()), short_text(e.faster_if_it_fitted.front().step_time, 4),
                      percent(r.step_time - e.faster_if_it_fitted.front().step_time, r.step_time),
                      memory_of(e.faster_if_it_fitted.front()));
      break;
    case Binding::largest: {
      const auto most = std::max_element(e.terms.begin(), e.terms.end(),
                                         [](const TimeTerm& a, const TimeTerm& b) { return a.time < b.time; });
      text += fmt::format("No single change is faster; the largest term is {}.\n", most->name);
      break;
    }
  }
  return text;
}

/// How far a plan is from fitting, in bytes: up to 0 it does.
std::int64_t shortage(const MemoryVerdict& v) {
  return static_cast<std::int64_t>(v.need + v.kept_free) - static_cast<std::int64_t>(v.room);
}

}  // namespace

std::vector<PlanChange> single_changes(const PlannedRun& run) {
  std::vector<PlanChange> out;
  for (const Reach reach : {Reach::plan, Reach::mesh}) {
    for (Neighbour& n : neighbours(run, reach)) {
      complete(n.plan, run.model, run.workload);
      out.push_back({std::move(n), {}, {}});
    }
  }
  return out;
}

Explanation explain(const PlannedRun& given, const Calibration& calibration, const WorkProgress& progress,
                    std::optional<Bytes> headroom) {
  ORRERY_ASSERT(given.cluster.has_value());
  PlannedRun run = given;
  Explanation out;
  ResolvedPlan resolved = resolve(given.plan, given.model, given.workload, *given.cluster, calibration);
  run.plan = resolved.plan;
  out.plan = resolved.plan;
  out.resolved = std::move(resolved.resolved);
  Priced priced = price(run, calibration);
  out.report = std::move(priced.report);
  out.terms = std::move(priced.terms);
  out.fullest_stage = fullest(out.report);

  const Picoseconds now = picoseconds(out.report.step_time);
  const MemoryRules rules{headroom.value_or(default_headroom(*run.cluster, calibration)), false};
  PlannedRun changed = run;
  std::vector<PlanChange> fitting;
  std::optional<PlanChange> leanest;
  std::vector<PlanChange> changes = single_changes(run);
  Estimator estimator;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    PlanChange& change = changes[i];
    if (progress) progress(i, changes.size());
    changed.plan = change.plan;
    const Program program = lower(run.model, run.workload, change.plan);
    const CostModel costs(*run.cluster, calibration, change.plan.mesh, change.plan.placement,
                          change.plan.collective_algorithm);
    change.step_time = estimator.step_time(program, costs);
    // How much a process holds takes longest to know, and matters of plans that are faster or make it fit.
    if (picoseconds(change.step_time) >= now && out.report.fits) continue;
    change.memory = memory_verdict(changed, program, calibration, rules);
    if (!leanest || shortage(change.memory) < shortage(leanest->memory)) leanest = change;
    if (change.memory.fits) fitting.push_back(change);
    if (picoseconds(change.step_time) >= now) continue;
    (change.memory.fits ? out.faster : out.faster_if_it_fitted).push_back(std::move(change));
  }
  std::stable_sort(out.faster.begin(), out.faster.end(), quicker);
  std::stable_sort(out.faster_if_it_fitted.begin(), out.faster_if_it_fitted.end(), quicker);
  if (!out.report.fits) {
    const auto least = std::min_element(fitting.begin(), fitting.end(), quicker);
    if (least != fitting.end()) {
      out.smallest_fix = *least;
    } else {
      out.smallest_fix = leanest;
    }
  }
  out.binding = !out.faster.empty()                ? Binding::choice
                : !out.faster_if_it_fitted.empty() ? Binding::memory
                                                   : Binding::largest;
  out.text = text_of(out);
  return out;
}

namespace {

/// What two plans decide differently, one line each.
std::vector<std::string> different_decisions(const Plan& a, const Plan& b) {
  std::vector<std::string> lines;
  const auto compare = [&](const char* name, const auto& x, const auto& y, auto&& text) {
    if (!(x == y)) lines.push_back(fmt::format("{}: {} | {}", name, text(x), text(y)));
  };
  const auto number = [](const auto& x) { return fmt::to_string(x); };
  const auto flag = [](bool x) { return std::string(x ? "on" : "off"); };
  const auto name = [](const auto& x) { return std::string(name_of(x)); };
  const auto mesh = [](const Mesh& m) {
    std::string text;
    for (const MeshAxis& x : m.axes) text += fmt::format("{}{} {}", text.empty() ? "" : " x ", name_of(x.axis), x.size);
    return text.empty() ? std::string("one rank") : text;
  };
  const auto stages = [](const std::vector<std::uint32_t>& s) {
    std::string text;
    for (const std::uint32_t n : s) text += fmt::format("{}{}", text.empty() ? "" : " ", n);
    return text;
  };
  compare("mesh", a.mesh, b.mesh, mesh);
  compare("microbatch_size", a.microbatch_size, b.microbatch_size, number);
  compare("schedule", a.schedule, b.schedule, name);
  compare("stage_layers", *a.stage_layers, *b.stage_layers, stages);
  compare("sequence_parallel", a.sequence_parallel, b.sequence_parallel, flag);
  compare("recompute", a.recompute, b.recompute, name);
  compare("zero_stage", a.zero_stage, b.zero_stage, number);
  compare("gradient_bucket", *a.gradient_bucket, *b.gradient_bucket, [](Bytes x) { return exact_text(x); });
  compare("overlap_gradients", *a.overlap_gradients, *b.overlap_gradients, flag);
  compare("attention", *a.attention, *b.attention, name);
  if (a.placement != b.placement) lines.emplace_back("placement differs");
  // What else the files say differently: no decision is forgotten when plans learn new ones.
  static constexpr std::string_view told[] = {"plan.microbatch_size",   "plan.schedule",          "plan.stage_layers",
                                              "plan.sequence_parallel", "plan.recompute",         "plan.zero_stage",
                                              "plan.gradient_bucket",   "plan.overlap_gradients", "plan.attention"};
  const std::vector<Decision> left = decisions(a), right = decisions(b);
  const auto value = [](const std::vector<Decision>& list, const std::string& key) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const Decision& d) { return d.key == key; });
    return at == list.end() ? std::string("not set") : at->value;
  };
  std::vector<std::string> keys;
  for (const auto* list : {&left, &right}) {
    for (const Decision& d : *list) {
      if (!d.key.starts_with("plan.") || std::find(std::begin(told), std::end(told), d.key) != std::end(told)) continue;
      if (std::find(keys.begin(), keys.end(), d.key) == keys.end()) keys.push_back(d.key);
    }
  }
  for (const std::string& key : keys) {
    const std::string x = value(left, key), y = value(right, key);
    if (x != y) lines.push_back(fmt::format("{}: {} | {}", key.substr(5), x, y));
  }
  return lines;
}

}  // namespace

Difference explain_difference(const PlannedRun& given, const PlannedRun& given_other, const Calibration& calibration) {
  ORRERY_ASSERT(given.cluster.has_value());
  Difference out;
  PlannedRun run = given;
  run.plan = resolve(given.plan, given.model, given.workload, *given.cluster, calibration).plan;
  const Priced a = price(run, calibration);
  out.reference_fits = a.report.fits;
  // Said first: a plan that cannot run is no reference for another.
  const std::string unfit = a.report.fits ? "" : "This plan itself does not fit: " + overflow_text(a.report);
  Diagnostics wrong;
  check(given_other.plan, given_other.model, given_other.workload, &*given.cluster, wrong);
  if (!wrong.empty()) {
    out.valid = false;
    out.fits = false;
    out.first_violation = render(wrong.list().front());
    out.text = unfit + "That plan breaks a rule.\n" + out.first_violation;
    return out;
  }
  PlannedRun other = given_other;
  other.cluster = given.cluster;
  other.plan = resolve(other.plan, other.model, other.workload, *other.cluster, calibration).plan;
  const Priced b = price(other, calibration);
  out.reference = a.report;
  out.other_report = b.report;
  out.fits = b.report.fits;
  out.decisions = different_decisions(run.plan, other.plan);
  for (const TimeTerm& t : a.terms) out.terms.push_back({t.name, t.time, {}});
  for (const TimeTerm& t : b.terms) {
    const auto same =
        std::find_if(out.terms.begin(), out.terms.end(), [&](const TermDifference& d) { return d.name == t.name; });
    if (same != out.terms.end()) {
      same->other = t.time;
    } else {
      out.terms.push_back({t.name, {}, t.time});
    }
  }
  std::stable_sort(out.terms.begin(), out.terms.end(), [](const TermDifference& x, const TermDifference& y) {
    return x.other - x.reference > y.other - y.reference;
  });

  std::string& text = out.text;
  text = unfit;
  for (const std::string& line : out.decisions) text += "  " + line + "\n";
  if (out.decisions.empty()) text += "  The plans decide everything alike.\n";
  if (!b.report.fits) text += "That plan does not fit: " + overflow_text(b.report);
  const Seconds difference = b.report.step_time - a.report.step_time;
  text += fmt::format("It takes {} a step, this one {}", short_text(b.report.step_time, 4),
                      short_text(a.report.step_time, 4));
  if (difference == Seconds()) {
    text += ": the same.\n";
    return out;
  }
  text += fmt::format(": {} ({:.1f} %) {}.\n", short_text(std::abs(difference.base()) * second),
                      percent(std::abs(difference.base()) * second, a.report.step_time),
                      difference > Seconds() ? "more" : "less");
  for (const TermDifference& t : out.terms) {
    const double more = (t.other - t.reference).base();
    if (std::abs(more) < 1e-4 * a.report.step_time.base()) continue;
    text += fmt::format("  {:<22} {} {}\n", t.name, more > 0 ? "+" : "-", short_text(std::abs(more) * second));
  }
  return out;
}

}  // namespace orrery
