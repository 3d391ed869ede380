#include "sim/bound/known_orders.hpp"

namespace orrery {

KnownOrders::Key KnownOrders::key_of(const Plan& plan, std::uint32_t microbatches) {
  const ActionTimes& t = plan.action_times;
  return {static_cast<std::uint32_t>(plan.schedule),
          plan.mesh.size(Axis::pipeline),
          plan.chunks,
          microbatches,
          t.forward,
          t.input_gradient,
          t.weight_gradient,
          t.message};
}

std::shared_ptr<const PassOrders> KnownOrders::of(const Plan& plan, std::uint32_t microbatches) {
  const Key key = key_of(plan, microbatches);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = orders_.find(key);
    if (known != orders_.end()) return known->second;
  }
  auto made = std::make_shared<PassOrders>();
  made->passes = lowering::orders_of(plan, microbatches);
  made->receives = receive_orders(made->passes, stage_map(plan), microbatches);
  const std::size_t actions = std::size_t{key[1]} * plan.chunks * microbatches * 3;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (actions_ + actions > most_actions) orders_.clear(), actions_ = 0;
  const auto [at, fresh] = orders_.try_emplace(key, std::move(made));
  if (fresh) actions_ += actions;
  return at->second;
}

}  // namespace orrery
