#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/program/program.hpp"
#include "exec/run/execute.hpp"

namespace orrery {

/// A whole parameter tensor (or its gradient or moment), row-major, without padding.
struct GlobalTensor {
  std::vector<std::uint64_t> shape;
  std::vector<double> values;
  friend bool operator==(const GlobalTensor&, const GlobalTensor&) = default;
};

/// By full name: "layers.3.attention.qkv.weight".
using GlobalTensors = std::map<std::string, GlobalTensor>;

/// Puts the ranks' parts of every module's buffer `what` ("weights",
/// "gradients", "masters", "moment1", "moment2") together to whole tensors.
///
/// Where several ranks hold the same elements, they must agree bit for bit. It throws Error naming tensor, element and
/// ranks otherwise, and when an element is nowhere. Where gradients were reduced into parts (ZeRO), it looks only at
/// the part that a rank owns; the rest is left over from the rank's own sum. The result is empty when the Program has
/// no such buffers.
[[nodiscard]] GlobalTensors gather(const Program&, const RunBuffers&, std::string_view what);

/// The reverse: writes every rank's parts (rounded to the buffers' types); padding becomes zero. It does not work for
/// moments that have scales. Requires a tensor of the right size for every name.
void scatter(const Program&, const RunBuffers&, std::string_view what, const GlobalTensors&);

}  // namespace orrery
