#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"

namespace orrery::test {

/// Gives the decoder of a run kinds of attention, drawn by the seed: windows or chunks in all or some layers, layers
/// that do not rotate, ALiBi, sinks, a scale and a cap of scores. It draws what the run's plan may have. Latent
/// attention and encoders stay as they are.
void add_attention_kinds(std::uint64_t seed, PlannedRun& run);

}  // namespace orrery::test
