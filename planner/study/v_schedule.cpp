#include <fmt/format.h>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/schedule.hpp"
#include "planner/study/studies.hpp"

// Experiment E25: idle times of the zero-bubble V schedule that a released
// implementation's own search finds, beside those of the orders that a plan with
// schedule = "zb-v" runs.  Both run in exact integers.

namespace orrery {
namespace {

struct Golden {
  std::uint32_t ranks, microbatches;
  ActionTimes times;
  double published;
};

constexpr Golden goldens[] = {{4, 4, {1, 1, 1, 0}, 27},  {4, 8, {1, 1, 1, 0}, 48}, {4, 8, {1, 1, 1, 1}, 65},
                              {4, 8, {6, 8, 5, 0}, 317}, {8, 8, {1, 1, 1, 0}, 55}, {8, 16, {1, 1, 1, 0}, 96},
                              {8, 16, {6, 8, 5, 0}, 645}};

/// Most chunks a rank holds: in flight, and with those whose weight gradient waits.
struct Held {
  std::uint32_t in_flight = 0, with_weights = 0;
};
Held held(const lowering::Orders& orders) {
  Held most;
  for (const auto& order : orders) {
    std::uint32_t flying = 0, kept = 0;
    for (const lowering::Action& a : order) {
      if (a.phase == lowering::Phase::forward) ++flying, ++kept;
      most.in_flight = std::max(most.in_flight, flying);
      most.with_weights = std::max(most.with_weights, kept);
      if (a.phase == lowering::Phase::backward) --flying;
      if (a.phase == lowering::Phase::weight) --kept;
    }
  }
  return most;
}

std::string reason_of(double computed, const Golden& it, double work) {
  if (computed == work) return "no rank waits between its first and its last action, so no order is shorter";
  if (computed == it.published) return "our search for these times finds an order as short";
  if (it.times.message > 0) {
    return "our search lets weight gradients wait for gaps that messages leave; the published search's placement of "
           "messages was not read";
  }
  return "our search lets more weight gradients wait at once than the published memory limit may: a waiting one counts "
         "as half a chunk, and two chunks' worth beyond 2 p are allowed";
}

}  // namespace

StudyResult v_schedule_study(const Library&) {
  StudyResult r;
  r.experiments = {"E25"};
  r.sources = {
      "hpcaitech/ColossalAI, pipeline/schedule/v_schedule.py: its get_v_schedule(only_run_time=True), run for "
      "these times of forward, input gradient, weight gradient and message"};
  r.formulas = {"Pipelines on a V"};
  r.assumptions = {
      "The published number is 2 m (f + b + w) and the largest idle time of a rank after its first action: the largest "
      "span of a rank, not the makespan, which is given beside it.",
      "All stages cost the same; messages move beside compute; nobody waits to send."};
  StudyTable table{"Spans of the zero-bubble V in units of the given times",
                   {"ranks", "microbatches", "f", "b", "w", "message", "work", "published", "span", "makespan",
                    "chunks in flight", "with waiting weights"},
                   {}};
  for (const Golden& it : goldens) {
    const lowering::PipelineShape shape{it.ranks, 2, it.microbatches, it.times};
    const StageMap map{it.ranks, 2, StagePlacement::v};
    const lowering::Orders orders = lowering::schedule_zb_v(shape);
    const lowering::OrderTimes times = lowering::times_of(orders, shape, map);
    const Held most = held(orders);
    const auto span = static_cast<double>(times.span);
    const double work = 2.0 * it.microbatches * (it.times.forward + it.times.input_gradient + it.times.weight_gradient);
    r.claims.push_back(
        {fmt::format("{} ranks, {} microbatches, times {} {} {} and {}", it.ranks, it.microbatches, it.times.forward,
                     it.times.input_gradient, it.times.weight_gradient, it.times.message),
         number(it.published, 0), Evidence::calculated, number(span, 0),
         span == it.published  ? Verdict::follows
         : span < it.published ? Verdict::in_part
                               : Verdict::does_not_follow,
         reason_of(span, it, work)});
    const auto whole = [](double value) { return number(value, 0); };
    table.rows.push_back({whole(it.ranks), whole(it.microbatches), whole(it.times.forward),
                          whole(it.times.input_gradient), whole(it.times.weight_gradient), whole(it.times.message),
                          whole(work), whole(it.published), whole(span), whole(static_cast<double>(times.makespan)),
                          whole(most.in_flight), whole(most.with_weights)});
  }
  r.tables.push_back(std::move(table));

  StudyTable family{"Schedules on a V: what less memory costs; 8 ranks, 32 microbatches, f = b = w = 1",
                    {"<schedule", "makespan", "beyond the work", "chunks in flight", "with waiting weights"},
                    {}};
  const lowering::PipelineShape shape{8, 2, 32, {}};
  const std::pair<const char*, lowering::Schedule> schedules[] = {{"zb-v", lowering::schedule_zb_v},
                                                                  {"dualpipe-v", lowering::schedule_dualpipe_v},
                                                                  {"v-half", lowering::schedule_v_half},
                                                                  {"v-min", lowering::schedule_v_min}};
  Chart chart{"Schedules on a V, 8 ranks, 32 microbatches, f = b = w = 1",
              "schedule",
              "time beyond the work; most chunks in flight",
              false,
              false,
              {},
              {{"time beyond the work", {}}, {"chunks in flight", {}}}};
  for (const auto& [name, schedule] : schedules) {
    const lowering::Orders orders = schedule(shape);
    const auto makespan = static_cast<double>(lowering::times_of(orders, shape, {8, 2, StagePlacement::v}).makespan);
    const Held most = held(orders);
    family.rows.push_back({plain(name), number(makespan, 0), number(makespan - 6.0 * shape.microbatches, 0),
                           number(most.in_flight, 0), number(most.with_weights, 0)});
    const auto at = static_cast<double>(chart.categories.size());
    chart.categories.emplace_back(name);
    chart.series[0].points.push_back({at, makespan - 6.0 * shape.microbatches});
    chart.series[1].points.push_back({at, static_cast<double>(most.in_flight)});
  }
  r.charts.push_back(std::move(chart));
  r.tables.push_back(std::move(family));
  r.conclusions = {"Every published span is met or beaten by an order that a plan runs.",
                   "A short span is a short step only where the optimizer step of a rank does not wait for all others; "
                   "with a norm or a barrier the makespan counts."};
  return r;
}

}  // namespace orrery
