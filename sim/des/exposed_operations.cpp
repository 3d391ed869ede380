#include "sim/des/exposed_operations.hpp"

#include <algorithm>
#include <array>

#include "core/record/operation.hpp"
#include "core/record/summarize.hpp"

namespace orrery {

std::vector<ExposedOperation> exposed_operations(const Program& program, const Trace& trace, bool concurrent_lanes,
                                                 std::span<const std::uint32_t> counts) {
  std::array<double, operation_count> sums{};
  double ranks = 0.0;
  for (std::size_t i = 0; i < trace.ranks.size(); ++i) {
    const double n = counts.empty() ? 1.0 : counts[i];
    ranks += n;
    (void)account(program, trace.ranks[i], concurrent_lanes, [&](const IdlePart& part) {
      if (part.cause == IdlePart::Cause::bubble) return;
      const Operation o = part.cause == IdlePart::Cause::message ? exchange_operation : part.operation;
      sums[static_cast<std::size_t>(o)] += n * static_cast<double>(part.span.end - part.span.start);
    });
  }
  std::vector<ExposedOperation> out;
  for (std::size_t o = 0; o < operation_count; ++o) {
    if (sums[o] > 0.0) out.push_back({name_of(static_cast<Operation>(o)), Seconds::of(1e-12 * sums[o] / ranks)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const ExposedOperation& a, const ExposedOperation& b) { return a.time > b.time; });
  return out;
}

}  // namespace orrery
