#include "core/program/lower/order_memo.hpp"

#include "core/program/lower/pipeline_transfers.hpp"

namespace orrery::lowering {
namespace {

/// Actions that are kept, 12 bytes each: 13 MB, since every thread of a search has a memo.
constexpr std::size_t most_actions = 1U << 20;

}  // namespace

std::shared_ptr<const MadeOrders> make_orders(const Plan& plan, std::uint32_t microbatches) {
  MadeOrders out;
  out.compute = orders_of(plan, microbatches);
  out.with_transfers = with_transfers(out.compute, stage_map(plan), microbatches);
  return std::make_shared<const MadeOrders>(std::move(out));
}

std::shared_ptr<const MadeOrders> OrderMemo::of(const Plan& plan, std::uint32_t microbatches) {
  if (plan.schedule == ScheduleName::custom) return make_orders(plan, microbatches);
  const Key key{plan.schedule, plan.mesh.size(Axis::pipeline), plan.chunks, microbatches, plan.action_times};
  if (const auto at = made_.find(key); at != made_.end()) return at->second;
  std::shared_ptr<const MadeOrders> fresh = make_orders(plan, microbatches);
  std::size_t actions = 0;
  for (const Orders* orders : {&fresh->compute, &fresh->with_transfers}) {
    for (const auto& order : *orders) actions += order.size();
  }
  if (actions_ + actions > most_actions) {
    made_.clear();
    actions_ = 0;
  }
  actions_ += actions;
  return made_.emplace(key, std::move(fresh)).first->second;
}

}  // namespace orrery::lowering
