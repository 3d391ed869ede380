#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "core/base/random.hpp"
#include "exec/train/reference_model.hpp"

namespace orrery {

/// What a pass of the reference model stores: rounded as StorageRounding says, with errors drawn in the order of the
/// values. It also notes the largest gradient of an activation.
class ReferenceStorage {
 public:
  explicit ReferenceStorage(const std::optional<StorageRounding>& rounding) : rounding_(rounding) {}

  [[nodiscard]] bool rounds() const { return rounding_.has_value(); }
  /// The value as it would be read again after being stored. Requires rounds().
  [[nodiscard]] double stored(double x, double scale) {
    const int unit = rounding_->type == DType::bf16 ? -8 : rounding_->type == DType::f32 ? -24 : -11;
    const double error = std::ldexp(2.0 * random_uniform(rounding_->draw, 0, count_++) - 1.0, unit);
    return rounded(x * scale * (1.0 + error), rounding_->type) / scale;
  }
  void kept(Matrix& activation) {
    if (rounding_) round(activation, 1.0);
  }
  void signal(Matrix& gradient_of_activation) {
    for (const double x : gradient_of_activation.values) largest_signal = std::max(largest_signal, std::abs(x));
    if (rounding_) round(gradient_of_activation, rounding_->signal_scale);
  }
  void gradients(ParameterSet& all) {
    if (!rounding_ || !rounding_->gradients) return;
    for (auto& [name, tensor] : all) round(tensor, rounding_->signal_scale);
  }

  double largest_signal = 0.0;

 private:
  void round(Matrix& m, double scale) {
    for (double& x : m.values) x = stored(x, scale);
  }

  std::optional<StorageRounding> rounding_;
  std::uint64_t count_ = 0;
};

}  // namespace orrery
