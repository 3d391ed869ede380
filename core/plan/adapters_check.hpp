#pragma once

#include "core/plan/check_context.hpp"

namespace orrery {

/// What keeps a model's layers from taking adapters: "has experts". Empty where nothing does.
[[nodiscard]] std::string adapters_obstacle(const ModelSpec&);

/// Refuses adapters beside choices that Programs do not have with them: models other than dense decoders, grids of
/// tensor ranks, split backward passes, offload, chunks of weights, and stages without layers at the ends. Matrices in
/// few bits are refused beside ZeRO-3.
///
/// Codes: plan.adapters-model  plan.adapters-matrices  plan.adapters-tensor  plan.adapters-schedule
/// plan.adapters-offload  plan.adapters-chunk  plan.adapters-stages  plan.adapters-base
void check_adapters(const Plan&, const ModelSpec&, const Workload&, Diagnostics&);

}  // namespace orrery
