// The files and texts that `orrery run` writes about a run.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/report_text.hpp"
#include "cli/run_verb.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/wrapping.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/node_kinds.hpp"
#include "exec/run/run_report.hpp"

namespace orrery {

PlannedRun RunVerb::as_measured(const PlannedRun& planned) const {
  PlannedRun run = planned;
  if (run.cluster->device.cores_shared > 0 || backend_ == "cuda") return run;
  // Threads of this machine are not GPUs: their utilization, memory and cost are not those of the plan's cluster.
  Diagnostics d;
  run.cluster = library_of(flags_).cluster("local-cpu", ".", std::nullopt, d);
  require_none(d);
  adapt_to_this_machine(*run.cluster);
  // The ranks are on one machine, however many threads there are.
  run.cluster->devices_per_node = static_cast<std::uint32_t>(run.plan.mesh.size());
  for (NetworkLevel& level : run.cluster->levels) level.size = run.cluster->devices_per_node;
  return run;
}

int RunVerb::show_supervised_end(const RunCheckpoints& checkpoints) const {
  if (flags_.json) {
    print_json({{"complete", true},
                {"recorded_steps", 0},
                {"losses", supervision_->losses()},
                {"checkpoint", checkpoints.json()},
                {"supervision", supervision_->json()}});
  } else {
    print_wrapped(
        "All steps are trained and saved. A failure came after the last one, so there is no report on them.\n" +
        checkpoints.text() + supervision_->text());
  }
  return status_fine;
}

int RunVerb::show(const Prepared& p, const RunResult& result, const RunCheckpoints& checkpoints) const {
  const LoadedPlan& loaded = p.loaded;
  if (result.traces.empty() && supervision_ && !result.cancelled) return show_supervised_end(checkpoints);
  if (result.traces.empty()) {
    print(flags_.json ? "{\n  \"complete\": false,\n  \"recorded_steps\": 0\n}\n"
                      : "Interrupted before a step was recorded.\n");
    return status_no;
  }
  if (trace_) {
    ChromeTraceOptions chrome;
    chrome.plan = loaded.run.plan.name;
    write_file(*trace_, write_chrome_trace(median_trace(result), loaded.program, chrome));
  }
  if (measure_groups_) return show_groups(p, result);
  const PlannedRun measured = as_measured(loaded.run);
  Report report = report_of(measured, loaded.program, result);
  if (measured.cluster != loaded.run.cluster) {
    report.assumptions.push_back(
        fmt::format("rates and memory are judged by the cores it ran on, not by {}", loaded.run.cluster->name));
  }
  report.assumptions.insert(report.assumptions.end(), p.notes.begin(), p.notes.end());
  if (const auto power = p.power ? p.power->text() : std::nullopt) report.assumptions.push_back(*power);
  if (backend_ == "cuda") {
    report.assumptions.push_back(
        fmt::format("rates, utilization and cost are those of {}, which the plan names", measured.cluster->name));
  }
  write_output(flags_, write_report(report));
  if (prints_output(flags_)) {
    // It has been printed.
  } else if (flags_.json) {
    nlohmann::ordered_json json = to_json(report);
    json["losses"] = result.losses;
    json["recorded_steps"] = result.times.steps;
    json["core_time_needed_s"] = result.cores.needed;
    json["core_time_had_s"] = result.cores.had;
    json["complete"] = !result.cancelled;
    if (result.noise) {
      json["noise_scale"] = {{"sequences", nullptr},
                             {"small_batch", result.noise->small_batch},
                             {"large_batch", result.noise->large_batch}};
      if (result.noise->scale) json["noise_scale"]["sequences"] = *result.noise->scale;
    }
    if (checkpoints_.folder) json["checkpoint"] = checkpoints.json();
    if (supervision_) json["supervision"] = supervision_->json();
    if (adaptation_) json["adaptation"] = adaptation_->json();
    print_json(json);
  } else {
    std::string out;
    if (measured.cluster != loaded.run.cluster) {
      out = fmt::format("These are times of this machine's CPU cores, not of {}.\n\n",
                        escaped(devices_text(*loaded.run.cluster)));
    }
    out += heading_text(loaded.run) + resolutions_text(loaded.resolved) + "\n" + report_text(report);
    if (result.losses.size() > 1) {
      out += fmt::format("\n  loss {:.4f} in step 1, {:.4f} in step {}", result.losses.front(), result.losses.back(),
                         result.losses.size());
      // Warm-up steps train too.
      const std::size_t warm = std::min<std::size_t>(warmup_, result.losses.size());
      if (warm > 0) out += fmt::format(" ({} of warm-up, {} recorded)", warm, result.times.steps);
      out += "\n";
    }
    if (result.noise) {
      const bool restarted = supervision_ && supervision_->restarts() > 0;
      out += result.noise->scale
                 ? fmt::format("  gradient noise scale {:.3g} sequences, mean of {}; the batch has {}\n",
                               *result.noise->scale, restarted ? "the steps since the last restart" : "all steps",
                               result.noise->large_batch)
                 : "  gradient noise scale: not known yet, the steps are too few\n";
    }
    if (const auto busy = core_shortage(result.cores))
      out += fmt::format("  Do not rely on these figures: {}.\n", *busy);
    out += checkpoints.text();
    if (supervision_) out += supervision_->text();
    if (adaptation_) out += adaptation_->text();
    if (trace_) out += fmt::format("  timeline of the median step in {}\n", *trace_);
    if (result.cancelled)
      out += supervision_
                 ? fmt::format("  Interrupted after {} steps of {}.\n", supervision_->kept_steps(), warmup_ + steps_)
                 : fmt::format("  Interrupted after {} recorded steps of {}.\n", result.times.steps, steps_);
    print_wrapped(out);
  }
  if (result.cancelled) return interrupted_status();
  return report.fits ? status_fine : status_no;
}

}  // namespace orrery
