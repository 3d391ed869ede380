#pragma once

#include <cstdint>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// The rules of check() about the order of a custom schedule. The order is there if and only if the schedule is custom,
/// it can run, and it has as many ranks and chunks as the plan. Returns false after a mistake.
bool check_order(const Plan&, Diagnostics&);

/// The order has as many microbatches as a step: `count`, from a batch divided by `divisors` ("data 2").
void check_order_microbatches(const Plan&, const Workload&, std::uint64_t count, const std::string& divisors,
                              Diagnostics&);

}  // namespace orrery
