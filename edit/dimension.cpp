#include "edit/dimension.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/spec/spec_files.hpp"
#include "edit/translate.hpp"

namespace orrery {
namespace {

/// Names of choices that may be open: "auto" and those of the list.
std::vector<std::string_view> or_auto(std::vector<std::string_view> names) {
  names.insert(names.begin(), "auto");
  return names;
}
const std::vector<std::string_view>& switch_choices() {
  static const std::vector<std::string_view> names{"off", "on"};
  return names;
}
const std::vector<std::string_view>& overlap_choices() {
  static const std::vector<std::string_view> names = or_auto(switch_choices());
  return names;
}
const std::vector<std::string_view>& attention_choices() {
  static const std::vector<std::string_view> names = or_auto(attention_names());
  return names;
}
const std::vector<std::string_view>& offload_choices() {
  static const std::vector<std::string_view> names{"none", "1/8", "2/8", "3/8", "4/8",
                                                   "5/8",  "6/8", "7/8", "all", "auto"};
  return names;
}
const std::vector<std::string_view>& algorithm_choices() {
  static const std::vector<std::string_view> names = or_auto(algorithm_names());
  return names;
}
const std::vector<std::string_view>& chunk_choices() {
  static const std::vector<std::string_view> names{"none",   "auto",    "8 MiB",   "16 MiB",    "32 MiB",
                                                   "64 MiB", "128 MiB", "256 MiB", "as written"};
  return names;
}

using enum DimensionForm;
// The words that DimensionEditor translates.
constexpr std::array<DimensionInfo, dimension_count> infos{{
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Devices"),
     "gpus",
     number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Devices of the cluster: part of a node, or whole nodes."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Batch"),
     "workload.batch",
     counter,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequences in one optimizer step, over all replicas."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequence"),
     "workload.sequence",
     counter,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Tokens in a sequence."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Precision"),
     "workload.precision",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Of weights, activations and products."),
     precision_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Optimizer"),
     "workload.optimizer.kind",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Its moments take memory for every parameter."),
     optimizer_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Data"), "mesh.data", number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "Ranks that take other sequences; ZeRO shares out states along it."),
     nullptr, Axis::data},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Tensor"), "mesh.tensor", number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Ranks that share every matrix product."), nullptr,
     Axis::tensor},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Pipeline"), "mesh.pipeline", number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Stages of layers, one behind the other."), nullptr,
     Axis::pipeline},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Context"), "mesh.context", number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Ranks that take other positions of the same sequences."),
     nullptr, Axis::context},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Expert"), "mesh.expert", number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Ranks that hold other experts; a model without experts has 1."),
     nullptr, Axis::expert},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Replica"), "mesh.replica", number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Whole copies of what ZeRO shares out (hybrid sharding)."),
     nullptr, Axis::replica},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Tensor cut"),
     "plan.tensor",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "How matrix products are cut over the tensor ranks."),
     tensor_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Context cut"),
     "plan.context",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "How the context ranks share attention."),
     context_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Microbatch"),
     "plan.microbatch_size",
     number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequences that go through the pipeline together."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Schedule"),
     "plan.schedule",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "In which order stages work on microbatches."),
     pipeline_schedule_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Chunks"),
     "plan.chunks",
     number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Parts of the model on each pipeline rank."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Sequence parallel"),
     "plan.sequence_parallel",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "Norms and dropout cut along the sequence over the tensor ranks."),
     switch_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Recompute"),
     "plan.recompute",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "What is computed again in place of being kept."),
     recompute_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Attention"),
     "plan.attention",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Flash keeps no scores."),
     attention_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "ZeRO stage"),
     "plan.zero_stage",
     number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "Shared out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Gradient overlap"),
     "plan.overlap_gradients",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Reduce gradients beside the last backward pass."),
     overlap_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Offload states"),
     "plan.offload_states",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "Share of the layers whose optimizer states live in host memory."),
     offload_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Offload weights"),
     "plan.offload_parameters",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Share of the layers whose weights live in host memory."),
     offload_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Offload activations"),
     "plan.offload_activations",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Share of the layers whose activations wait in host memory."),
     offload_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Layers recomputed"),
     "plan.recompute_layers",
     number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Layers of each stage, from its first on, that are recomputed."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "States go to"),
     "plan.states_tier",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Where offloaded optimizer states live."),
     offload_tier_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Weights go to"),
     "plan.parameters_tier",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Where offloaded weights live."),
     offload_tier_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Activations go to"),
     "plan.activations_tier",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Where offloaded activations wait."),
     offload_tier_names,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Zigzag"),
     "plan.zigzag",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "Each context rank holds an early and a late chunk, so that causal work is equal."),
     switch_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Inner ring"),
     "plan.inner_ring",
     number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Context ranks of an inner ring, within a node; 0: one ring."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Keep gathered"),
     "plan.save_gathered",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "3D: keep gathered operands for the backward pass instead of gathering again."),
     switch_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Gather again"),
     "plan.reshard_after_forward",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "ZeRO-3: let a layer's weights go after the forward pass and gather them again."),
     switch_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Prefetch"),
     "plan.prefetch",
     number,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "ZeRO-3: layers whose weights are gathered ahead."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Weight chunks"),
     "plan.parameter_chunk",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "ZeRO-3: size of the chunks that weights are gathered and gradients reduced by."),
     chunk_choices,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Gradient bucket"),
     "plan.gradient_bucket",
     counter,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Least MiB of gradients that one reduction takes; 0: auto."),
     nullptr,
     {}},
    {QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor", "Collectives"),
     "plan.collective_algorithm",
     choice,
     QT_TRANSLATE_NOOP("orrery::gui::DimensionEditor",
                       "One algorithm for all collectives, in place of the fastest of each."),
     algorithm_choices,
     {}},
}};

