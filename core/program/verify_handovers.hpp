#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

/// Whether the kernel's results are its first operand's elements, in another order, masked or of another type.
[[nodiscard]] bool keeps_elements(KernelKind);

/// Gradients that modules hand to each other.
///
/// A layer takes the gradient of what it has put out, adds the ways through its
/// products to it, and hands the sum down, mostly in the buffer that it came in.
/// When the last of these sums is lost, the one below gets what the layer took.
/// Products and norms see that (verify_values.cpp), but the embedding need not
/// have any, and a message to the stage below has none.
///
/// So ops that know their module, by a parameter or as an embedding's, tell what
/// they take going backward, and no other module may take or send the same.  A
/// gathered, copied or masked gradient is the same.
class Handovers {
 public:
  explicit Handovers(Regions& regions) : regions_(regions), p_(regions.program()) {}

  void take(const OpRun&, const Kernel&);
  /// Behind a fill: zeros are nobody's gradient.
  void clear(const OpRun&);
  /// Before the messages of an Exchange leave.
  void send(const OpRun&);

 private:
  Regions& regions_;
  const Program& p_;
  std::unordered_map<std::uint64_t, std::uint32_t> takers_;  ///< origin of a content -> the module that took it
  std::unordered_set<std::uint64_t> zeros_;                  ///< origins of zeros
};

}  // namespace orrery::verifying
