#include "core/plan/memory_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "core/plan/check_context.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

void check_recompute_layers(const CheckContext& c) {
  if (!c.plan.recompute_layers) return;
  const std::vector<std::uint32_t>& counts = *c.plan.recompute_layers;
  const std::uint64_t stages = std::uint64_t{c.plan.mesh.size(Axis::pipeline)} * c.plan.chunks;
  const std::string key = "plan.recompute_layers";
  if (c.plan.recompute == Recompute::none) {
    c.error(key, "recompute-layers-none", "recompute_layers counts layers, and nothing is recomputed",
            {"recompute is none.", "Set recompute to full or selective, or leave out recompute_layers."});
    return;
  }
  if (counts.size() != stages) {
    c.error(key, "recompute-layers-count", "recompute_layers does not name one number per pipeline stage",
            {c.plan.chunks == 1 ? fmt::format("pipeline is {}; recompute_layers has {} entries.", stages, counts.size())
                                : fmt::format("pipeline {} x chunks {} is {}; recompute_layers has {} entries.",
                                              c.plan.mesh.size(Axis::pipeline), c.plan.chunks, stages, counts.size())});
    return;
  }
  std::vector<std::uint32_t> layers;
  if (c.plan.stage_layers) {
    layers = *c.plan.stage_layers;
    if (layers.size() != stages) return;  // said already
  } else if (stages == 1) {
    layers = {static_cast<std::uint32_t>(c.model.layers)};
  } else {
    std::vector<std::uint32_t> even;
    for (std::uint64_t s = 0; s < stages; ++s) {
      even.push_back(static_cast<std::uint32_t>(c.model.layers / stages + (s < c.model.layers % stages ? 1 : 0)));
    }
    std::string sizes = fmt::format("{}", fmt::join(even, ", "));
    c.error(
        key, "recompute-layers-stages", "recompute_layers counts layers of stages whose sizes are left open",
        {"stage_layers is auto.", even.size() <= 64 ? fmt::format("Set stage_layers too: [{}] is the most even.", sizes)
                                                    : "Set stage_layers too."});
    return;
  }
  for (std::size_t s = 0; s < layers.size(); ++s) {
    if (counts[s] <= layers[s]) continue;
    c.error(key, "recompute-layers", "a stage recomputes more layers than it has",
            {fmt::format("Stage {} has {} layers; recompute_layers gives {}.", s, layers[s], counts[s]),
             fmt::format("Nearest valid: {}.", layers[s])});
    return;
  }
}

void check_offload(const CheckContext& c) {
  if (c.plan.offload_states == 0U) return;
  if (const std::uint32_t states = c.plan.offload_states.value_or(8); states > 8) {
    c.error("plan.offload_states", "offload-eighths", "offload_states counts eighths",
            {fmt::format("offload_states is {}; it must be from 0 to 8.", states), "Nearest valid: 8."});
    return;
  }
  if (optimizer_moments(c.workload) == 0 && !has_master_weights(c.workload)) {
    c.error("plan.offload_states", "offload-no-states", "there are no optimizer states to offload",
            {fmt::format("SGD without momentum keeps none in {}.", name_of(c.workload.precision)),
             "Leave out offload_states."});
  }
  if (has_trust_ratio(c.workload)) {
    c.error(
        "plan.offload_states", "offload-trust", "LAMB and LARS update on the device alone",
        {"Their trust ratios need norms that ranks sum on their devices.", "Leave out offload_states, or use adam."});
  }
}

}  // namespace

void check_memory_choices(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  const CheckContext c{plan, model, workload, out};
  check_recompute_layers(c);
  check_offload(c);
}

}  // namespace orrery
