#include "core/plan/adapters_check.hpp"

#include <fmt/format.h>

#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"

namespace orrery {
namespace {

constexpr const char* key = "workload.adapters";

void check_offload(const CheckContext& c) {
  const Plan& p = c.plan;
  const auto refuse = [&](const char* word, const std::optional<std::uint32_t>& eighths) {
    if (eighths == 0U) return;
    c.error(std::string("plan.") + word, "adapters-offload", "nothing is offloaded where adapters are trained",
            {fmt::format("{} is {}. Frozen weights have no optimizer states, and those of adapters are small.", word,
                         eighths ? std::to_string(*eighths) : "auto"),
             fmt::format("Leave out {}; zero_stage = 3 shares the frozen weights out between ranks.", word)});
  };
  refuse("offload_states", p.offload_states);
  refuse("offload_parameters", p.offload_parameters);
  refuse("offload_activations", p.offload_activations);
}

void check_base(const CheckContext& c, const std::string& name) {
  const Adapters& a = *c.workload.adapters;
  if (a.base == BaseWeights::unquantized) return;
  if (c.plan.zero_stage == 3) {
    c.error("plan.zero_stage", "adapters-base", "matrices in few bits are not shared out by ZeRO-3",
            {fmt::format("base is \"{}\": every rank keeps them whole, as bitsandbytes does.", name_of(a.base)),
             "Nearest valid: zero_stage = 2. Tensor and pipeline ranks share the matrices out."});
  }
  if (!c.model.norm_weight) {
    c.error("workload.adapters.base", "adapters-base", "layers need weights beside their matrices",
            {fmt::format("Norms of {} have none, so nothing of a layer would be left in {}.", name,
                         name_of(weight_dtype(c.workload))),
             "Leave out base."});
  }
}

}  // namespace

std::string adapters_obstacle(const ModelSpec& m) {
  if (m.architecture != Architecture::decoder) return "is no decoder";
  if (m.mixture) return "has experts";
  if (m.latent) return "has latent attention";
  if (m.prediction_modules > 0) return "has prediction modules";
  return {};
}

void check_adapters(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  if (!workload.adapters) return;
  const CheckContext c{plan, model, workload, out};
  const std::string name = model.name.empty() ? "the model" : model.name;
  if (const std::string why = adapters_obstacle(model); !why.empty()) {
    c.error(key, "adapters-model", "adapters are for dense decoders alone",
            {fmt::format("{} {}.", name, why), "Leave out [workload.adapters], which trains all weights."});
    return;
  }
  if (matrices_of(model, *workload.adapters) == 0) {
    c.error(key, "adapters-matrices", "the model has no matrix that takes an adapter",
            {fmt::format("matrices is {}; {} has a feed-forward part without a gate.",
                         matrices_text(*workload.adapters), name),
             "Its matrices are q, k, v, o, up and down."});
  }
  if (plan.tensor != TensorAlgorithm::one_d) {
    c.error("plan.tensor", "adapters-tensor", "grids of tensor ranks have no adapters",
            {"The rank of an adapter is too narrow to be cut over a grid.", "Nearest valid: tensor = \"1d\"."});
  }
  if (splits_backward(plan)) {
    c.error("plan.schedule", "adapters-schedule", "a split backward pass has nothing to put off with adapters",
            {fmt::format("{} makes weight gradients apart, and frozen weights have none.", name_of(plan.schedule)),
             "Nearest valid: schedule = \"1f1b\"."});
  }
  if (plan.parameter_chunk != Bytes()) {
    c.error("plan.parameter_chunk", "adapters-chunk", "adapters are not packed into chunks",
            {"Gradients take over the memory of gathered weights, and frozen weights have none.",
             "Leave out parameter_chunk."});
  }
  if (plan.stage_layers && !plan.stage_layers->empty() && plan.mesh.size(Axis::pipeline) > 1 &&
      (plan.stage_layers->front() == 0 || plan.stage_layers->back() == 0)) {
    c.error("plan.stage_layers", "adapters-stages", "an end of the pipeline has nothing to train",
            {"Adapters are beside matrices of layers, and the first or the last stage has no layer.",
             "Give the first and the last stage at least one layer."});
  }
  check_offload(c);
  check_base(c, name);
}

}  // namespace orrery
