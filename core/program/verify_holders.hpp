#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/program/program.hpp"

namespace orrery::verifying {

/// Ranks of a pipeline that hold the same module, as pipelines in both directions have it:
/// each has a part of the sum that is its gradient, and of the loss.
class Holders {
 public:
  explicit Holders(const Program&);

  /// Classes whose setup initializes the module and layer of this buffer with a
  /// parameter table, ascending; none for other buffers.
  [[nodiscard]] const std::vector<std::uint32_t>& of(const Instance&) const;
  /// Classes that add to the loss.
  [[nodiscard]] const std::vector<std::uint32_t>& of_loss() const { return loss_; }
  /// Whether a group joins exactly those classes, along the class axes.
  [[nodiscard]] bool joins(const Group&, const std::vector<std::uint32_t>& classes) const;

 private:
  const Program& p_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint32_t>> modules_;  ///< (table, layer)
  std::vector<std::uint32_t> loss_;
  std::vector<std::uint32_t> none_;
};

}  // namespace orrery::verifying
