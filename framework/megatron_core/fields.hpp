#pragma once

#include <span>
#include <string_view>

namespace orrery {

/// A field of Megatron-Bridge's configuration that is a flag of Megatron-LM under another name, or inside a section
/// that its name does not tell. All other fields have the flag's name with underscores.
struct BridgeField {
  std::string_view path;  ///< "model.num_moe_experts"
  std::string_view flag;  ///< "--num-experts"
  bool inverted = false;  ///< the flag is on where the field is false
};
[[nodiscard]] std::span<const BridgeField> bridge_fields();

}  // namespace orrery
