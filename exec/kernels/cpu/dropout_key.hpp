#pragma once

#include <cmath>
#include <cstdint>

#include "core/base/random.hpp"
#include "exec/kernels/device/on_device.hpp"
#include "exec/kernels/kernel_runner.hpp"

namespace orrery::cpu {

/// Decides which elements one dropout site keeps: by the global element index alone, the same on every rank and under
/// every plan.
///
///     keep = random_uniform(seed, mix(step) ^ mix(1000 site + layer + 1), element) >= rate
///
/// The uniform number is 53 random bits over 2^53, so the comparison is made
/// between integers.  The embedding's site 0 belongs to no layer.
class DropoutKey {
 public:
  DropoutKey(const Kernel& k, const KernelContext& context)
      : key_(mix(context.workload->seed) ^
             (mix(context.step) ^ mix(1000ULL * k.site + (k.site == 0 ? 0 : context.layer) + 1))),
        least_(static_cast<std::uint64_t>(std::ceil(k.parameter * 0x1.0p53))) {
    key_ = mix(key_);
  }
  [[nodiscard]] ORRERY_ON_DEVICE bool keeps(std::uint64_t element) const {
    return (mix(key_ ^ element) >> 11) >= least_;
  }

 private:
  std::uint64_t key_;
  std::uint64_t least_;
};

}  // namespace orrery::cpu
