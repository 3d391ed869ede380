#include "core/plan/prediction_check.hpp"

#include <fmt/format.h>

#include "core/plan/check_context.hpp"
#include "core/plan/plan_names.hpp"

namespace orrery {
namespace {

std::string modules(std::uint64_t n) {
  return n == 1 ? "1 prediction module" : fmt::format("{} prediction modules", n);
}

}  // namespace

void check_predictions(const Plan& plan, const ModelSpec& model, const Workload& workload, Diagnostics& out) {
  const CheckContext c{plan, model, workload, out};
  const std::uint64_t n = model.prediction_modules;
  const std::string name = model.name.empty() ? "the model" : model.name;
  const std::string has = fmt::format("{} has {}", name, modules(n));
  if (n == 0) {
    if (!workload.prediction_loss_weight) return;
    c.error("workload.prediction_loss_weight", "prediction-weight",
            "prediction_loss_weight is set, but the model has no prediction modules",
            {fmt::format("{} predicts only the next token.", name), "Leave out prediction_loss_weight."});
    return;
  }
  if (n > max_prediction_modules) {
    c.error("", "prediction-modules", fmt::format("plans train at most {} prediction modules", max_prediction_modules),
            {has + ".", fmt::format("Nearest valid prediction_modules: {}; 0 plans the model without them.",
                                    max_prediction_modules)});
    return;
  }
  if (plan.tensor != TensorAlgorithm::one_d) {
    c.error("plan.tensor", "prediction-tensor", "prediction modules cannot be cut over a grid of ranks",
            {fmt::format("tensor is \"{}\"; {}.", name_of(plan.tensor), has), "Nearest valid: 1d."});
  }
  if (workload.sequence_length <= n) {
    c.error("workload.sequence", "prediction-sequence", "the sequence is too short for the prediction modules",
            {fmt::format("{}, and sequence is {}.", has, workload.sequence_length),
             fmt::format("Smallest valid: {}.", n + 1)});
  }
}

}  // namespace orrery
