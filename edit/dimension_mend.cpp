#include "edit/dimension_mend.hpp"

#include <algorithm>
#include <functional>

#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_check.hpp"
#include "edit/dimension_candidates.hpp"
#include "edit/dimension_put.hpp"

namespace orrery {
namespace {

/// The first rule that the run breaks, with its numbers; empty where it is valid.
std::string violation(const PlannedRun& run) {
  Diagnostics d;
  if (check_sizes(run.model, run.workload, d)) check(run.plan, run.model, run.workload, &*run.cluster, d);
  if (d.empty()) return "";
  const Diagnostic& first = d.list().front();
  std::string out = first.message + ".";
  if (!out.empty()) out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
  for (const std::string& detail : first.details) out += " " + detail;
  return out;
}
bool valid(const PlannedRun& run) { return violation(run).empty(); }

/// What follows from the mesh and the schedule, so that nothing stays behind without its reason.
void follow(const PlannedRun& before, PlannedRun& run) {
  Plan& plan = run.plan;
  const Plan& old = before.plan;
  if (plan.mesh.size() != old.mesh.size()) plan.placement.clear();
  if (stage_map(plan).stages() != stage_map(old).stages() || run.model.layers != before.model.layers) {
    plan.stage_layers.reset();
    plan.recompute_layers.reset();
  }
  if (plan.recompute == Recompute::none) plan.recompute_layers.reset();
  if (plan.mesh.size(Axis::tensor) == 1) plan.sequence_parallel = false;
  if (plan.mesh.size(Axis::context) == 1) {
    plan.context = Plan{}.context;
    plan.zigzag = false;
  }
  if (plan.mesh.size(Axis::context) != old.mesh.size(Axis::context) || plan.context != ContextAlgorithm::ring) {
    plan.inner_ring = 0;
  }
  if (plan.zero_stage < 3) {
    plan.reshard_after_forward = Plan{}.reshard_after_forward;
    plan.prefetch = Plan{}.prefetch;
    plan.parameter_chunk = Plan{}.parameter_chunk;
  }
  if (plan.schedule != ScheduleName::custom) {
    plan.order_file.clear();
    plan.order.clear();
    plan.order_placement = Plan{}.order_placement;
  }
  if (plan.tensor != TensorAlgorithm::three_d) plan.save_gathered = false;
}

/// Ways to mend a run that breaks a rule, the smallest first; each is tried with those before it.  `fixed` is what was
/// asked for.
bool mend(PlannedRun& run, Dimension fixed) {
  if (valid(run)) return true;
  const PlannedRun plain = run;
  const std::function<void()> mendings[] = {
      [&] {  // the largest microbatch that divides, no larger than it is
        if (fixed == Dimension::microbatch_size) return;
        const std::uint64_t sequences = sequences_of_rank(run);
        std::uint64_t size = std::min<std::uint64_t>(run.plan.microbatch_size, sequences);
        while (size > 1 && sequences % size != 0) --size;
        run.plan.microbatch_size = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, size));
      },
      [&] {  // as many chunks as the schedule takes
        if (fixed == Dimension::chunks) return;
        const ScheduleRules& rules = rules_of(run.plan.schedule);
        run.plan.chunks = std::max(run.plan.chunks, rules.least_chunks);
        if (rules.most_chunks > 0) run.plan.chunks = std::min(run.plan.chunks, rules.most_chunks);
        run.plan.stage_layers.reset();
        run.plan.recompute_layers.reset();
      },
      [&] {
        if (fixed != Dimension::attention) run.plan.attention.reset();
      },
      [&] {
        if (fixed != Dimension::recompute && run.plan.recompute == Recompute::selective) {
          run.plan.recompute = Recompute::none;
        }
      },
      [&] { run.plan.zigzag = false; },
      [&] {  // smaller microbatches are more of them, which many schedules want
        if (fixed != Dimension::microbatch_size) run.plan.microbatch_size = 1;
      },
      [&] {  // the schedule that asks for least
        if (fixed == Dimension::schedule) return;
        run.plan.schedule = ScheduleName::one_f_one_b;
        if (fixed != Dimension::chunks) run.plan.chunks = 1;
        follow(plain, run);
      },
      [&] {
        if (fixed != Dimension::zero_stage) run.plan.zero_stage = std::min(run.plan.zero_stage, 1U);
        if (fixed != Dimension::offload_parameters) run.plan.offload_parameters = 0;
        follow(plain, run);
      },
      [&] {
        if (fixed != Dimension::sequence_parallel) run.plan.sequence_parallel = false;
      },
  };
  for (const auto& mending : mendings) {
    mending();
    if (valid(run)) return true;
  }
  run = plain;
  return false;
}

}  // namespace

bool settle(const PlannedRun& before, PlannedRun& run, Dimension fixed, std::string& reason) {
  const std::optional<Axis> axis = info(fixed).axis;
  const bool tensor = fixed == Dimension::tensor || fixed == Dimension::tensor_algorithm;
  const std::uint64_t devices = run.cluster->devices();
  follow(before, run);
  const std::uint64_t rest = run.plan.mesh.size() / run.plan.mesh.size(Axis::data);
  if (axis != Axis::data && devices % rest == 0) {
    PlannedRun with_data = run;
    set_size(with_data.plan.mesh, Axis::data, static_cast<std::uint32_t>(devices / rest));
    follow(before, with_data);
    reason = violation(with_data);
    if (mend(with_data, fixed)) return run = std::move(with_data), true;
  } else {
    reason = violation(run);
    if (mend(run, fixed)) return true;
  }
  // Who turns a schedule or a batch does not ask for another mesh.
  if (!axis && fixed != Dimension::devices && fixed != Dimension::tensor_algorithm) return false;
  const std::uint64_t tensor_ranks = size(run.plan.mesh, tensor_axes);
  std::optional<PlannedRun> found;
  const auto suits = [&](const Mesh& mesh) {
    if (axis && !tensor && mesh.size(*axis) != run.plan.mesh.size(*axis)) return false;
    if (tensor && size(mesh, tensor_axes) != tensor_ranks) return false;
    if (run.plan.tensor != TensorAlgorithm::one_d && mesh.size(Axis::tensor) != 1) return false;
    PlannedRun other = run;
    other.plan.mesh = mesh;
    follow(before, other);
    if (!mend(other, fixed)) return false;
    found = std::move(other);
    return true;
  };
  if (!nearest_meshes(run.plan.mesh, devices, suits, 1).empty()) return run = std::move(*found), true;
  return false;
}

}  // namespace orrery
