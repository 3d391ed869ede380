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
/// Where several ranks hold the same elements, they must agree bit for bit: throws Error
/// naming tensor, element and ranks otherwise, and when an element is nowhere.
/// Of gradients that were reduced into parts (ZeRO) only the part that a rank
/// owns is looked at; the rest is what was left of its own sum.  Empty when the
/// Program has no such buffers.
[[nodiscard]] GlobalTensors gather(const Program&, const RunBuffers&, std::string_view what);

/// The reverse: writes every rank's parts (rounded to the buffers' types);
/// padding becomes zero.  Not for moments that have scales.  Requires a tensor of the right size for every name.
void scatter(const Program&, const RunBuffers&, std::string_view what, const GlobalTensors&);

}  // namespace orrery