/// All of them where the plan counts none.
std::uint64_t recomputed_layers(const PlannedRun& run) {
  if (run.plan.recompute == Recompute::none) return 0;
  if (!run.plan.recompute_layers) return most_stage_layers(run);
  return *std::max_element(run.plan.recompute_layers->begin(), run.plan.recompute_layers->end());
}

std::uint64_t chunk_value(const Plan& plan) {
  if (!plan.parameter_chunk) return open_chunk;
  if (*plan.parameter_chunk == Bytes()) return 0;
  for (std::uint64_t v = open_chunk + 1; v < written_chunk; ++v) {
    if (chunk_of(v) == plan.parameter_chunk) return v;
  }
  return written_chunk;
}

}  // namespace

std::optional<Bytes> chunk_of(std::uint64_t value) {
  if (value == open_chunk) return std::nullopt;
  return value == 0 ? Bytes() : Bytes::of(static_cast<double>(std::uint64_t{1} << (21 + value)));  // 2: 8 MiB
}

const DimensionInfo& info(Dimension d) { return infos[static_cast<std::size_t>(d)]; }

std::uint64_t value_of(const PlannedRun& run, Dimension d) {
  const Plan& plan = run.plan;
  switch (d) {
    case Dimension::devices: return run.cluster->devices();
    case Dimension::batch: return run.workload.global_batch;
    case Dimension::sequence: return run.workload.sequence_length;
    case Dimension::precision: return static_cast<std::uint64_t>(run.workload.precision);
    case Dimension::optimizer: return static_cast<std::uint64_t>(run.workload.optimizer.kind);
    case Dimension::tensor: return size(plan.mesh, tensor_axes);
    case Dimension::data:
    case Dimension::pipeline:
    case Dimension::context:
    case Dimension::expert:
    case Dimension::replica: return plan.mesh.size(*info(d).axis);
    case Dimension::tensor_algorithm: return static_cast<std::uint64_t>(plan.tensor);
    case Dimension::context_algorithm: return static_cast<std::uint64_t>(plan.context);
    case Dimension::microbatch_size: return plan.microbatch_size;
    case Dimension::schedule: return static_cast<std::uint64_t>(plan.schedule);
    case Dimension::chunks: return plan.chunks;
    case Dimension::sequence_parallel: return plan.sequence_parallel ? 1 : 0;
    case Dimension::recompute: return static_cast<std::uint64_t>(plan.recompute);
    case Dimension::attention: return plan.attention ? 1 + static_cast<std::uint64_t>(*plan.attention) : 0;
    case Dimension::zero_stage: return plan.zero_stage;
    case Dimension::overlap_gradients: return plan.overlap_gradients ? (*plan.overlap_gradients ? 2 : 1) : 0;
    case Dimension::offload_states: return plan.offload_states.value_or(open_offload);
    case Dimension::offload_parameters: return plan.offload_parameters.value_or(open_offload);
    case Dimension::offload_activations: return plan.offload_activations.value_or(open_offload);
    case Dimension::recompute_layers: return recomputed_layers(run);
    case Dimension::states_tier: return static_cast<std::uint64_t>(plan.states_tier);
    case Dimension::parameters_tier: return static_cast<std::uint64_t>(plan.parameters_tier);
    case Dimension::activations_tier: return static_cast<std::uint64_t>(plan.activations_tier);
    case Dimension::zigzag: return plan.zigzag ? 1 : 0;
    case Dimension::inner_ring: return plan.inner_ring;
    case Dimension::save_gathered: return plan.save_gathered ? 1 : 0;
    case Dimension::reshard_after_forward: return plan.reshard_after_forward ? 1 : 0;
    case Dimension::prefetch: return plan.prefetch;
    case Dimension::parameter_chunk: return chunk_value(plan);
    case Dimension::gradient_bucket:
      return plan.gradient_bucket ? static_cast<std::uint64_t>(std::ceil(plan.gradient_bucket->in(mebibyte))) : 0;
    case Dimension::collective_algorithm:
      return plan.collective_algorithm ? 1 + static_cast<std::uint64_t>(*plan.collective_algorithm) : 0;
  }
  return 0;
}

std::uint32_t most_stage_layers(const PlannedRun& run) {
  if (run.plan.stage_layers) return *std::max_element(run.plan.stage_layers->begin(), run.plan.stage_layers->end());
  const std::uint64_t stages = stage_map(run.plan).stages();
  return static_cast<std::uint32_t>((run.model.layers + stages - 1) / stages);
}

std::string text_of(Dimension d, std::uint64_t value) {
  if (info(d).names == nullptr || value >= info(d).names().size()) return fmt::to_string(value);
  return std::string(info(d).names()[value]);
}

}  // namespace orrery
