#include "core/plan/architecture_check.hpp"

#include <fmt/format.h>

namespace orrery {
namespace {

std::string name_of(const ModelSpec& m) { return m.name.empty() ? "The model" : m.name; }

}  // namespace

void check_architecture(const Plan& plan, const ModelSpec& m, const Workload&, Diagnostics& out) {
  if (m.architecture != Architecture::decoder) {
    const char* what = m.architecture == Architecture::bert ? "BERT" : "a vision transformer";
    out.error(plan.origin, "", "plan.architecture", fmt::format("plans do not train {} yet", what),
              {fmt::format("{} can be shown and counted; plans train causal decoders.", name_of(m))});
  }
  if (m.latent) {
    out.error(plan.origin, "", "plan.latent", "plans do not train latent attention yet",
              {fmt::format("{} can be shown and counted; plans train models whose keys and values are made from the "
                           "residual stream.",
                           name_of(m))});
  }
  if (m.prediction_modules > 0) {
    out.error(plan.origin, "", "plan.prediction-modules", "plans do not train prediction modules",
              {fmt::format("{} has {}; each is a layer that predicts one token further ahead.", name_of(m),
                           m.prediction_modules),
               "Set prediction_modules to 0 to plan the model without them."});
  }
}

}  // namespace orrery
