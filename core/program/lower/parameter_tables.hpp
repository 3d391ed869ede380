#pragma once

#include <string>
#include <string_view>

#include "core/program/lower/state.hpp"

// The parameters of each module: slices one after the other, how axes cut them, and where they begin.

namespace orrery::lowering {

[[nodiscard]] ParameterTable embedding_table(const State&);
[[nodiscard]] ParameterTable layer_table(const State&, bool mixture);
/// The module that brings together the stream and the embedding of a token ahead (DeepSeek-V3, 2024, section 2.2,
/// equation 21), and the norm before the module's head. Every tensor rank holds it whole.
[[nodiscard]] ParameterTable prediction_table(const State&);
[[nodiscard]] ParameterTable head_table(const State&);
[[nodiscard]] ParameterTable adapter_table(const State&);
/// A matrix of a dense layer by itself, as those in few bits are kept.
[[nodiscard]] ParameterTable product_table(const State&, const std::string& name, std::string_view weight);

}  // namespace orrery::lowering
