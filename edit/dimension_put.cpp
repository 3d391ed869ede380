#include "edit/dimension_put.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"
#include "planner/space.hpp"

namespace orrery {
namespace {

/// The whole root, or nothing.
std::optional<std::uint32_t> exact_root(std::uint64_t n, int power) {
  const auto near = static_cast<std::uint64_t>(std::llround(std::pow(static_cast<double>(n), 1.0 / power)));
  std::uint64_t product = 1;
  for (int i = 0; i < power; ++i) product *= near;
  if (product != n) return std::nullopt;
  return static_cast<std::uint32_t>(near);
}

/// Gives `ranks` ranks to an algorithm of matrix products; false where it takes no such number.
bool set_tensor(Plan& plan, TensorAlgorithm algorithm, std::uint64_t ranks) {
  const std::uint32_t depth = plan.mesh.size(Axis::depth);
  plan.tensor = algorithm;
  for (const Axis a : tensor_axes) set_size(plan.mesh, a, 1);
  const auto grid = [&](std::uint32_t q, std::uint32_t layers) {
    set_size(plan.mesh, Axis::depth, layers);
    set_size(plan.mesh, Axis::row, q);
    set_size(plan.mesh, Axis::column, q);
    return q > 1;
  };
  switch (algorithm) {
    case TensorAlgorithm::one_d: set_size(plan.mesh, Axis::tensor, static_cast<std::uint32_t>(ranks)); return true;
    case TensorAlgorithm::two_d: {
      const auto q = exact_root(ranks, 2);
      return q && grid(*q, 1);
    }
    case TensorAlgorithm::three_d: {
      const auto q = exact_root(ranks, 3);
      return q && grid(*q, *q);
    }
    case TensorAlgorithm::two_half_d: {
      std::vector<std::uint32_t> depths;
      if (depth > 1) depths.push_back(depth);
      for (std::uint32_t d = 2; d <= 8; ++d) depths.push_back(d);
      for (const std::uint32_t d : depths) {
        const auto q = ranks % d == 0 ? exact_root(ranks / d, 2) : std::nullopt;
        if (q && grid(*q, d)) return true;
      }
      return false;
    }
  }
  return false;
}

/// As many layers of each stage, where it has them; all of them is what a plan without counts says.
bool put_recomputed(PlannedRun& run, std::uint32_t layers, std::string& reason) {
  Plan& plan = run.plan;
  if (plan.recompute == Recompute::none) {
    reason = "Nothing is recomputed.";
    return layers == 0;
  }
  const std::uint32_t most = most_stage_layers(run);
  if (layers > most) {
    reason = fmt::format("A stage has {} layers at most.", most);
    return false;
  }
  plan.recompute_layers.reset();
  if (layers == most) return true;
  const std::uint32_t stages = stage_map(plan).stages();
  if (!plan.stage_layers) plan.stage_layers = uneven_stages(run.model.layers, stages, 0).front();
  for (const std::uint32_t held : *plan.stage_layers) {
    if (!plan.recompute_layers) plan.recompute_layers.emplace();
    plan.recompute_layers->push_back(std::min(held, layers));
  }
  return true;
}

/// A tier says something only of what is offloaded.
bool put_tier(OffloadTier& tier, const std::optional<std::uint32_t>& offloaded, std::uint64_t value,
              std::string& reason) {
  tier = static_cast<OffloadTier>(value);
  if (tier == OffloadTier::host || offloaded != 0U) return true;
  reason = "Nothing of it is offloaded.";
  return false;
}

}  // namespace

void set_size(Mesh& mesh, Axis axis, std::uint32_t size) {
  const auto at = std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const MeshAxis& a) { return a.axis == axis; });
  if (at != mesh.axes.end()) {
    at->size = size;
  } else if (size > 1) {
    const auto behind =
        std::find_if(mesh.axes.begin(), mesh.axes.end(), [&](const MeshAxis& a) { return a.axis > axis; });
    mesh.axes.insert(behind, {axis, size});
  }
}

