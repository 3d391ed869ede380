#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/run_checkpoints.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"
#include "core/base/units_text.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/report_file.hpp"
#include "exec/run/run_report.hpp"
#include "exec/train/data.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t most_steps = 1'000'000'000;

/// Live bytes of all ranks at their peaks.
double needed_bytes(const Program& program) {
  LiveMemory memory;
  memory.read(program);
  const double ranks_per_class = static_cast<double>(program.mesh.size()) / static_cast<double>(program.classes.size());
  double sum = 0.0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    sum += ranks_per_class * static_cast<double>(memory.peak(program, c).peak);
  }
  return sum;
}

class RunVerb final : public Verb {
 public:
  const char* name() const override { return "run"; }
  const char* summary() const override { return "train a plan for real, on threads of this machine"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_, "a plan file, or the name of an example plan");
    c.choice("--backend", backend_, {"threads"}, "what a rank is");
    c.option("--steps", steps_, "optimizer steps to record", {1, most_steps});
    c.option("--warmup", warmup_, "steps before those", {0, most_steps});
    c.option("--trace", trace_, "write the median step's timeline here; opens in Perfetto (ui.perfetto.dev)");
    c.option("--disk", disk_, "folder for the files of the disk tier, removed after the run");
    c.option("--watchdog", watchdog_, "longest wait for another rank, in seconds");
    declare_checkpoints(c, checkpoints_);
    declare_machine(c, flags_);
    declare_output(c, flags_, "write the report here, as JSON");
    c.examples(
        "  orrery run demo-2x2x2 --steps 10\n"
        "  orrery run plan.toml --steps 100 --checkpoint saved --every 20\n"
        "  orrery run other.toml --steps 100 --checkpoint saved --resume\n"
        "  orrery run plan.toml --steps 5 --trace measured.json -o measured-report.json\n"
        "  orrery simulate plan.toml --trace predicted.json && orrery compare predicted.json measured.json");
  }

  int run() override;

 private:
  void refuse_too_large(const Program&) const;
  /// The run on the machine that it was measured on.
  [[nodiscard]] PlannedRun as_measured(const PlannedRun& planned) const;

  CommonFlags flags_;
  CheckpointFlags checkpoints_;
  std::string plan_, backend_ = "threads";
  std::optional<std::string> trace_, disk_;
  std::uint64_t steps_ = 5, warmup_ = 1;
  double watchdog_ = 60.0;
};

void RunVerb::refuse_too_large(const Program& program) const {
  constexpr std::uint64_t most_ranks = 512;
  if (program.mesh.size() > most_ranks) {
    throw Error(fmt::format("the plan has {} ranks; at most {} threads are started", program.mesh.size(), most_ranks));
  }
  const double installed = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  const double needed = needed_bytes(program);
  if (needed > installed) {
    throw Error(fmt::format("the ranks need {} together; this machine has {}", short_text(Bytes::of(needed)),
                            short_text(Bytes::of(installed))));
  }
}

PlannedRun RunVerb::as_measured(const PlannedRun& planned) const {
  PlannedRun run = planned;
  if (run.cluster->device.cores_shared > 0) return run;
  // Threads of this machine are no GPUs: their utilization, memory and cost are not those of the plan's cluster.
  Diagnostics d;
  run.cluster = library_of(flags_).cluster("local-cpu", ".", std::nullopt, d);
  require_none(d);
  adapt_to_this_machine(*run.cluster);
  // One machine, however many threads.
  run.cluster->devices_per_node = static_cast<std::uint32_t>(run.plan.mesh.size());
  for (NetworkLevel& level : run.cluster->levels) level.size = run.cluster->devices_per_node;
  return run;
}

