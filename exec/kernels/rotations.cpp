#include "exec/kernels/rotations.hpp"

#include <cmath>

#include "core/base/diagnostics.hpp"

namespace orrery {

Rotation rotation_of(const Kernel& k, const KernelContext& context, std::uint64_t features) {
  if (k.rotation > 0) {
    ORRERY_ASSERT(k.rotation <= context.rotations.size(), k.rotation, context.rotations.size());
    return context.rotations[k.rotation - 1];
  }
  Rotation r;
  for (std::uint64_t i = 0; i < features / 2; ++i) {
    r.frequencies.push_back(std::pow(k.parameter, -2.0 * static_cast<double>(i) / static_cast<double>(features)));
  }
  return r;
}

}  // namespace orrery
