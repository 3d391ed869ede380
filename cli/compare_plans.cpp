#include "cli/compare_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/plan_source.hpp"
#include "cli/report_text.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/wrapping.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_check.hpp"
#include "core/record/report_file.hpp"
#include "planner/describe.hpp"

namespace orrery {
namespace {

/// "A", "B", ..., then "27".
std::string letter(std::size_t at) {
  return at < 26 ? std::string(1, static_cast<char>('A' + at)) : std::to_string(at + 1);
}

/// A row of figures, one for each plan.
class Rows {
 public:
  Rows(Table& table, const std::vector<Report>& reports) : table_(table), reports_(reports) {}
  template <class F>
  void row(const char* what, F value) {
    std::vector<std::string> cells{what};
    for (const Report& r : reports_) cells.push_back(value(r));
    table_.row(std::move(cells));
  }
  /// With the range of eight measured cases in ten below it, where there is one.
  template <class F, class G>
  void ranged(const char* what, F value, G range) {
    row(what, value);
    const bool any =
        std::any_of(reports_.begin(), reports_.end(), [](const Report& r) { return r.interval.has_value(); });
    if (any && reports_.size() == 2) row("  eight in ten", range);  // more do not fit side by side
  }

 private:
  Table& table_;
  const std::vector<Report>& reports_;
};

std::string table_of(const std::vector<LoadedPlan>& plans, const std::vector<Report>& reports) {
  std::vector<std::string> heads{""};
  for (std::size_t i = 0; i < plans.size(); ++i) heads.push_back(letter(i));
  Table table(std::move(heads));
  using R = const Report&;
  Rows rows(table, reports);
  const auto gib = [](std::uint64_t bytes) { return short_text(Bytes::of(static_cast<double>(bytes))); };
  rows.row("GPUs", [](R r) { return fmt::format("{}", r.gpus); });
  rows.row("software", [](R r) { return r.software; });
  rows.ranged(
      "step time", [](R r) { return short_text(r.step_time, 4); }, [](R r) { return step_range(r); });
  rows.ranged(
      "tokens/s per GPU", [](R r) { return short_count(r.tokens_per_s_per_gpu, 4); },
      [](R r) { return count_range(r, r.tokens_per_s_per_gpu); });
  rows.ranged(
      "MFU", [](R r) { return percent(r.model_flops_utilization); },
      [](R r) { return percent_range(r, r.model_flops_utilization); });
  rows.row("compute", [](R r) { return short_text(r.compute); });
  rows.row("waiting for collectives", [](R r) { return short_text(exposed_collectives(r)); });
  rows.row("bubble", [](R r) { return short_text(r.bubble_fraction * r.step_time); });
  rows.row("memory of tensors", [&](R r) { return gib(r.peak_memory_bytes); });
  rows.row("memory of a process",
           [&](R r) { return r.peak_memory_process_bytes ? gib(*r.peak_memory_process_bytes) : std::string("-"); });
  if (std::any_of(reports.begin(), reports.end(), [](R r) { return r.cost_per_step.has_value(); })) {
    rows.row("cost per step", [](R r) {
      return r.cost_per_step ? fmt::format("{:.4g} {}", *r.cost_per_step, r.cost_currency) : std::string("-");
    });
  }
  rows.row("fits", [](R r) { return std::string(r.fits ? "yes" : "no"); });
  return table.str("");
}

/// How a plan differs from the first in what it is for.
std::string unlike_text(const LoadedPlan& a, const LoadedPlan& b, const std::string& name) {
  const std::vector<std::string> unlike = unlike_subjects(a.run, b.run);
  if (unlike.empty()) return "";
  std::string out = fmt::format("The plans differ in model, workload or cluster (A | {}):\n", name);
  for (const std::string& u : unlike) out += "  " + u + "\n";
  if (a.run.cluster->device.name != b.run.cluster->device.name) {
    out += "  The devices differ, and so do prices and the software that the times hold for.\n";
  }
  return out + "\n";
}

}  // namespace

LoadedPlan changed_plan(const LoadedPlan& from, const std::string& words, const CommonFlags& flags) {
  PlannedRun run = changed_run(from.run, words);
  Diagnostics d;
  check(run.plan, run.model, run.workload, &*run.cluster, d);
  require_none(d);
  CalibrationChoice calibration =
      calibration_of(for_framework(flags, run.framework), library_of(flags), *run.cluster, run.workload.precision);
  return resolved_and_lowered({std::move(run), std::move(calibration)});
}

int tell_plans(const std::vector<LoadedPlan>& plans, const CommonFlags& flags) {
  std::vector<Report> reports;
  for (const LoadedPlan& plan : plans) reports.push_back(estimated(plan, false));
  const bool fit = std::all_of(reports.begin(), reports.end(), [](const Report& r) { return r.fits; });
  const LoadedPlan& a = plans.front();
  nlohmann::ordered_json json;
  json["a"] = to_json(reports[0]);
  json["b"] = to_json(reports[1]);
  json["unlike"] = unlike_subjects(a.run, plans[1].run);
  json["differences"] = differences(plans[1].run.plan, a.run.plan);
  json["plans"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    json["plans"].push_back({{"report", to_json(reports[i])},
                             {"unlike", unlike_subjects(a.run, plans[i].run)},
                             {"differences", differences(plans[i].run.plan, a.run.plan)}});
  }
  write_output(flags, json_text(json));
  if (prints_output(flags)) {
    // It has been printed.
  } else if (flags.json) {
    print_json(json);
  } else {
    std::string out;
    for (std::size_t i = 1; i < plans.size(); ++i) out += unlike_text(a, plans[i], letter(i));
    for (std::size_t i = 0; i < plans.size(); ++i) {
      out += fmt::format("{}: {}\n", letter(i), escaped(plans[i].run.plan.name));
    }
    out += "\n" + table_of(plans, reports) + "\n";
    for (std::size_t i = 1; i < plans.size(); ++i) {
      out += fmt::format("{} is {}\n", letter(i), step_difference(reports[i], reports[0]));
      for (const std::string& d : differences(plans[i].run.plan, a.run.plan)) {
        out += fmt::format("  {} has {}\n", letter(i), d);
      }
    }
    print_wrapped(out);
  }
  return fit ? status_fine : status_no;
}

}  // namespace orrery
