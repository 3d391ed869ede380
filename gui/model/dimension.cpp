#include "gui/model/dimension.hpp"

#include <fmt/format.h>

#include <array>

#include "core/plan/plan_names.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery::gui {
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

using enum DimensionForm;
constexpr std::array<DimensionInfo, dimension_count> infos{{
    {"Devices", "gpus", number, "Devices of the cluster: part of a node, or whole nodes.", nullptr, {}},
    {"Batch", "workload.batch", counter, "Sequences in one optimizer step, over all replicas.", nullptr, {}},
    {"Sequence", "workload.sequence", counter, "Tokens in a sequence.", nullptr, {}},
    {"Precision", "workload.precision", choice, "Of weights, activations and products.", precision_names, {}},
    {"Optimizer",
     "workload.optimizer.kind",
     choice,
     "Its moments take memory for every parameter.",
     optimizer_names,
     {}},
    {"Data", "mesh.data", number, "Ranks that take other sequences; ZeRO shares out states along it.", nullptr,
     Axis::data},
    {"Tensor", "mesh.tensor", number, "Ranks that share every matrix product.", nullptr, Axis::tensor},
    {"Pipeline", "mesh.pipeline", number, "Stages of layers, one behind the other.", nullptr, Axis::pipeline},
    {"Context", "mesh.context", number, "Ranks that take other positions of the same sequences.", nullptr,
     Axis::context},
    {"Expert", "mesh.expert", number, "Ranks that hold other experts; a model without experts has 1.", nullptr,
     Axis::expert},
    {"Replica", "mesh.replica", number, "Whole copies of what ZeRO shares out (hybrid sharding).", nullptr,
     Axis::replica},
    {"Tensor cut", "plan.tensor", choice, "How matrix products are cut over the tensor ranks.", tensor_names, {}},
    {"Context cut", "plan.context", choice, "How the context ranks share attention.", context_names, {}},
    {"Microbatch", "plan.microbatch_size", number, "Sequences that go through the pipeline together.", nullptr, {}},
    {"Schedule", "plan.schedule", choice, "In which order stages work on microbatches.", pipeline_schedule_names, {}},
    {"Chunks", "plan.chunks", number, "Parts of the model on each pipeline rank.", nullptr, {}},
    {"Sequence parallel",
     "plan.sequence_parallel",
     choice,
     "Norms and dropout cut along the sequence over the tensor ranks.",
     switch_choices,
     {}},
    {"Recompute", "plan.recompute", choice, "What is computed again in place of being kept.", recompute_names, {}},
    {"Attention", "plan.attention", choice, "Flash keeps no scores.", attention_choices, {}},
    {"ZeRO stage",
     "plan.zero_stage",
     number,
     "Shared out: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too.",
     nullptr,
     {}},
    {"Gradient overlap",
     "plan.overlap_gradients",
     choice,
     "Reduce gradients beside the last backward pass.",
     overlap_choices,
     {}},
    {"Offload states",
     "plan.offload_states",
     choice,
     "Share of the layers whose optimizer states live in host memory.",
     offload_choices,
     {}},
    {"Offload weights",
     "plan.offload_parameters",
     choice,
     "Share of the layers whose weights live in host memory.",
     offload_choices,
     {}},
    {"Offload activations",
     "plan.offload_activations",
     choice,
     "Share of the layers whose activations wait in host memory.",
     offload_choices,
     {}},
}};

}  // namespace

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
  }
  return 0;
}

std::string text_of(Dimension d, std::uint64_t value) {
  if (info(d).names == nullptr || value >= info(d).names().size()) return fmt::to_string(value);
  return std::string(info(d).names()[value]);
}

}  // namespace orrery::gui
