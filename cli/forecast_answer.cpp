#include "cli/forecast_answer.hpp"

#include <fmt/format.h>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "core/spec/reliability_file.hpp"

namespace orrery {
namespace {

/// The reliability, and where it is from.
std::optional<ReliabilitySpec> reliability(const ForecastWishes& wishes, const ClusterSpec& cluster,
                                           const Library& library, std::string& note) {
  Diagnostics d;
  std::optional<ReliabilitySpec> out;
  if (wishes.reliability == "none") {
    note = "none: failures are not counted";
    return out;
  }
  if (wishes.reliability) {
    out = find_reliability(library, *wishes.reliability, ".", d);
    require_none(d);
    note = out->name;
  } else if ((out = reliability_of(cluster, library, d))) {
    note = fmt::format("{}, as the cluster's file says", out->name);
  } else if (require_none(d); cluster.device.cores_shared > 0) {
    note = "unknown on this machine: failures are not counted (--reliability)";
    return out;
  } else {
    out = find_reliability(library, "llama-3", ".", d);
    require_none(d);
    note = "llama-3, assumed, since neither flag nor cluster names one (--reliability)";
  }
  if (wishes.spares) out->spare_nodes = {*wishes.spares, "as --spares says", FigureBasis::read};
  return out;
}

}  // namespace

double ForecastAnswer::gpu_hours() const {
  const double spares = forecast.hazards.spares ? static_cast<double>(*forecast.hazards.spares) : 0.0;
  return (static_cast<double>(inputs.gpus) + spares * inputs.gpus_per_node) * wall_s() / 3600.0;
}

std::optional<double> ForecastAnswer::money() const {
  const std::optional<double>& price = subject.run.cluster->price_per_gpu_hour;
  return price ? std::optional(*price * gpu_hours()) : std::nullopt;
}

double ForecastAnswer::step_joules() const {
  return subject.energy ? subject.energy->joules * (inputs.step / subject.report.step_time) : 0.0;
}

std::optional<double> ForecastAnswer::joules() const {
  if (!subject.energy) return std::nullopt;
  // Steps done again cost what steps cost; in saves and restarts devices wait.
  const RunLedger ledger = forecast.ledger.value_or(RunLedger{forecast.work, {}});
  const Seconds steps = ledger.productive + ledger[LostTime::lost_work] + ledger[LostTime::slow];
  const double idle = subject.energy->idle_w * (ledger.wall() - steps).base();
  return electricity.pue * (step_joules() * (steps / inputs.step) + idle);
}

std::optional<double> ForecastAnswer::electricity_cost() const {
  const std::optional<double> all = joules();
  return all && electricity.price_per_kwh ? std::optional(*electricity.price_per_kwh * *all / 3.6e6) : std::nullopt;
}

std::optional<double> ForecastAnswer::co2_kg() const {
  const std::optional<double> all = joules();
  return all && electricity.grams_per_kwh ? std::optional(*electricity.grams_per_kwh * *all / 3.6e9) : std::nullopt;
}

double ForecastAnswer::mfu() const {
  return subject.report.step_time / inputs.step * subject.report.model_flops_utilization;
}

ForecastWishes quick(ForecastWishes wishes) {
  wishes.runs = 0;
  return wishes;
}

ForecastAnswer forecast_answer(const ForecastSubject& subject, double tokens, const ForecastWishes& wishes,
                               const CommonFlags& flags) {
  ForecastAnswer a;
  a.subject = subject;
  a.way = wishes.saves;
  a.electricity = wishes.electricity;
  const PlannedRun& run = subject.run;
  const ClusterSpec& cluster = *run.cluster;
  ForecastInputs& in = a.inputs;
  in.tokens = tokens;
  in.tokens_per_step = static_cast<double>(run.workload.global_batch * run.workload.sequence_length);
  if (tokens / in.tokens_per_step > 0x1p53) {
    refuse("cli.amount",
           fmt::format("{:.3g} tokens are {:.3g} steps, too many to count", tokens, tokens / in.tokens_per_step),
           {fmt::format("At most {:.3g} tokens are allowed here, 2^53 steps of {:g} tokens.",
                        0x1p53 * in.tokens_per_step, in.tokens_per_step)});
  }
  in.step = subject.step;
  in.step_interval = subject.report.interval;
  in.gpus = cluster.devices();
  in.nodes = cluster.nodes;
  in.gpus_per_node = cluster.devices_per_node;
  in.reliability = reliability(wishes, cluster, library_of(flags), a.reliability_note);
  if (wishes.save_every) in.save_every = *wishes.save_every;
  in.runs = wishes.runs;
  in.seed = wishes.seed;
  if (in.reliability) {
    const Report& r = subject.report;
    const double exposed = r.step_time.base() > 0.0 ? r.exposed_communication / r.step_time : 0.0;
    in.checkpoint = checkpoint_time(subject.checkpoint, cluster, *in.reliability, a.way, exposed, in.unknown);
  }
  if (wishes.fewer_replicas) {
    in.fewer = fewer_replicas(subject, flags);
    if (in.fewer.slowdown.size() == 1) {
      a.fewer_note =
          "no plan with fewer replicas, down to three quarters of them, is valid on whole nodes, so the job "
          "waits";
    } else if (in.reliability && !(in.reliability->spare_nodes && in.reliability->repair)) {
      a.fewer_note = "there is always a spare, since no number of spares (--spares) or no time of a repair is known";
    }
  }
  Progress progress;
  a.forecast = forecast_run(in, [&](std::uint64_t done, std::uint64_t total) {
    if (interrupted().load()) throw Error("interrupted");
    progress.show("simulate", done, total);
  });
  progress.clear();
  return a;
}

}  // namespace orrery
