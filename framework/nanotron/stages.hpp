#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/spec/model_spec.hpp"

namespace orrery {

/// Layers of each stage as nanotron shares them out: blocks go onto a rank until their cost is above the rank's share
/// of the whole. A layer costs 4 h^2 + 3 h f (with one product less where its activation has no gate), the head V h,
/// all else nothing. Empty where a stage before the last would have no layer.
/// Source: huggingface/nanotron@2411b022, src/nanotron/models/base.py (build_model) and get_block_compute_costs of the
/// models.
[[nodiscard]] std::optional<std::vector<std::uint32_t>> nanotron_stage_layers(const ModelSpec&, std::uint64_t stages);

}  // namespace orrery
