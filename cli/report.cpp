#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/compare_plans.hpp"
#include "cli/interrupt.hpp"
#include "cli/job.hpp"
#include "cli/plan_source.hpp"
#include "cli/price_text.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/sweep_text.hpp"
#include "cli/verbs.hpp"
#include "core/base/fnv.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/plan_words.hpp"
#include "core/spec/spec_files.hpp"
#include "framework/framework.hpp"
#include "planner/describe.hpp"
#include "report/sections.hpp"

namespace orrery {
namespace {

using Provenance = std::vector<std::pair<std::string, std::string>>;

/// A content hash, so that a reader can tell whether two reports are of the same input.
std::string digest_text(const std::string& content) { return fmt::format("{:016x}", fnv1a(content)); }

Provenance provenance_of(const LoadedPlan& loaded) {
  const PlannedRun& run = loaded.run;
  Provenance out = {{"program", std::string("orrery ") + orrery_version()}};
  const auto add = [&](const char* what, const std::string& whence) {
    if (!whence.empty()) out.emplace_back(what, whence);
  };
  add("model", fmt::format("{}; content {}", run.model_reference, digest_text(write_model(run.model))));
  add("source of the model", run.model.source);
  add("cluster", fmt::format("{}; content {}", run.cluster_reference, digest_text(write_cluster(*run.cluster))));
  add("source of the cluster", run.cluster->source);
  add("source of the device", run.cluster->device.source);
  add("plan", fmt::format("{}; content {}", run.plan.name, digest_text(write_plan(run))));
  add("software", describe_briefly(loaded.calibration.software));
  for (const DeviceBasis& device : loaded.calibration.devices) add("device", device.text);
  add("calibration", loaded.calibration.origin);
  for (const std::string& what : run.cluster->assumed) add("assumed", what);
  return out;
}

std::vector<ReportedLaunch> launches_of(const PlannedRun& run) {
  std::vector<ReportedLaunch> out;
  for (const LaunchWriting& w : launch_writings()) {
    Diagnostics refused;
    const std::optional<std::string> text = w.write(run, refused);
    ReportedLaunch launch{std::string(w.title), std::string(w.name), text.value_or(""), ""};
    if (!text) launch.refused = refused.empty() ? "it cannot be said" : refused.list().front().message;
    out.push_back(std::move(launch));
  }
  return out;
}

class ReportVerb final : public Verb {
 public:
  const char* name() const override { return "report"; }
  const char* summary() const override { return "write one offline HTML page of a plan, of several, or of a sweep"; }

  void declare(Command& c) override {
    c.positional(
        "PLAN", plans_,
        "plan files, names of example plans, or plans in one line, which change the first; or a file of points "
        "(orrery sweep -o)");
    c.option("--cluster", cluster_, "cluster in place of the plans': a name, a .toml file, or as h200:8x4");
    c.option("--pareto", pareto_, "of a sweep: a front of these measures: step-time,cost");
    declare_allocator(c, flags_);
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the page here: report.html");
    c.examples(
        "  orrery report best.toml -o report.html\n"
        "  orrery report best.toml other.toml \"tp=4 zero=1\" -o compared.html\n"
        "  orrery report points.jsonl --pareto tokens-per-s,cost -o sweep.html");
  }

  int run() override {
    if (!flags_.output) refuse("cli.output", "orrery report needs -o", {"orrery report PLAN -o report.html"});
    for (const std::string& plan : plans_) {
      if (!is_plan_words(plan)) keep_apart(plan, {flags_.output});
    }
    require_output(flags_);
    catch_interrupt();
    bool fits = true;
    const std::string page = is_sweep() ? page_of_sweep() : page_of_plans(fits);
    write_output(flags_, page);
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      print_json({{"file", *flags_.output}, {"bytes", page.size()}, {"fits", fits}});
    } else {
      print(fmt::format("wrote {}: {}\n", escaped(*flags_.output),
                        short_text(Bytes::of(static_cast<double>(page.size())))));
    }
    return fits ? status_fine : status_no;
  }

 private:
  [[nodiscard]] bool is_sweep() const {
    std::error_code failure;
    if (plans_.size() != 1 || !std::filesystem::is_regular_file(plans_[0], failure)) return false;
    Diagnostics missing;
    const std::optional<std::string> text = read_text(plans_[0], missing, most_points_bytes);
    return text && looks_like_points(*text);
  }

  [[nodiscard]] std::string page_of_sweep() const {
    Diagnostics d;
    const std::optional<std::string> text = read_text(plans_[0], d, most_points_bytes);
    require_none(d);
    const std::optional<SweepRecord> sweep = read_points(*text, plans_[0], d);
    require_none(d);
    return sweep_page(*sweep, pareto_ ? sweep_measures_of(*pareto_, {}) : std::vector<const SweepMeasure*>{}, {},
                      {{"program", "orrery " + sweep->header.version},
                       {"points", fmt::format("{}; content {}", plans_[0], digest_text(*text))}});
  }

  [[nodiscard]] std::string page_of_plans(bool& fits) const {
    if (pareto_)
      refuse("cli.flags", "--pareto goes with a file of points", {"orrery sweep -o points.jsonl writes one."});
    std::vector<LoadedPlan> loaded;
    for (const std::string& plan : plans_) {
      loaded.push_back(!loaded.empty() && is_plan_words(plan) ? changed_plan(loaded.front(), plan, flags_)
                                                              : load_plan(plan, flags_, cluster_));
    }
    std::vector<ReportedPlan> reported;
    Ticker ticker("simulate");
    for (LoadedPlan& plan : loaded) {
      reported.push_back(report_of(plan));
      fits = fits && reported.back().report.fits;
      if (reported.size() > 1) {
        reported.back().differences = differences(reported.back().run.plan, reported.front().run.plan);
      }
    }
    return plan_page(reported);
  }

  [[nodiscard]] ReportedPlan report_of(LoadedPlan& plan) const {
    ReportedPlan out;
    out.report = estimated(plan, flags_.expandable_segments);
    SimulateOptions options;
    options.critical_path = true;
    options.progress.cancelled = &interrupted();
    try {
      out.step = simulate(plan.run, plan.program, cost_model(plan), options);
    } catch (const SimulationCancelled&) {
      throw Error("interrupted: nothing was written");
    }
    out.verdict = verdict_text(out.report);
    out.step_time = headline_text(out.report);
    out.interval = out.report.interval ? step_range(out.report) : "";
    out.faster = out.report.step_time / headline_step(out.report);
    out.description = describe(plan.run.plan);
    out.provenance = provenance_of(plan);
    for (const Resolution& r : plan.resolved)
      out.resolved.emplace_back(r.key, fmt::format("{} ({})", r.value, r.reason));
    for (ExplainedOperation& op : explain_operations(plan, "all")) {
      out.prices.push_back({op.what, op.runs, std::move(op.price)});
    }
    out.tensors = peak_tensors(plan.program);
    out.plan_file = write_plan(plan.run);
    out.launches = launches_of(plan.run);
    out.run = std::move(plan.run);
    out.program = std::move(plan.program);
    return out;
  }

  CommonFlags flags_;
  std::vector<std::string> plans_;
  std::optional<std::string> cluster_, pareto_;
};

}  // namespace

std::unique_ptr<Verb> report_verb() { return std::make_unique<ReportVerb>(); }

}  // namespace orrery
