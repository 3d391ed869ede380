#include "cli/adaptation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/amounts.hpp"
#include "cli/replan.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "exec/checkpoint/memory_files.hpp"
#include "exec/checkpoint/restore.hpp"
#include "exec/checkpoint/save.hpp"
#include "exec/run/op_runner.hpp"
#include "exec/run/rank_runner.hpp"
#include "planner/describe.hpp"
#include "sim/cost/recalibrate.hpp"
#include "sim/estimate/estimate.hpp"

namespace orrery {
namespace {

constexpr std::size_t window_steps = 5;
constexpr double search_share = 0.1;  ///< most of the time that searches take
constexpr const char* state_folder = "state";

double seconds_since(std::int64_t then) { return static_cast<double>(now_ns() - then) * 1e-9; }
std::string seconds_text(double s) { return short_text(Seconds::of(s)); }

double step_seconds(const Trace& trace) {
  std::int64_t end = 0;
  for (const RankTrace& rank : trace.ranks) {
    for (const Span& span : rank.spans) end = std::max(end, span.end);
  }
  return static_cast<double>(end) * 1e-12;
}

template <class Steps>
double median_of(const Steps& steps) {
  std::vector<double> times;
  for (const auto& s : steps) times.push_back(s.took);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

double estimated_step(const PlannedRun& run, const Program& program, const Calibration& calibration) {
  const Plan& plan = run.plan;
  const CostModel costs(*run.cluster, calibration, plan.mesh, plan.placement, plan.collective_algorithm);
  return Estimator().step_time(program, costs).base();
}

}  // namespace

void declare_adaptation(Command& c, AdaptFlags& flags) {
  c.group("A plan that follows the machine");
  c.option(
      "--adapt", flags.tolerance,
      "where steps take longer or shorter than predicted by this share (0.01 to 0.99), fit the calibration to the run, "
      "search again, and change the plan between two steps if that saves time");
  c.option("--slow-links", flags.slow_links,
           "make messages between ranks as slow as over links of this rate (\"20 MB/s\"), to see what a run does");
  c.option("--slow-from", flags.slow_from, "--slow-links: the first slow step", {1, 1'000'000'000});
  c.group("");
}

std::optional<double> adapt_tolerance(const AdaptFlags& flags) {
  if (!flags.tolerance) return std::nullopt;
  return number_of(*flags.tolerance, "--adapt", 0.01, 0.99);
}

std::optional<SlowLinks> slow_links_of(const AdaptFlags& flags) {
  if (!flags.slow_links) {
    if (flags.slow_from != 1) refuse("cli.adapt", "--slow-from is for --slow-links");
    return std::nullopt;
  }
  SlowLinks slow;
  std::string problem;
  if (!parse_quantity(*flags.slow_links, slow.rate, problem)) {
    refuse("cli.adapt", fmt::format("--slow-links: {}", problem), {"It is a rate with its unit: \"20 MB/s\"."});
  }
  if (!(slow.rate.base() >= 1e3 && slow.rate.base() <= 1e15)) {
    refuse("cli.adapt", fmt::format("--slow-links is {}; it must be from 1 kB/s to 1000 TB/s", exact_text(slow.rate)));
  }
  slow.from_step = flags.slow_from;
  return slow;
}

Adaptation::Adaptation(double tolerance, LoadedPlan& now, RunOptions& options, PlannedRun measured,
                       const CommonFlags& flags)
    : tolerance_(tolerance),
      now_(now),
      options_(options),
      measured_(std::move(measured)),
      prices_(calibration_of(flags, library_of(flags), *measured_.cluster, measured_.workload.precision)),
      warmup_(options.warmup_steps),
      steps_(options.steps),
      first_step_(options.first_step) {}

RunResult Adaptation::train(const std::function<RunResult()>& segment,
                            const std::function<void(const LoadedPlan*)>& tell) {
  first_step_ = options_.first_step;  // where a checkpoint says so
  predicted_ = estimated_step(measured_, now_.program, prices_.calibration);
  const auto inner = std::move(options_.on_event);
  options_.on_event = [&](const RunEvent& event) { on_event(event, inner); };
  options_.hand_over = &hand_over_;
  began_at_ = now_ns();
  std::vector<double> losses;
  for (;;) {
    RunResult part = segment();
    losses.insert(losses.end(), part.losses.begin(), part.losses.end());
    const bool goes_on = hand_over_ && !part.cancelled;
    if (goes_on) take_over();
    if (hand_over_ && !goes_on) interrupt(told_.back().event);  // after the decision
    tell(goes_on ? &now_ : nullptr);
    if (goes_on) continue;
    part.losses = std::move(losses);
    return part;
  }
}

void Adaptation::on_event(const RunEvent& event, const std::function<void(const RunEvent&)>& inner) {
  if (event.step == 0) {
    begin(event);
    if (options_.steps_before == 0 && inner) inner(event);
    return;
  }
  if (inner) inner(event);
  step_ended(event);
}

void Adaptation::begin(const RunEvent& event) {
  if (!state_) {
    setup_s_ = seconds_since(began_at_);
    return;
  }
  Checkpoint from = std::move(*newest_whole(*state_, state_folder).checkpoint);
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < event.program->mesh.size(); ++r) ranks.push_back(Rank{r});
  restore(from, *event.program, ranks, *event.buffers);
  state_.reset();
  Told& last = told_.back();
  last.took_s = seconds_since(changes_at_);
  AdaptationEvent changed = last.event;
  changed.plan = *changed.other;
  changed.took_s = last.took_s;
  if (options_.hooks != nullptr) options_.hooks->adaptation(changed);
}

void Adaptation::step_ended(const RunEvent& event) {
  done_ = event.step;
  if (fresh_) {  // caches and pages are cold
    fresh_ = false;
    return;
  }
  window_.push_back({step_seconds(*event.trace), *event.trace});
  if (window_.size() > window_steps) window_.pop_front();
  if (window_.size() < window_steps) return;
  const double measured = median_of(window_);
  if (!told_.empty() && told_.back().took_s && !told_.back().then_s) told_.back().then_s = measured;
  const bool away = std::abs(measured / predicted_ - 1.0) > tolerance_;
  if (away && event.step < warmup_ + steps_ && now_ns() >= next_search_) decide(event, measured);
}

void Adaptation::decide(const RunEvent& event, double measured) {
  AdaptationEvent told;
  told.step = event.step;
  told.measured_s = measured;
  told.predicted_s = predicted_;
  told.plan = describe(now_.run.plan);
  told.changes = weigh(event, told);
  if (options_.cancel != nullptr && options_.cancel->load()) interrupt(told);
  predicted_ = told.changes ? told.other_s : measured;
  window_.clear();
  if (options_.hooks != nullptr) options_.hooks->adaptation(told);
  told_.push_back({told, {}, {}});
  say(fmt::format("note: steps take {} where {} were predicted; the plan {}: {}\n", seconds_text(told.measured_s),
                  seconds_text(told.predicted_s), told.changes ? "changes" : "stays", told.why));
  if (told.changes) hand_over_ = true;
}

// The plan stays where a run ends instead.
void Adaptation::interrupt(AdaptationEvent& told) {
  told.changes = false;
  told.why = "the run was interrupted";
  next_.reset();
  state_.reset();
}

// Fits, searches, and weighs gain against cost; where the plan is to change, it and the state are kept for that.
bool Adaptation::weigh(const RunEvent& event, AdaptationEvent& told) {
  const std::int64_t began = now_ns();
  std::vector<Trace> traces;
  for (const Step& s : window_) traces.push_back(s.trace);
  measured_.plan = now_.run.plan;
  const MeasuredFactors f = measured_factors(now_.program, measured_, prices_.calibration, traces);
  told.latency = f.latency;
  told.bytes = f.bytes;
  told.products = f.products;
  told.others = f.others;
  CalibrationChoice fitted = prices_;
  fitted.calibration = scaled(prices_.calibration, *measured_.cluster, f);
  const double bias = told.measured_s / estimated_step(measured_, now_.program, fitted.calibration);
  const auto found = replanned(measured_, *measured_.cluster, fitted.calibration, options_.cancel);
  next_search_ = now_ns() + static_cast<std::int64_t>(seconds_since(began) / search_share * 1e9);
  if (!found) {
    told.why = "no other plan fits";
    return false;
  }
  told.other = describe(found->plan);
  told.other_s = bias * found->report.step_time.base();
  const auto left = static_cast<double>(warmup_ + steps_ - event.step);
  told.gain_s = (told.measured_s - told.other_s) * left;
  told.cost_s = setup_s_;
  const std::string best =
      fmt::format("a step is predicted to take {} under {}", seconds_text(told.other_s), *told.other);
  if (!(told.other_s < (1.0 - tolerance_) * told.measured_s)) {
    told.why = best + ", which is not shorter by more than the tolerance";
    return false;
  }
  UnresolvedPlan next{measured_, fitted};
  next.run.plan = found->plan;
  next.run.plan.name = now_.run.plan.name;
  LoadedPlan loaded = resolved_and_lowered(std::move(next));
  if (ends_of(loaded.program, options_.concurrent_lanes) > ends_of(now_.program, options_.concurrent_lanes)) {
    told.why = best + ", which needs more lanes than the run has";
    return false;
  }
  // The state is taken now, so that the cost is measured, not guessed.
  changes_at_ = now_ns();
  auto state = memory_files();
  static_cast<void>(save_checkpoint(*state, state_folder, now_.program, *event.buffers,
                                    manifest_of(now_.run, first_step_ + event.step - 1), std::nullopt));
  told.cost_s += 2.0 * seconds_since(changes_at_);
  told.why =
      fmt::format("{}; over {} that saves {} and costs {}", best, counted(static_cast<std::uint64_t>(left), "step"),
                  seconds_text(told.gain_s), seconds_text(told.cost_s));
  if (!(told.gain_s > told.cost_s)) return false;
  next_ = std::move(loaded);
  state_ = std::move(state);
  return true;
}

void Adaptation::take_over() {
  now_ = std::move(*next_);
  next_.reset();
  hand_over_ = false;
  fresh_ = true;
  options_.steps_before = done_;
  options_.warmup_steps = warmup_ - std::min(warmup_, done_);
  options_.steps = warmup_ + steps_ - done_ - options_.warmup_steps;
  options_.first_step = first_step_ + done_;
}

std::string Adaptation::text() const {
  std::string out;
  for (const Told& t : told_) {
    const AdaptationEvent& e = t.event;
    out +=
        fmt::format("  after step {} the plan {}: a step took {}, {} predicted; {}\n", e.step,
                    e.changes ? "changed" : "stayed", seconds_text(e.measured_s), seconds_text(e.predicted_s), e.why);
    if (t.took_s) out += fmt::format("    the change took {}", seconds_text(*t.took_s));
    if (t.then_s) out += fmt::format("; a step then took {}", seconds_text(*t.then_s));
    if (t.took_s) out += "\n";
  }
  if (out.empty()) out = "  steps took what was predicted, so the plan stayed\n";
  return out;
}

nlohmann::ordered_json Adaptation::json() const {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  const auto known = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  for (const Told& t : told_) {
    const AdaptationEvent& e = t.event;
    nlohmann::ordered_json row{{"step", e.step},
                               {"changed", e.changes},
                               {"why", e.why},
                               {"plan", e.plan},
                               {"measured_s", e.measured_s},
                               {"predicted_s", e.predicted_s},
                               {"other_plan", nullptr},
                               {"other_predicted_s", nullptr},
                               {"gain_s", e.gain_s},
                               {"cost_s", e.cost_s},
                               {"took_s", known(t.took_s)},
                               {"then_s", known(t.then_s)},
                               {"latency_factor", e.latency},
                               {"bytes_factor", e.bytes},
                               {"products_factor", e.products},
                               {"others_factor", e.others}};
    if (e.other) row["other_plan"] = *e.other;
    if (e.other) row["other_predicted_s"] = e.other_s;
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace orrery
