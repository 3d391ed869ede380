#pragma once

#include "framework/framework.hpp"

// Whether ranks share key-value heads, as conditions of an AbilityRule (`also`).

namespace orrery {

/// No two tensor ranks share a key-value head.
[[nodiscard]] bool tensor_keeps_kv_heads(const PlannedRun&);
/// No two context ranks that split attention as Ulysses does share a key-value head.
[[nodiscard]] bool ulysses_keeps_kv_heads(const PlannedRun&);

/// The rules for programs in which the axis has no copies of key-value heads.
[[nodiscard]] AbilityRule whole_kv_heads_of_tensor();
[[nodiscard]] AbilityRule whole_kv_heads_of_ulysses();

}  // namespace orrery
