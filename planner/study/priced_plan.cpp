#include "planner/study/priced_plan.hpp"

#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "core/record/calibration_file.hpp"
#include "planner/resolve.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

/// What a study asks for ships with the program: without it the world failed, not the user.
template <class T>
T required(std::optional<T> found, const Diagnostics& d) {
  if (!found || !d.empty()) throw Error("a study lacks its data\n" + render(d));
  return std::move(*found);
}

}  // namespace

ModelSpec study_model(const Library& library, const std::string& name) {
  Diagnostics d;
  std::optional<ModelSpec> found = library.model(name, ".", d);
  return required(std::move(found), d);
}

ClusterSpec study_cluster(const Library& library, const std::string& name, std::uint32_t gpus) {
  Diagnostics d;
  std::optional<ClusterSpec> found = library.cluster(name, ".", gpus, d);
  return required(std::move(found), d);
}

DeviceSpec study_device(const Library& library, const std::string& name) {
  Diagnostics d;
  std::optional<DeviceSpec> found = library.device(name, d);
  return required(std::move(found), d);
}

Calibration study_calibration(const Library& library, const DeviceSpec& device) {
  Diagnostics d;
  std::optional<Calibration> found = read_calibration(library.calibration(device.calibration), d);
  return required(std::move(found), d);
}

Workload study_workload(std::uint64_t batch, std::uint64_t sequence) {
  Workload w;
  w.global_batch = batch;
  w.sequence_length = sequence;
  w.precision = Precision::fp16;
  w.gradient_dtype = DType::f16;
  return w;
}

PricedPlan priced(const ModelSpec& model, const Workload& workload, const ClusterSpec& cluster,
                  const Calibration& calibration, Plan plan) {
  Diagnostics d;
  check(plan, model, workload, &cluster, d);
  if (!d.empty()) throw Error("a study's plan is not valid\n" + render(d));
  PricedPlan out;
  out.run.model = model;
  out.run.workload = workload;
  out.run.cluster = cluster;
  out.run.plan = resolve(plan, model, workload, cluster, calibration).plan;
  out.program = lower(model, workload, out.run.plan);
  const Plan& resolved = out.run.plan;
  out.report =
      estimate(out.run, out.program,
               CostModel(cluster, calibration, resolved.mesh, resolved.placement, resolved.collective_algorithm));
  judge_memory(out.report, out.run, out.program, calibration);
  return out;
}

double mean_state_bytes(const Report& report) {
  double sum = 0.0;
  for (const StageMemory& s : report.memory_by_stage) {
    sum += static_cast<double>(s.weights) + static_cast<double>(s.gradients) + static_cast<double>(s.optimizer);
  }
  return report.memory_by_stage.empty() ? 0.0 : sum / static_cast<double>(report.memory_by_stage.size());
}

double saved_layer_bytes(const Program& program, std::uint32_t layer) {
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const ClassTotals totals = totals_of(program, c);
    if (layer < totals.saved.size() && totals.saved[layer].activations > 0) {
      return static_cast<double>(totals.saved[layer].activations);
    }
  }
  return 0.0;
}

}  // namespace orrery
