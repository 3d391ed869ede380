#include "core/plan/order_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/plan/compute_order.hpp"
#include "core/plan/plan_names.hpp"
#include "core/plan/schedule_rules.hpp"

namespace orrery {
namespace {

/// One more than the largest number that any action has.
std::uint64_t count_of(const Plan& plan, std::uint32_t OrderedAction::*number) {
  std::uint64_t count = 0;
  for (const auto& rank : plan.order) {
    for (const OrderedAction& a : rank) count = std::max(count, std::uint64_t{a.*number} + 1);
  }
  return count;
}

}  // namespace

bool check_order(const Plan& plan, Diagnostics& out) {
  const auto wrong = [&](const char* code, std::string message, std::vector<std::string> details) {
    out.error(plan.origin, "plan.order", code, std::move(message), std::move(details));
    return false;
  };
  if (plan.schedule != ScheduleName::custom) {
    if (plan.order.empty()) return true;
    return wrong(
        "plan.order-schedule", "an order of actions is given, but the schedule is not custom",
        {fmt::format("schedule is {}.", name_of(plan.schedule)), "Set schedule to custom, or leave out order."});
  }
  if (plan.order.empty()) {
    out.error(plan.origin, "plan.schedule", "plan.order-missing", "a custom schedule needs an order of actions",
              {"Set order to a file of actions; `orrery show plan PLAN --order` writes one from any other schedule."});
    return false;
  }
  const std::uint64_t p = plan.mesh.size(Axis::pipeline);
  if (plan.order.size() != p) {
    return wrong("plan.order-ranks", "the order is for another number of pipeline ranks",
                 {fmt::format("The order has {}; pipeline is {}.", counted(plan.order.size(), "rank"), p),
                  fmt::format("Nearest valid pipeline size: {}.", plan.order.size())});
  }
  const std::uint64_t chunks = count_of(plan, &OrderedAction::chunk) / stage_map(plan).pipes();
  if (plan.chunks != chunks) {
    return wrong("plan.order-chunks", "the order is for another number of model chunks",
                 {fmt::format("The order has {} on each rank; chunks is {}.", counted(chunks, "chunk"), plan.chunks),
                  fmt::format("Set chunks to {}, or leave it out.", chunks)});
  }
  const Diagnostics mistakes = mistakes_of({plan.order_placement, plan.chunks, 1, plan.order});
  for (const Diagnostic& d : mistakes.list()) out.error(plan.origin, "plan.order", d.code, d.message, d.details);
  return mistakes.empty();
}

void check_order_microbatches(const Plan& plan, const Workload& workload, std::uint64_t count,
                              const std::string& divisors, Diagnostics& out) {
  if (plan.schedule != ScheduleName::custom || plan.order.empty()) return;
  const std::uint64_t wanted = count_of(plan, &OrderedAction::microbatch);
  if (wanted == 0 || wanted == count) return;
  const std::uint64_t sequences = count * plan.microbatch_size;
  out.error(
      plan.origin, "plan.order", "plan.order-microbatches", "the order is for another number of microbatches",
      {fmt::format("The order has {}; batch {} / {} / microbatch_size {} is {}.",
                   counted(wanted, "microbatch", "microbatches"), workload.global_batch, divisors, plan.microbatch_size,
                   count),
       sequences % wanted == 0 ? fmt::format("Nearest valid microbatch size: {}.", sequences / wanted)
                               : fmt::format("Nearest valid batch: {}.", workload.global_batch / count * wanted)});
}

}  // namespace orrery