bool put(PlannedRun& run, Dimension d, std::uint64_t value, std::string& reason) {
  Plan& plan = run.plan;
  Workload& work = run.workload;
  const auto small = static_cast<std::uint32_t>(std::min<std::uint64_t>(value, plan_size_limit));
  const auto eighths = value == open_offload ? std::nullopt : std::optional(small);
  switch (d) {
    case Dimension::devices: {
      Diagnostics wrong;
      auto other = resized(*run.cluster, small, wrong);
      if (!other) {
        const Diagnostic& first = wrong.list().front();
        reason = first.message + ".";
        for (const std::string& detail : first.details) reason += " " + detail;
        return false;
      }
      run.cluster = std::move(other);
      return true;
    }
    case Dimension::batch: work.global_batch = value; break;
    case Dimension::sequence: work.sequence_length = value; break;
    case Dimension::precision:
      work.precision = static_cast<Precision>(value);
      work.gradient_dtype.reset();
      work.moment_dtype.reset();
      break;
    case Dimension::optimizer: {
      Optimizer usual;
      usual.kind = static_cast<OptimizerKind>(value);
      usual.learning_rate = work.optimizer.learning_rate;
      usual.weight_decay = work.optimizer.weight_decay;
      if (usual.kind == OptimizerKind::sgd || usual.kind == OptimizerKind::lars) usual.momentum = 0.9;
      work.optimizer = usual;
      work.moment_dtype.reset();
      break;
    }
    case Dimension::tensor:
      if (set_tensor(plan, plan.tensor, value)) return true;
      reason = fmt::format("{} ranks make no {} grid.", value, name_of(plan.tensor));
      return false;
    case Dimension::tensor_algorithm: {
      const std::uint64_t ranks = size(plan.mesh, tensor_axes);
      const auto algorithm = static_cast<TensorAlgorithm>(value);
      // The same number of ranks, else the nearest one above that makes a grid.
      for (std::uint64_t n = ranks; n <= std::max<std::uint64_t>(64, 2 * ranks); ++n) {
        if (run.cluster->devices() % n == 0 && set_tensor(plan, algorithm, n)) return true;
      }
      reason = fmt::format("No number of ranks from {} on that divides {} devices makes a {} grid.", ranks,
                           run.cluster->devices(), name_of(algorithm));
      return false;
    }
    case Dimension::data:
    case Dimension::pipeline:
    case Dimension::context:
    case Dimension::expert:
    case Dimension::replica: set_size(plan.mesh, *info(d).axis, small); break;
    case Dimension::context_algorithm: plan.context = static_cast<ContextAlgorithm>(value); break;
    case Dimension::microbatch_size: plan.microbatch_size = small; break;
    case Dimension::schedule: {
      plan.schedule = static_cast<ScheduleName>(value);
      if (plan.schedule != ScheduleName::custom) break;
      reason = "A schedule of one's own is written in a file that the plan names.";
      return !plan.order.empty();
    }
    case Dimension::chunks: plan.chunks = small; break;
    case Dimension::sequence_parallel: plan.sequence_parallel = value != 0; break;
    case Dimension::recompute:
      plan.recompute = static_cast<Recompute>(value);
      plan.recompute_layers.reset();
      break;
    case Dimension::attention:
      plan.attention = value == 0 ? std::nullopt : std::optional(static_cast<AttentionKernel>(value - 1));
      break;
    case Dimension::zero_stage: plan.zero_stage = small; break;
    case Dimension::overlap_gradients:
      plan.overlap_gradients = value == 0 ? std::nullopt : std::optional(value == 2);
      break;
    case Dimension::offload_states:
      plan.offload_states = eighths;
      if (value == 0) plan.states_tier = OffloadTier::host;
      if (eighths && plan.offload_parameters && *plan.offload_parameters > *eighths) plan.offload_parameters = eighths;
      break;
    case Dimension::offload_parameters:
      plan.offload_parameters = eighths;
      if (value == 0) plan.parameters_tier = OffloadTier::host;
      if (eighths && plan.offload_states && *plan.offload_states < *eighths) plan.offload_states = eighths;
      break;
    case Dimension::offload_activations:
      plan.offload_activations = eighths;
      if (value == 0) plan.activations_tier = OffloadTier::host;
      break;
    case Dimension::recompute_layers: return put_recomputed(run, small, reason);
    case Dimension::states_tier: return put_tier(plan.states_tier, plan.offload_states, value, reason);
    case Dimension::parameters_tier: return put_tier(plan.parameters_tier, plan.offload_parameters, value, reason);
    case Dimension::activations_tier: return put_tier(plan.activations_tier, plan.offload_activations, value, reason);
    case Dimension::zigzag: plan.zigzag = value != 0; break;
    case Dimension::inner_ring: plan.inner_ring = small; break;
    case Dimension::save_gathered: plan.save_gathered = value != 0; break;
    case Dimension::reshard_after_forward: plan.reshard_after_forward = value != 0; break;
    case Dimension::prefetch: plan.prefetch = small; break;
    case Dimension::parameter_chunk:
      if (value < written_chunk) {
        plan.parameter_chunk = chunk_of(value);
        break;
      }
      reason = "Other sizes are written in the plan file.";
      return value_of(run, d) == value;
    case Dimension::gradient_bucket:
      plan.gradient_bucket =
          value == 0 ? std::nullopt : std::optional(Bytes::of(static_cast<double>(small) * mebibyte.base()));
      break;
    case Dimension::collective_algorithm:
      plan.collective_algorithm =
          value == 0 ? std::nullopt : std::optional(static_cast<CollectiveAlgorithm>(value - 1));
      break;
  }
  return true;
}

}  // namespace orrery
