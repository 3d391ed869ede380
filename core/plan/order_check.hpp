#pragma once

#include <cstdint>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// The rules of a custom schedule's order, a part of check(): it is there if
/// and only if the schedule is custom, it runs, and it is for as many ranks and
/// chunks as the plan has.  False after a mistake.
bool check_order(const Plan&, Diagnostics&);

/// It is for as many microbatches as a step has: `count` of them, of a batch
/// divided by `divisors` ("data 2").
void check_order_microbatches(const Plan&, const Workload&, std::uint64_t count, const std::string& divisors,
                              Diagnostics&);

}  // namespace orrery
