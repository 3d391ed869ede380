#include "core/program/lower/rotation.hpp"

#include <algorithm>

#include "core/program/lower/attention.hpp"

namespace orrery::lowering {

void set_rotation(State& s, std::uint32_t layer, Kernel& k) {
  const bool own = is_local(s.model, layer) && s.model.local->rope_theta > 0.0;
  k.parameter = own ? s.model.local->rope_theta : s.model.rope_theta;
  if (!stretches(s.model, layer)) return;
  const RotaryAngles angles = rotary_angles(s.model, layer, s.workload.sequence_length);
  const Rotation table{angles.length, angles.frequencies};
  std::vector<Rotation>& all = s.program.rotations;
  auto at = std::find(all.begin(), all.end(), table);
  if (at == all.end()) at = all.insert(at, table);
  k.rotation = static_cast<std::uint32_t>(at - all.begin()) + 1;
}

Kernel rope_kernel(State& s, std::uint32_t layer, KernelKind kind, Pass pass) {
  Kernel k = attention_kernel(s, local_heads(s), kind, pass);
  if (s.model.rotary_dim < s.model.head_dim) k.depth = s.model.rotary_dim;
  set_rotation(s, layer, k);
  return k;
}

}  // namespace orrery::lowering
