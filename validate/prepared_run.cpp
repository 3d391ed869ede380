#include "validate/prepared_run.hpp"

#include <fmt/format.h>

#include "core/program/lower/lower.hpp"
#include "core/record/device_calibration.hpp"
#include "planner/resolve.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/estimate/estimate.hpp"
#include "validate/expressed_run.hpp"
#include "validate/measured_memory.hpp"
#include "validate/program_habits.hpp"
#include "validate/validation.hpp"

namespace orrery {
namespace {

Calibration calibration_of(const DeviceSpec& device, const Library& library) {
  Diagnostics d;
  std::optional<Calibration> found = shipped_calibration(device, library, d);
  if (!found) throw Error("a shipped calibration cannot be read\n" + render(d));
  return std::move(*found);
}

/// What the device would be priced with, had nothing been measured on it.
Calibration unmeasured_calibration(DeviceSpec device, const Calibration& own, const Library& library) {
  device.calibration = datasheet_calibration;
  for (const GemmEfficiency& g : own.gemm) device.multiprocessors = g.units;
  return calibration_of(device, library);
}

CostModel costs_of(const PreparedRun& p, Calibration calibration, const SoftwareCosts& software) {
  calibration.software = software;
  return CostModel(*p.run.cluster, calibration, p.run.plan.mesh, p.run.plan.placement);
}

}  // namespace

std::variant<PreparedRun, std::string> prepare(const MeasuredRun& row, const Library& library) {
  const std::optional<double> step = measured_step(row);
  if (!step && !measured_memory(row)) return "no time is published";
  ExpressedRun expressed = express(row, library);
  if (!expressed.run) return std::move(expressed.reason);
  PreparedRun out;
  out.id = row.id;
  out.source = row.source;
  out.run = std::move(*expressed.run);
  out.calibration = calibration_of(out.run.cluster->device, library);
  out.unmeasured = unmeasured_calibration(out.run.cluster->device, out.calibration, library);
  // Choices that a plan leaves open do not follow the costs of software, because a fit compares times of one Program.
  out.run.plan = resolve(out.run.plan, out.run.model, out.run.workload, *out.run.cluster, out.calibration).plan;
  out.program = lower(out.run.model, out.run.workload, out.run.plan);
  out.labels = labels_of(row, out.calibration.name);
  out.allocator.expandable = habits_of(row)->expandable_segments;
  out.memory = memory_of(row, *habits_of(row), out.calibration.memory ? out.calibration.memory->workspace : Bytes{});
  if (keeps_products(row)) {
    out.memory.kept_products = kept_products(row, out.run);
    Plan plan = out.run.plan;
    plan.recompute_layers.reset();
    out.held_program = lower(out.run.model, out.run.workload, plan);
  }
  const ModelSpec& m = out.run.model;
  out.architecture =
      fmt::format("{} {} {} {}", static_cast<int>(m.activation), m.hidden, m.ffn, m.mixture ? m.mixture->experts : 0);
  out.measured = step;
  out.inconsistent = row.notes.find("INCONSISTENT") != std::string::npos;
  out.filled = std::move(expressed.filled);
  return out;
}

double step_time(const PreparedRun& p, const SoftwareCosts& software) {
  thread_local Estimator estimator;
  return estimator.step_time(p.program, costs_of(p, p.calibration, software)).base();
}

Report step_report(const PreparedRun& p, const SoftwareCosts& software) {
  return estimate(p.run, p.program, costs_of(p, p.calibration, software));
}

double unmeasured_step_time(const PreparedRun& p, const SoftwareCosts& software) {
  thread_local Estimator estimator;
  return estimator.step_time(p.program, costs_of(p, p.unmeasured, software)).base();
}

std::vector<MemoryFigures> memory_figures(const PreparedRun& p) {
  return memory_figures(p.held_program ? *p.held_program : p.program, p.memory, p.allocator);
}

}  // namespace orrery
