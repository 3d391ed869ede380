#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/des/simulate.hpp"

namespace orrery::perf {

/// A step of Llama-3-405B on `gpus` H100 in nodes of eight, as models/plan/llama-3-405b-16384-h100.toml describes it
/// for 16,384. It is tensor parallel inside the nodes, with up to 16 stages, data parallel for the rest, and 16
/// sequences for each pipeline. The fabric is models/fabric/h100-131072.toml with as many nodes. Requires a power of
/// two from 8 to 131,072.
struct LlamaStep {
  PlannedRun run;
  Calibration calibration;
  Fabric fabric;
};
/// With `stages_outside` the pipeline is the outermost axis of the mesh instead of the data axis, so that stages lie
/// far apart.
[[nodiscard]] LlamaStep llama_step(std::uint32_t gpus, bool stages_outside = false);

/// Lowers, prices and simulates it: everything that `orrery simulate --fabric` does after reading its files.
[[nodiscard]] Simulation play(const LlamaStep&, PathRule, const std::optional<Stragglers>& = {});

}  // namespace orrery::perf
