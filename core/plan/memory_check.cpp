#include "core/plan/memory_check.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/counted.hpp"
#include "core/plan/check_context.hpp"
#include "core/plan/nearest_plan.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/recompute_modules.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

void check_recompute_layers(const CheckContext& c) {
  if (!c.plan.recompute_layers) return;
  const std::vector<std::uint32_t>& counts = *c.plan.recompute_layers;
  const std::uint64_t stages = std::uint64_t{c.plan.mesh.size(Axis::pipeline)} * c.plan.chunks;
  const std::string key = "plan.recompute_layers";
  if (c.plan.recompute == Recompute::none) {
    c.error(key, "recompute-layers-none", "recompute_layers is set, but nothing is recomputed",
            {"recompute is none.", "Set recompute to full or selective, or leave out recompute_layers."});
    return;
  }
  if (counts.size() != stages) {
    c.error(key, "recompute-layers-count", "recompute_layers needs one number for each pipeline stage",
            {c.plan.chunks == 1 ? fmt::format("pipeline is {}; recompute_layers has {}.", stages,
                                              counted(counts.size(), "entry", "entries"))
                                : fmt::format("pipeline {} x chunks {} is {}; recompute_layers has {}.",
                                              c.plan.mesh.size(Axis::pipeline), c.plan.chunks, stages,
                                              counted(counts.size(), "entry", "entries"))});
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
    c.error(key, "recompute-layers-stages", "recompute_layers needs stage_layers too",
            {"stage_layers is auto, so the number of layers of a stage is open.",
             even.size() <= 64 ? fmt::format("Set stage_layers too: [{}] is the most even.", sizes)
                               : "Set stage_layers too."});
    return;
  }
  for (std::size_t s = 0; s < layers.size(); ++s) {
    if (counts[s] <= layers[s]) continue;
    c.error(key, "recompute-layers", "a stage recomputes more layers than it has",
            {fmt::format("Stage {} has {}; recompute_layers gives {}.", s, counted(layers[s], "layer"), counts[s]),
             fmt::format("Nearest valid: {}.", layers[s])});
    return;
  }
}

/// Why a model has no such module.
std::string_view reason_without(RecomputeModule m) {
  switch (m) {
    case RecomputeModule::core_attn: return "Every model has an attention core.";
    case RecomputeModule::layernorm: return "It has no norm in front of its branches.";
    case RecomputeModule::mlp: return "It has no dense feed-forward part that is a branch of its own.";
    case RecomputeModule::mla_up_proj: return "Its attention has no latents.";
    case RecomputeModule::moe:
    case RecomputeModule::moe_act: return "It is no mixture.";
    case RecomputeModule::shared_experts: return "It has no shared experts.";
  }
  return {};
}

void check_recompute_modules(const CheckContext& c) {
  const std::string key = "plan.recompute_modules";
  const RecomputeModules set = c.plan.recompute_modules;
  if (c.plan.recompute != Recompute::selective) {
    if (set == set_of(RecomputeModule::core_attn)) return;
    c.error(key, "recompute-modules-selective", "recompute_modules is set, but recomputation is not by module",
            {fmt::format("recompute is {}.", name_of(c.plan.recompute)),
             "Set recompute to selective, or leave out recompute_modules."});
    return;
  }
  if (set == 0) {
    c.error(key, "recompute-modules-none", "selective recomputation has nothing to recompute",
            {"recompute_modules is none.", "Set recompute to none, or name a module."});
    return;
  }
  const RecomputeModules known = recompute_modules_of(c.model);
  for (std::uint8_t n = 0; n < recompute_module_count; ++n) {
    const auto m = static_cast<RecomputeModule>(n);
    if (!has_module(set, m) || has_module(known, m)) continue;
    c.error(key, "recompute-modules", fmt::format("the model has no {} to recompute", recompute_module_names()[n]),
            {std::string(reason_without(m)), fmt::format("It has {}.", recompute_set_names()[known])});
    return;
  }
  if (c.plan.attention == AttentionKernel::flash && recomputes_scores(c.plan) &&
      set != set_of(RecomputeModule::core_attn)) {
    c.error(key, "recompute-modules-flash", "core_attn has nothing to recompute",
            {"It drops the attention scores, and the flash kernel keeps none.",
             "Leave core_attn out of recompute_modules, or set attention to unfused."});
  }
}