int RunVerb::run() {
  if (steps_ < 1 || steps_ > 1'000'000'000) refuse("cli.steps", "--steps is from 1 to 1000000000");
  if (warmup_ > 1'000'000'000) refuse("cli.warmup", "--warmup is from 0 to 1000000000");
  if (!(watchdog_ > 0.0 && watchdog_ <= 1e6)) refuse("cli.watchdog", "--watchdog is above 0 and at most 1000000");
  keep_apart(plan_path(plan_, library_of(flags_)), {flags_.output, trace_});
  const LoadedPlan loaded = load_plan(plan_, flags_, "local-cpu", ClusterUse::fall_back);
  if (const std::string& scaling = loaded.run.model.rope_scaling; !scaling.empty()) {
    refuse("cli.rope-scaling",
           fmt::format("{} scales its rotary angles ({}), which no kernel here does", loaded.run.model.name, scaling),
           {"estimate and simulate hold, since it costs nothing. To train with plain angles, leave rope_scaling out."});
  }
  refuse_too_large(loaded.program);
  RunCheckpoints checkpoints(checkpoints_, loaded.run, loaded.program);
  require_output(flags_);
  refuse_standard_output("--trace", trace_);
  if (trace_) require_folder(*trace_);
  const auto data = data_of(loaded.run.model, loaded.run.workload);
  RunOptions options;
  options.steps = steps_;
  options.warmup_steps = warmup_;
  options.concurrent_lanes = loaded.run.cluster->device.concurrent_lanes;
  options.watchdog = Seconds::of(watchdog_);
  options.disk_folder = disk_ ? std::filesystem::path(*disk_) : std::filesystem::temp_directory_path();
  options.cancel = &interrupted();
  catch_interrupt();
  // A step may take long: the bar goes on between two.
  std::optional<Ticker> ticker(std::in_place, "run");
  options.on_event = [&](const RunEvent& event) {
    ticker->show("run", event.step, warmup_ + steps_, event.loss ? fmt::format("loss {:.4f}", *event.loss) : "");
  };
  checkpoints.attach(options);
  const RunResult result =
      execute(loaded.program, loaded.run.model, loaded.run.workload, loaded.run.plan, *data, options);
  ticker.reset();
  if (result.traces.empty()) {
    print(flags_.json ? "{\n  \"complete\": false,\n  \"recorded_steps\": 0\n}\n"
                      : "Interrupted before a step was recorded.\n");
    return status_no;
  }
  const PlannedRun measured = as_measured(loaded.run);
  Report report = report_of(measured, loaded.program, result);
  if (measured.cluster != loaded.run.cluster) {
    report.assumptions.push_back(
        fmt::format("rates and memory are judged by the cores it ran on, not by {}", loaded.run.cluster->name));
  }
  if (trace_) {
    ChromeTraceOptions chrome;
    chrome.plan = loaded.run.plan.name;
    write_file(*trace_, write_chrome_trace(median_trace(result), loaded.program, chrome));
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
    if (checkpoints_.folder) json["checkpoint"] = checkpoints.json();
    print_json(json);
  } else {
    std::string out =
        heading_text(loaded.run, "not used") + resolutions_text(loaded.resolved) + "\n" + report_text(report);
    if (result.losses.size() > 1) {
      out += fmt::format("\n  loss {:.4f} in step 1, {:.4f} in step {}", result.losses.front(), result.losses.back(),
                         result.losses.size());
      // Warm-up trains too.
      const std::size_t warm = std::min<std::size_t>(warmup_, result.losses.size());
      if (warm > 0) out += fmt::format(" ({} of warm-up, {} recorded)", warm, result.times.steps);
      out += "\n";
    }
    if (const auto busy = core_shortage(result.cores)) out += fmt::format("  Not to be relied on: {}.\n", *busy);
    out += checkpoints.text();
    if (trace_) out += fmt::format("  timeline of the median step in {}\n", *trace_);
    if (result.cancelled)
      out += fmt::format("  Interrupted after {} recorded steps of {}.\n", result.times.steps, steps_);
    print(out);
  }
  return result.cancelled || !report.fits ? status_no : status_fine;
}

}  // namespace

std::unique_ptr<Verb> run_verb() { return std::make_unique<RunVerb>(); }

}  // namespace orrery
