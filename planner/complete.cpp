#include "planner/complete.hpp"

#include <algorithm>
#include <tuple>

#include "core/plan/recompute_modules.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/plan/stage_split.hpp"
#include "core/program/lower/layer_bytes.hpp"
#include "core/record/rates.hpp"
#include "planner/gradient_bucket.hpp"

namespace orrery {

double head_in_layers(const ModelSpec& model, const Workload& workload) {
  // Twice as many layers and one head: the difference is layers alone.
  ModelSpec twice = model;
  twice.layers *= 2;
  const double once = model_flops(model, workload);
  const double layers = model_flops(twice, workload) - once;
  return std::max(0.0, (once - layers) / (layers / static_cast<double>(model.layers)));
}

std::vector<std::uint32_t> balanced_stages(const Plan& plan, const ModelSpec& model, const Workload& workload) {
  const StageMap map = stage_map(plan);
  const double head = head_in_layers(model, workload);
  std::vector<std::uint32_t> best;
  std::tuple<double, double> least;
  auto splits = uneven_stages(model.layers, map.stages(), split_reach);
  // Descending, so that of equals the one with larger stages first stands.
  for (auto split = splits.rbegin(); split != splits.rend(); ++split) {
    double busiest = 0.0, uneven = 0.0;
    for (std::uint32_t r = 0; r < map.ranks; ++r) {
      double load = 0.0;
      for (std::uint32_t c = 0; c < map.chunks; ++c) {
        const std::uint32_t s = map.stage(r, c);
        load += (*split)[s] + (s + 1 == map.stages() ? head : 0.0);
      }
      busiest = std::max(busiest, load);
    }
    for (const std::uint32_t layers : *split) uneven += static_cast<double>(layers) * layers;
    const std::tuple<double, double> here{busiest, uneven};
    if (!best.empty() && least <= here) continue;
    least = here;
    best = *split;
  }
  return best;
}

void complete(Plan& plan, const ModelSpec& model, const Workload& workload) {
  const auto replicas = static_cast<std::uint32_t>(size(plan.mesh, batch_axes));
  if (!plan.gradient_bucket) plan.gradient_bucket = default_gradient_bucket(workload, replicas);
  if (!plan.overlap_gradients) {
    plan.overlap_gradients = std::uint64_t{replicas} * plan.mesh.size(Axis::context) > 1;
  }
  if (!plan.attention) {
    const bool scores = recomputes_scores(plan) || plan.context == ContextAlgorithm::ring_self_attention;
    plan.attention = scores ? AttentionKernel::unfused : AttentionKernel::flash;
  }
  if (!plan.stage_layers) plan.stage_layers = balanced_stages(plan, model, workload);
  // Chunks do not span layers.
  if (!plan.parameter_chunk) plan.parameter_chunk = whole_layer_bytes(plan, model, workload);
}

}  // namespace orrery
