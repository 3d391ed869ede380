#include "validate/explained_run.hpp"

#include <algorithm>
#include <cmath>

#include "validate/prepared_run.hpp"

namespace orrery {
namespace {

constexpr double step = 0.03;          ///< of a difference, in the logarithm of a constant
constexpr double least_effect = 1e-3;  ///< elasticity below which a constant is not told
constexpr double most_moved = 10.0;

std::vector<ConstantAtRun> constants_at(const PreparedRun& run, const std::vector<CostFile>& files, double predicted) {
  std::vector<ConstantAtRun> out;
  std::vector<CostFile> moved = files;
  for (std::size_t f = 0; f < files.size(); ++f) {
    if (!applies(files[f], run.labels)) continue;
    for (std::size_t c = 0; c < files[f].costs.size(); ++c) {
      const FittedCost& cost = files[f].costs[c];
      moved[f].costs[c].value = cost.value * std::exp(step);
      const double slope = std::log(step_time(run, costs_of(moved, run.labels)) / predicted) / step;
      moved[f].costs[c].value = cost.value;
      if (std::abs(slope) < least_effect) continue;
      ConstantAtRun& at = out.emplace_back();
      at.key = files[f].name;
      at.cost = cost.cost;
      at.value = cost.value;
      at.prior = cost.prior;
      at.runs = files[f].runs.size();
      at.elasticity = slope;
      at.doubt_pct = 100.0 * slope * (cost.uncertainty > 0.0 ? cost.uncertainty : cost.spread);
      if (!run.measured) continue;
      const double factor = std::exp(std::log(*run.measured / predicted) / slope);
      if (factor < most_moved && factor > 1.0 / most_moved) at.would_be = factor * cost.value;
    }
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.elasticity) > std::abs(b.elasticity); });
  return out;
}

}  // namespace

RunExplanation explain_run(const MeasuredRun& row, const Library& library, const std::vector<CostFile>& files) {
  std::variant<PreparedRun, std::string> prepared = prepare(row, library);
  if (auto* reason = std::get_if<std::string>(&prepared)) return {std::nullopt, std::move(*reason)};
  const auto& run = std::get<PreparedRun>(prepared);
  ExplainedRun out;
  out.id = row.id;
  out.framework = row.framework;
  out.model = row.model;
  out.labels.insert(out.labels.end(), run.labels.devices.begin(), run.labels.devices.end());
  out.labels.insert(out.labels.end(), run.labels.frameworks.begin(), run.labels.frameworks.end());
  out.measured = run.measured;
  out.report = step_report(run, costs_of(files, run.labels));
  const double predicted = out.report.step_time.base();
  const HeldOutErrors errors =
      errors_of(files, run.labels, ModelKnown{run.run.model.mixture.has_value(), run.architecture});
  out.group = errors.group;
  out.group_runs = errors.runs;
  out.low = errors.low * predicted;
  out.high = errors.high * predicted;
  out.constants = constants_at(run, files, predicted);
  return {std::move(out), {}};
}

}  // namespace orrery
