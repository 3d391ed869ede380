#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"

namespace orrery {

/// Layers of each virtual stage as torchtitan shares them out: the embedding counts as `first` layers, the head as
/// `last`; what is left over goes to the first stages. Empty where embedding or head count for more than a stage has.
/// Source: pytorch/torchtitan@73a0e6979, torchtitan/distributed/pipeline_parallel.py (generate_llm_fqn_per_model_part).
[[nodiscard]] std::optional<std::vector<std::uint32_t>> titan_stage_layers(std::uint64_t layers, std::uint64_t stages,
                                                                           std::uint64_t first, std::uint64_t last);

/// How many layers of each virtual stage are recomputed where every `every`-th is: torchtitan counts along the layers
/// of a rank, over all of its chunks, and takes those whose number `every` divides.
/// Source: the same, torchtitan/distributed/activation_checkpoint.py (_apply_layer_sac).
[[nodiscard]] std::vector<std::uint32_t> every_nth_layer(const std::vector<std::uint32_t>& stage_layers,
                                                         std::uint32_t ranks, StagePlacement, std::uint32_t every);

/// "[4, 4, 3]".
[[nodiscard]] std::string toml_list(const std::vector<std::uint32_t>&);

}  // namespace orrery
