#include "cli/validate_explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/wrapping.hpp"
#include "core/base/nearest.hpp"
#include "core/base/source_excerpt.hpp"
#include "validate/explained_run.hpp"
#include "validate/statistics.hpp"
#include "validate/validation.hpp"

namespace orrery {
namespace {

std::string seconds_text(double s) { return fmt::format("{:.4g} s", s); }

std::string share_text(double part, double whole) { return fmt::format("{:.1f} %", 100.0 * part / whole); }

std::string explained_text(const ExplainedRun& run) {
  const Report& r = run.report;
  const double step = r.step_time.base();
  std::string out =
      fmt::format("{}\n{}, {}\n\n  predicted {}, {} to {} in eight of ten\n", escaped(run.id), escaped(run.model),
                  escaped(run.framework), seconds_text(step), seconds_text(run.low), seconds_text(run.high));
  out += fmt::format("  (by {} runs held out of {})\n", run.group_runs, run.group);
  if (run.measured) {
    out +=
        fmt::format("  measured  {}, error {:+.1f} %\n", seconds_text(*run.measured), error_pct(step, *run.measured));
  }
  out += fmt::format("\nWhere a rank's step goes, in the mean\n");
  Table parts({"<", "time", "of the step"});
  const double collectives = exposed_collectives(r).base();
  const double bubble = r.bubble_fraction * step;
  parts.row({"compute", seconds_text(r.compute.base()), share_text(r.compute.base(), step)});
  parts.row({"waiting for collectives", seconds_text(collectives), share_text(collectives, step)});
  parts.row({"bubble", seconds_text(bubble), share_text(bubble, step)});
  out += parts.str();
  out += "\nTime of each kind of operation, hidden or not\n";
  std::vector<OperationTime> operations = r.operations;
  std::stable_sort(operations.begin(), operations.end(),
                   [](const OperationTime& a, const OperationTime& b) { return a.time > b.time; });
  Table kinds({"<operation", "time", "of the step", "count"});
  for (const OperationTime& o : operations) {
    if (o.time.base() < 0.002 * step) continue;
    kinds.row({o.name, seconds_text(o.time.base()), share_text(o.time.base(), step), fmt::format("{}", o.count)});
  }
  out += kinds.str();
  out += "\nConstants of software, and what each alone would have to be for no error\n";
  Table constants({"<key", "<cost", "value", "prior", "runs", "step per 1 %", "its doubt", "would be"});
  for (const ConstantAtRun& c : run.constants) {
    constants.row({c.key, std::string(name_of(c.cost)), fmt::format("{:.3g}", c.value), fmt::format("{:.3g}", c.prior),
                   fmt::format("{}", c.runs), fmt::format("{:+.2f} %", c.elasticity),
                   fmt::format("{:.1f} %", std::abs(c.doubt_pct)),
                   c.would_be ? fmt::format("{:.3g}", *c.would_be) : std::string("-")});
  }
  return out + constants.str();
}

nlohmann::ordered_json explained_json(const ExplainedRun& run) {
  nlohmann::ordered_json out{
      {"id", run.id}, {"model", run.model}, {"framework", run.framework}, {"labels", run.labels}};
  const Report& r = run.report;
  const double step = r.step_time.base();
  out["predicted"] = step;
  out["low"] = run.low;
  out["high"] = run.high;
  out["interval_of"] = {{"key", run.group}, {"runs", run.group_runs}};
  if (run.measured) {
    out["measured"] = *run.measured;
    out["error"] = error_pct(step, *run.measured);
  }
  out["compute_s"] = r.compute.base();
  out["exposed_collectives_s"] = exposed_collectives(r).base();
  out["bubble_s"] = r.bubble_fraction * step;
  out["operations"] = nlohmann::ordered_json::array();
  for (const OperationTime& o : r.operations) {
    out["operations"].push_back({{"name", o.name}, {"time_s", o.time.base()}, {"count", o.count}});
  }
  out["constants"] = nlohmann::ordered_json::array();
  for (const ConstantAtRun& c : run.constants) {
    nlohmann::ordered_json one{
        {"key", c.key},   {"cost", std::string(name_of(c.cost))}, {"value", c.value},        {"prior", c.prior},
        {"runs", c.runs}, {"elasticity", c.elasticity},           {"doubt_pct", c.doubt_pct}};
    if (c.would_be) one["would_be"] = *c.would_be;
    out["constants"].push_back(std::move(one));
  }
  return out;
}

}  // namespace

int validate_explain(const CommonFlags& flags, const std::vector<MeasuredRun>& rows, const Library& library,
                     const std::string& id) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const MeasuredRun& r) { return r.id == id; });
  if (row == rows.end()) {
    std::vector<std::string> ids;
    for (const MeasuredRun& r : rows) ids.push_back(r.id);
    refuse("cli.row", fmt::format("the table has no row {}", escaped(id)),
           {fmt::format("Nearest: {}.", escaped(fmt::format("{}", fmt::join(nearest(id, ids), ", "))))});
  }
  const RunExplanation explained = explain_run(*row, library, shipped_costs(library));
  if (!explained.run) {
    if (flags.json) {
      print_json({{"id", id}, {"reason", explained.reason}});
    } else {
      print(fmt::format("{} is not predicted: {}\n", escaped(id), escaped(explained.reason)));
    }
    return status_no;
  }
  const nlohmann::ordered_json json = explained_json(*explained.run);
  answer(flags, json, explained_text(*explained.run));
  return status_fine;
}

}  // namespace orrery
