#include "sim/bound/state_costs.hpp"

#include <algorithm>
#include <utility>

namespace orrery {

StateCosts::StateCosts(const ModelSpec& model, const Workload& workload, const Plan& plan, const CostModel& costs)
    : StateCosts(std::make_shared<LoweredStates>(model, workload, plan, costs), costs) {}

StateCosts::StateCosts(std::shared_ptr<LoweredStates> lowered, const CostModel& costs) : lowered_(std::move(lowered)) {
  const auto state = [&](const LoweredStates::OfModule& of) {
    ModuleState s = of.state;
    s.gather_weights = sum(of.gather, costs);
    for (const StateCollective* c : of.gather) {
      const Picoseconds one = price(*c, costs);
      s.gather_some = c == of.gather.front() ? one : std::min(s.gather_some, one);
    }
    return s;
  };
  embedding_ = state(lowered_->embedding);
  layer_ = state(lowered_->layer);
  dense_layer_ = state(lowered_->dense_layer);
  head_ = state(lowered_->head);
  norm_reduction_ = sum(lowered_->norm, costs);
  tied_reduction_ = sum(lowered_->tied, costs);
}

Picoseconds StateCosts::price(const StateCollective& of, const CostModel& costs) {
  if (of.number >= prices_.size()) prices_.resize(of.number + 1, -1);
  Picoseconds& known = prices_[of.number];
  if (known < 0) known = picoseconds(costs.collective(of.kind, of.payload, of.group));
  return known;
}

Picoseconds StateCosts::sum(const StateCollectives& of, const CostModel& costs) {
  Picoseconds all = 0;
  for (const StateCollective* c : of) all += price(*c, costs);
  return all;
}

Picoseconds StateCosts::sum_on_any_pair(const StateCollectives& of, const CostModel& costs) const {
  Picoseconds all = 0;
  for (const StateCollective* c : of) {
    Picoseconds least = 0;
    for (std::uint32_t r = 0; 2 * r < lowered_->pipeline; ++r) {
      const Group pair{c->group.axes, {r, lowered_->pipeline - 1 - r}};
      const Picoseconds on_pair = picoseconds(costs.collective(c->kind, c->payload, pair));
      least = r == 0 ? on_pair : std::min(least, on_pair);
    }
    all += least;
  }
  return all;
}

const StateCosts::Priced& StateCosts::priced(const LoweredStates::Messages& messages, const CostModel& costs) {
  const auto [at, fresh] = messages_.try_emplace(&messages);
  if (!fresh) return at->second;
  const auto each = [&](const StateCollectives& of) {
    std::vector<LanePrice> prices;
    prices.reserve(of.size());
    for (const StateCollective* c : of) prices.push_back({c->lane, price(*c, costs)});
    return prices;
  };
  at->second = {each(messages.reduce), each(messages.reduce_first), each(messages.combine), each(messages.gather),
                sum_on_any_pair(messages.sum_pipes, costs)};
  return at->second;
}

const HostUpdates& StateCosts::host_updates(const CostModel& costs) {
  if (host_updates_) return *host_updates_;
  const LoweredStates::HostModules& of = lowered_->host_updates(costs);
  const auto update = [&](const LoweredStates::OfHost& module) {
    HostUpdate out = module.update;
    out.gather = sum(module.gather, costs);
    return out;
  };
  host_updates_ = {update(of.embedding), update(of.layer), update(of.dense_layer), update(of.head)};
  return *host_updates_;
}

const std::vector<BucketCosts>& StateCosts::buckets(const StageShare& stage, const CostModel& costs) {
  const std::uint64_t key = std::uint64_t{stage.low_layer} << 34 | std::uint64_t{stage.count()} << 2 |
                            std::uint64_t{stage.first} << 1 | std::uint64_t{stage.last};
  const auto [at, fresh] = buckets_.try_emplace(key);
  if (!fresh) return at->second;
  for (const LoweredStates::Bucket& b : lowered_->buckets(stage)) {
    const Priced& of = priced(*b.messages, costs);
    at->second.push_back(
        {b.head, b.embedding, b.layers, b.dense, of.reduce, of.reduce_first, of.combine, of.gather, of.sum_pipes});
  }
  return at->second;
}

}  // namespace orrery
