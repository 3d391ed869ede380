#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/forecast_text.hpp"
#include "core/base/units_text.hpp"
#include "planner/describe.hpp"

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json known(const std::optional<T>& value) {
  if (!value) return nullptr;
  if constexpr (requires { value->base(); }) {
    return value->base();
  } else {
    return *value;
  }
}

Json losses_json(const Forecast& f) {
  if (!f.ledger) return nullptr;
  Json out;
  out["productive_s"] = f.ledger->productive.base();
  for (std::size_t i = 0; i < lost_time_count; ++i) {
    std::string name(name_of(static_cast<LostTime>(i)));
    for (char& c : name) c = c == ' ' ? '_' : c;
    out[name + "_s"] = f.ledger->lost[i].base();
  }
  return out;
}

template <class T>
void add_figure(Json& to, const char* key, const KnownFigure<T>& f) {
  if (!f) {
    to[key] = nullptr;
    return;
  }
  Json entry;
  if constexpr (requires { f->value.base(); }) {
    entry["value"] = f->value.base();
  } else {
    entry["value"] = f->value;
  }
  entry["basis"] = name_of(f->basis);
  entry["source"] = f->source;
  to[key] = std::move(entry);
}

Json reliability_json(const ForecastAnswer& a) {
  if (!a.inputs.reliability) return nullptr;
  const ReliabilitySpec& r = *a.inputs.reliability;
  Json out{{"name", r.name}, {"note", a.reliability_note}};
  add_figure(out, "node_failures_per_1000_node_days", r.node_failures_per_1000_node_days);
  add_figure(out, "job_failures_per_day", r.job_failures_per_day);
  add_figure(out, "planned_stops_per_day", r.planned_stops_per_day);
  add_figure(out, "planned_stops_per_1000_node_days", r.planned_stops_per_1000_node_days);
  add_figure(out, "detect", r.detect);
  add_figure(out, "queue", r.queue);
  add_figure(out, "restart", r.restart);
  add_figure(out, "repair", r.repair);
  add_figure(out, "planned_stop", r.planned_stop);
  add_figure(out, "storage_rate_per_node", r.storage_rate_per_node);
  add_figure(out, "storage_rate_total", r.storage_rate_total);
  return out;
}

Json energy_json(const ForecastAnswer& a) {
  if (!a.subject.energy) return nullptr;
  const StepEnergy& e = *a.subject.energy;
  Json out{{"run_j", known(a.joules())}, {"step_j", a.step_joules()}, {"idle_w", e.idle_w}};
  for (const auto& [name, parts] : {std::pair{"work_j", &e.work}, {"moves_j", &e.moves}}) {
    out[name] = Json::object();
    for (const StepEnergy::Part& p : *parts) out[name][p.name] = p.joules;
  }
  out["sources"] = e.sources;
  out["unknown"] = e.unknown;
  return out;
}

}  // namespace

nlohmann::ordered_json forecast_json(const ForecastAnswer& a) {
  const Forecast& f = a.forecast;
  Json out;
  out["plan"] = a.subject.run.plan.name;
  out["description"] = describe(a.subject.run.plan);
  out["model"] = a.subject.run.model.name;
  out["gpus"] = a.inputs.gpus;
  out["fits"] = a.subject.report.fits;
  out["assumed"] = a.subject.assumed;
  out["tokens"] = a.inputs.tokens;
  out["steps"] = f.steps;
  out["step_s"] = a.inputs.step.base();
  out["never_ends"] = f.never_ends;
  out["unknown"] = f.unknown;
  const bool answered = f.ledger.has_value();
  out["wall_s"] = answered ? Json(f.wall().base()) : Json(nullptr);
  out["work_s"] = f.work.base();
  out["wall_low_s"] = known(f.low);
  out["wall_high_s"] = known(f.high);
  out["ettr"] = answered ? Json(f.share()) : Json(nullptr);
  const double mfu = a.subject.report.step_time / a.inputs.step * a.subject.report.model_flops_utilization;
  out["mfu"] = mfu;
  out["effective_mfu"] = answered ? Json(mfu * f.share()) : Json(nullptr);
  out["gpu_hours"] = a.gpu_hours();
  out["money"] = answered ? known(a.money()) : Json(nullptr);
  out["currency"] = a.subject.run.cluster->price_currency;
  out["energy"] = energy_json(a);
  out["electricity_cost"] = nullptr;
  out["co2_kg"] = nullptr;
  if (const std::optional<double> joules = a.joules()) {
    if (a.electricity.price_per_kwh) out["electricity_cost"] = *a.electricity.price_per_kwh * *joules / 3.6e6;
    if (a.electricity.grams_per_kwh) out["co2_kg"] = *a.electricity.grams_per_kwh * *joules / 3.6e9;
  }
  out["time"] = losses_json(f);
  out["mean_time_between_failures_s"] = known(f.hazards.mean());
  out["given_up_runs"] = f.given_up;
  out["saves_pile_up"] = f.saves_pile_up;
  out["replicas_it_may_miss"] = a.inputs.fewer.slowdown.size() - 1;
  out["mean_needed_s"] = known(f.mean_needed);
  out["save_every_steps"] = f.save_every;
  out["best_interval_s"] = known(f.best);
  out["young_interval_s"] = known(f.young);
  out["daly_interval_s"] = known(f.daly);
  const CheckpointSize& size = a.subject.checkpoint;
  out["checkpoint"] = {
      {"bytes", size.written}, {"bytes_of_node", size.written_by_node}, {"held_by_node", size.held_by_node}};
  if (a.inputs.checkpoint) {
    out["checkpoint"]["save_s"] = a.inputs.checkpoint->blocking.base();
    out["checkpoint"]["until_it_counts_s"] = a.inputs.checkpoint->until_it_counts.base();
    out["checkpoint"]["load_s"] = a.inputs.checkpoint->load.base();
  }
  out["nodes_under_repair"] = known(f.mean_down);
  out["spares_for_99_percent"] = known(f.spares);
  out["knobs"] = Json::array();
  for (const Knob& k : f.knobs) {
    out["knobs"].push_back({{"input", k.name},
                            {"value", k.value},
                            {"unit", k.unit},
                            {"days_per_unit", k.days_each},
                            {"days_saved_by_a_tenth", k.tenth_days}});
  }
  out["simulated"] = nullptr;
  if (f.sample) {
    Json sample{{"runs", f.sample->walls.size()},
                {"seed", a.inputs.seed},
                {"unfinished", f.sample->unfinished},
                {"failures_mean", f.sample->failures},
                {"wall_mean_s", f.sample->mean.wall().base()},
                {"wall_standard_error_s", f.sample->wall_error},
                {"history", fmt::format("{:016x}", f.sample->history)}};
    for (const int q : {1, 10, 50, 90, 99}) {
      sample[fmt::format("wall_p{}_s", q)] = f.sample->quantile(q / 100.0).base();
    }
    out["simulated"] = std::move(sample);
  }
  out["reliability"] = reliability_json(a);
  return out;
}

}  // namespace orrery