/// Pieces of the loss are equal numbers of a rank's positions.
void check_loss_chunks(const CheckContext& c) {
  const std::uint64_t n = c.plan.loss_chunks, context = c.plan.mesh.size(Axis::context);
  const std::string key = "plan.loss_chunks";
  if (n == 1) return;
  if (c.plan.tensor != TensorAlgorithm::one_d) {
    c.error(key, "loss-chunks-tensor", "the loss of a grid of ranks cannot be made in chunks",
            {fmt::format("tensor is \"{}\"; the grid makes the head's product of all positions step by step.",
                         name_of(c.plan.tensor)),
             "Set tensor to \"1d\", or leave out loss_chunks."});
    return;
  }
  if (c.model.architecture == Architecture::vit) {
    c.error(
        key, "loss-chunks-images", "the loss of images cannot be made in chunks",
        {"A vision transformer has a row of logits for each image, and no other positions.", "Leave out loss_chunks."});
    return;
  }
  if (c.workload.sequence_length % context != 0) return;  // said already
  const std::uint64_t positions = c.workload.sequence_length / context;
  if (n > 0 && positions % n == 0) return;
  c.error(key, "loss-chunks", "loss_chunks does not divide the positions of a rank",
          {context == 1 ? fmt::format("sequence is {}; loss_chunks is {}.", positions, n)
                        : fmt::format("sequence / context is {}; loss_chunks is {}.", positions, n),
           nearest_divisors(positions, std::max<std::uint64_t>(n, 1), "loss_chunks")});
}

/// `of` is "states", for example, as in offload_states and states_tier.
void check_tier(const CheckContext& c, const char* code, std::string_view of, OffloadTier tier,
                const std::optional<std::uint32_t>& eighths) {
  if (tier != OffloadTier::disk || eighths != 0U) return;
  c.error(fmt::format("plan.{}_tier", of), code, fmt::format("{0}_tier is set, but no {0} are offloaded", of),
          {fmt::format("offload_{} is 0.", of), fmt::format("Set offload_{0} to 8, or leave out {0}_tier.", of)});
}

bool counts_eighths(const CheckContext& c, const char* name, const std::optional<std::uint32_t>& eighths) {
  if (eighths.value_or(8) <= 8) return true;
  c.error(std::string("plan.") + name, "offload-eighths", fmt::format("{} counts eighths, and cannot be above 8", name),
          {fmt::format("{} is {}; it must be from 0 to 8.", name, *eighths), "Nearest valid: 8."});
  return false;
}

void check_offloaded_parameters(const CheckContext& c) {
  check_tier(c, "parameters-tier", "parameters", c.plan.parameters_tier, c.plan.offload_parameters);
  const auto& [states, parameters] = std::tie(c.plan.offload_states, c.plan.offload_parameters);
  if (!counts_eighths(c, "offload_parameters", parameters) || parameters == 0U) return;
  if (c.plan.zero_stage == 3) {
    c.error("plan.offload_parameters", "offload-parameters-zero", "weights cannot be offloaded with ZeRO-3",
            {"ZeRO-3 keeps a rank's share of the weights on its device.",
             "Leave out offload_parameters, or set zero_stage to 2."});
  }
  if (parameters && states && *parameters > *states) {
    c.error(
        "plan.offload_parameters", "offload-parameters-states",
        "more layers have offloaded weights than offloaded states",
        {fmt::format(
             "offload_parameters is {}, and offload_states is {}; the host updates only weights whose states it holds.",
             *parameters, *states),
         fmt::format("Nearest valid: {0}, or offload_states = {1}.", *states, *parameters)});
  }
}

void check_offload(const CheckContext& c) {
  check_offloaded_parameters(c);
  static_cast<void>(counts_eighths(c, "offload_activations", c.plan.offload_activations));
  check_tier(c, "activations-tier", "activations", c.plan.activations_tier, c.plan.offload_activations);
  if (!counts_eighths(c, "offload_states", c.plan.offload_states)) return;
  check_tier(c, "states-tier", "states", c.plan.states_tier, c.plan.offload_states);
  if (c.plan.offload_states == 0U) return;
  if (optimizer_moments(c.workload) == 0 && !has_master_weights(c.workload) && !has_factored_moments(c.workload)) {
    c.error("plan.offload_states", "offload-no-states", "there are no optimizer states to offload",
            {fmt::format("SGD without momentum keeps none in {}.", name_of(c.workload.precision)),
             "Leave out offload_states."});
  }
}

}  // namespace

void check_memory_choices(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  const CheckContext c{plan, model, workload, out};
  check_recompute_layers(c);
  check_recompute_modules(c);
  check_loss_chunks(c);
  check_offload(c);
}

}  // namespace orrery
