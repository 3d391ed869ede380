#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/memory_margin.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/record/report_file.hpp"
#include "planner/describe.hpp"
#include "planner/explain.hpp"

namespace orrery {
namespace {

nlohmann::ordered_json change_json(const PlanChange& c) {
  return {{"change", describe(c)},
          {"dimension", c.dimension},
          {"from", c.from},
          {"to", c.to},
          {"step_time_s", c.step_time.base()},
          {"peak_memory_bytes", c.memory.live},
          {"memory", text_of(c.memory)},
          {"fits", c.memory.fits}};
}

std::string_view name_of(Binding b) {
  switch (b) {
    case Binding::memory: return "memory";
    case Binding::choice: return "choice";
    case Binding::largest: return "largest term";
  }
  return "";
}

class ExplainVerb final : public Verb {
 public:
  const char* name() const override { return "explain"; }
  const char* summary() const override { return "why this plan, why not that one, what would make it fit"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_, "a plan file, or the name of an example plan");
    c.positional("OTHER", other_, "another plan of the same model and workload");
    c.option("--cluster", cluster_, "cluster in place of the plan's: a name, a .toml file, or as h200:8x4");
    c.option("--memory-margin", margin_,
             "memory that a change must leave free on every device: \"4 GiB\"; auto, as orrery plan");
    declare_machine(c, flags_);
    declare_plan_sources(c, flags_);
    declare_output(c, flags_, "write the answer here, as JSON");
    c.examples(
        "  orrery explain plan.toml               where its time goes, what one change would do\n"
        "  orrery explain best.toml other.toml    why not the other one\n"
        "Status 1: the plan does not fit.");
  }

  int run() override { return other_ ? two() : one(); }

 private:
  void show(const nlohmann::ordered_json& json, const std::string& text) const {
    write_output(flags_, json_text(json));
    if (prints_output(flags_)) {
      // It has been printed.
    } else if (flags_.json) {
      print_json(json);
    } else {
      print_wrapped(text.ends_with('\n') ? text : text + "\n");
    }
  }

  int one() const {
    const UnresolvedPlan plan = read_unresolved(plan_, flags_, cluster_);
    Diagnostics d;
    const Bytes headroom = margin_of(margin_, *plan.run.cluster, plan.calibration.calibration, d);
    require_none(d);
    std::optional<Ticker> ticker(std::in_place, "explain");
    Explanation e = explain(
        plan.run, plan.calibration.calibration,
        [&](std::uint64_t done, std::uint64_t total) { ticker->show("explain", done, total); }, headroom);
    ticker.reset();
    tell_prices(e.report, plan.calibration);
    nlohmann::ordered_json json = to_json(e.report);
    json["terms_s"] = nlohmann::ordered_json::object();
    for (const TimeTerm& t : e.terms) json["terms_s"][t.name] = t.time.base();
    json["fullest_stage"] = e.fullest_stage;
    json["binding"] = name_of(e.binding);
    json["faster"] = nlohmann::ordered_json::array();
    for (const PlanChange& c : e.faster) json["faster"].push_back(change_json(c));
    json["faster_if_it_fitted"] = nlohmann::ordered_json::array();
    for (const PlanChange& c : e.faster_if_it_fitted) json["faster_if_it_fitted"].push_back(change_json(c));
    json["smallest_fix"] = e.smallest_fix ? change_json(*e.smallest_fix) : nlohmann::ordered_json(nullptr);
    json["text"] = e.text;
    // The heading already describes the plan.
    PlannedRun resolved = plan.run;
    resolved.plan = e.plan;
    std::string text = e.text;
    const std::string repeated = describe(e.plan) + "\n";
    if (text.starts_with(repeated)) text.erase(0, repeated.size());
    show(json, heading_text(resolved, plan.calibration) + interval_text(e.report) + "\n" + text);
    return e.report.fits ? status_fine : status_no;
  }

  int two() const {
    const UnresolvedPlan plan = read_unresolved(plan_, flags_, cluster_);
    const UnresolvedPlan other = read_unresolved(*other_, flags_, cluster_);
    // The two may differ only in decisions; everything else must be the same.
    const std::vector<std::string> unlike = unlike_subjects(plan.run, other.run);
    std::vector<std::string> apart;
    std::copy_if(unlike.begin(), unlike.end(), std::back_inserter(apart),
                 [](const std::string& line) { return !line.starts_with("workload."); });
    if (!apart.empty()) {
      apart.emplace_back("--cluster and --gpus put both on one cluster; orrery compare sets such plans side by side.");
      refuse("cli.explain", "the plans differ in model, workload or cluster", std::move(apart));
    }
    Difference diff = explain_difference(plan.run, other.run, plan.calibration.calibration);
    nlohmann::ordered_json json;
    json["valid"] = diff.valid;
    json["first_violation"] = diff.first_violation;
    json["fits"] = diff.fits;
    json["reference_fits"] = diff.reference_fits;
    if (diff.valid) {
      tell_prices(diff.reference, plan.calibration);
      tell_prices(diff.other_report, plan.calibration);
      json["reference"] = to_json(diff.reference);
      json["other"] = to_json(diff.other_report);
    }
    json["decisions"] = diff.decisions;
    json["unlike"] = unlike;
    json["terms"] = nlohmann::ordered_json::array();
    for (const TermDifference& t : diff.terms) {
      json["terms"].push_back({{"name", t.name}, {"reference_s", t.reference.base()}, {"other_s", t.other.base()}});
    }
    json["text"] = diff.text;
    const auto named = [](const PlannedRun& run, const std::string& reference) {
      return run.plan.name.empty() ? reference : run.plan.name;
    };
    std::string workloads;
    if (!unlike.empty()) workloads = "Each is priced with its own workload; the workloads differ, too:\n";
    for (const std::string& line : unlike) workloads += "  " + line + "\n";
    show(json, fmt::format("Why not {} (right) instead of {} (left)\n{}{}\nsoftware: {}\n", named(other.run, *other_),
                           named(plan.run, plan_), workloads, diff.text, describe(plan.calibration.software)));
    return diff.valid && diff.fits && diff.reference_fits ? status_fine : status_no;
  }

  CommonFlags flags_;
  std::string plan_, margin_ = "auto";
  std::optional<std::string> other_, cluster_;
};

}  // namespace

std::unique_ptr<Verb> explain_verb() { return std::make_unique<ExplainVerb>(); }

}  // namespace orrery
