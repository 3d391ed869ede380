#include "sim/cost/memory_cost.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

Seconds memory_time(Bytes touched, Bandwidth bandwidth, double efficiency) {
  ORRERY_ASSERT(efficiency > 0 && efficiency <= 1, efficiency);
  return touched / (efficiency * bandwidth);
}

Bytes memory_traffic(const Kernel& k, Bytes touched) {
  const auto element = static_cast<double>(size_of(k.compute));
  switch (k.kind) {
    case KernelKind::embed_forward:
    case KernelKind::embed_backward: {
      // A token number, its row of the table (backward: read and written) and its row of x.
      const double rows = static_cast<double>(k.rows);
      const double moves = k.kind == KernelKind::embed_forward ? 2.0 : 3.0;
      return std::min(touched, Bytes::of(4.0 * rows + moves * rows * static_cast<double>(k.columns) * element));
    }
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward: {
      ORRERY_ASSERT(k.batch > 0, k.batch);
      const double sequence = static_cast<double>(k.rows) / k.batch;
      const double scores = static_cast<double>(k.rows) * sequence * k.heads;
      const double passes =
          (k.kind == KernelKind::attention_unfused_forward ? 3.0 : 5.0) + (k.options.dropout ? 1.0 : 0.0);
      return touched + Bytes::of(passes * scores * element);
    }
    default: return touched;
  }
}

}  // namespace orrery
