#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/forecast_answer.hpp"
#include "cli/forecast_text.hpp"
#include "core/spec/reliability_file.hpp"
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
Json figure_json(const SourcedFigure<T>& f) {
  return {{"value", known(std::optional(f.value))}, {"basis", name_of(f.basis)}, {"source", f.source}};
}

Json reliability_json(const ForecastAnswer& a) {
  if (!a.inputs.reliability) return nullptr;
  const ReliabilitySpec& r = *a.inputs.reliability;
  Json out{{"name", r.name}, {"note", a.reliability_note}};
  for_each_figure(r, [&](const char* key, const auto& figure, const auto&) {
    out[key] = figure ? figure_json(*figure) : Json(nullptr);
  });
  out["groups"] = Json::array();
  for (const NodeGroup& g : r.groups) {
    out["groups"].push_back({{"name", g.name},
                             {"nodes", g.nodes},
                             {"events_per_1000_group_days", figure_json(g.events_per_1000_group_days)}});
  }
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
  out["cluster"] = a.subject.run.cluster->name;
  out["batch"] = a.subject.run.workload.global_batch;
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
  out["mfu"] = a.mfu();
  out["effective_mfu"] = answered ? Json(a.mfu() * f.share()) : Json(nullptr);
  out["gpu_hours"] = a.gpu_hours();
  out["money"] = answered ? known(a.money()) : Json(nullptr);
  out["currency"] = a.subject.run.cluster->price_currency;
  out["energy"] = energy_json(a);
  out["electricity_cost"] = known(a.electricity_cost());
  out["co2_kg"] = known(a.co2_kg());
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

nlohmann::ordered_json choices_json(const std::vector<ForecastChoice>& choices) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  const auto known = [](const std::optional<double>& value) {
    return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  for (const ForecastChoice& c : choices) {
    out.push_back({{"cluster", c.cluster},
                   {"batch", c.batch},
                   {"gpus", c.gpus},
                   {"wall_s", c.wall_s},
                   {"money", known(c.money)},
                   {"energy_j", known(c.joules)}});
  }
  return out;
}

}  // namespace orrery
