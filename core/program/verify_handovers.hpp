#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

/// Whether the kernel's results are the elements of its first operand, in another order, masked or of another type.
[[nodiscard]] bool keeps_elements(KernelKind);

/// Checks the gradients that modules hand to each other.
///
/// A layer takes the gradient of its output, adds the gradients that come through its products, and hands the sum down,
/// mostly in the same buffer. When the last of these sums is lost, the layer below gets what this layer took. Checks of
/// products and norms see that (verify_values.cpp), but the embedding may have neither, and a message to the stage
/// below has none.
///
/// Some ops know their module, by a parameter or as an embedding's. They record what they take in the backward pass,
/// and no other module may take or send the same. A gathered, copied or masked gradient counts as the same.
class Handovers {
 public:
  explicit Handovers(Regions& regions) : regions_(regions), p_(regions.program()) {}

  void take(const OpRun&, const Kernel&);
  /// Called after a fill: zeros are no module's gradient.
  void clear(const OpRun&);
  /// Called before the messages of an Exchange leave.
  void send(const OpRun&);

 private:
  Regions& regions_;
  const Program& p_;
  std::unordered_map<std::uint64_t, std::uint32_t> takers_;  ///< origin of a content -> the module that took it
  std::unordered_set<std::uint64_t> zeros_;                  ///< origins of zeros
};

}  // namespace orrery::verifying
