#include "sim/des/shared_network.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

FlowNetwork link_flows(const FabricTraffic& fabric, const Folding* folding) {
  return FlowNetwork(
      folding != nullptr ? folding->link_classes() : fabric.fabric().links(),
      [&fabric, folding](LinkId l) { return fabric.capacity(folding != nullptr ? folding->link(index(l)) : l); });
}

SharedNetwork::SharedNetwork(FlowNetwork& flows, const FabricTraffic& fabric, const Folding* folding, std::uint32_t job)
    : fabric_(fabric), folding_(folding), flows_(flows), job_(job) {}

std::uint32_t SharedNetwork::add(LinkShares shares) {
  shares_.push_back(std::move(shares));
  return static_cast<std::uint32_t>(shares_.size() - 1);
}

std::uint32_t SharedNetwork::collective(std::uint32_t meeting, Rank rank, BlockId block_id, std::uint32_t op_index) {
  const std::tuple key{meeting, block_id, op_index};
  const auto known = collectives_.find(key);
  if (known != collectives_.end()) return known->second;

  const Program& program = fabric_.program();
  const Block& block = program[block_id];
  const Op& op = block.ops[op_index];
  const GroupId group = std::get<Collective>(op.action).group;
  const std::vector<Rank> members = group_ranks(program[group], program.mesh, rank);
  const FabricTraffic::Collected c = fabric_.collective(block, op, fabric_.shape(members));
  const auto [at, is_new] = patterns_.try_emplace({meeting, c.pattern});
  if (is_new) {
    LinkShares shares = fabric_.shares(c.pattern, members);
    at->second = add(folding_ != nullptr ? folding_->fold(std::move(shares), group, rank, job_) : std::move(shares));
  }
  ends_.push_back(0);
  traffic_.push_back({at->second, (c.payloads * shares_[at->second].most) * c.payload, c.latency});
  return collectives_[key] = static_cast<std::uint32_t>(traffic_.size() - 1);
}

std::uint32_t SharedNetwork::message(Rank from, Rank to, Bytes bytes) {
  const std::tuple key{from, to, bytes.base()};
  const auto known = messages_.find(key);
  if (known != messages_.end()) return known->second;
  const auto [at, is_new] = pairs_.try_emplace({from, to});
  if (is_new) {
    LinkShares shares = fabric_.shares(from, to);
    at->second = add(folding_ != nullptr ? folding_->fold(std::move(shares), from, to, job_) : std::move(shares));
  }
  ends_.push_back(0);
  traffic_.push_back({at->second, shares_[at->second].most * bytes, fabric_.latency(from, to)});
  return messages_[key] = static_cast<std::uint32_t>(traffic_.size() - 1);
}

void SharedNetwork::start(Picoseconds now, const Communication& c) {
  ORRERY_ASSERT(c.number < most_numbers, c.number);
  if (c.number >= traffic_of_.size()) traffic_of_.resize(c.number + 1);
  traffic_of_[c.number] = c.traffic;
  const std::uint32_t flow = flow_number(job_, c.number);
  const Traffic& t = traffic_[c.traffic];
  const LinkShares& shares = shares_[t.shares];
  const Picoseconds latency = std::min(t.latency, c.alone);
  const auto moving = static_cast<double>(c.alone - latency) * 1e-12;
  if (shares.links.empty() || t.payload.base() == 0.0 || moving == 0.0) {  // nothing that could meet others
    flows_.start(now, {}, c.alone, Bytes{}, flow);
    return;
  }
  flows_.start(now, shares.links, shares.weights, t.payload / Seconds::of(moving), latency, t.payload, flow);
}

std::vector<Bytes> SharedNetwork::carried() const {
  std::vector<Bytes> out(folding_ != nullptr ? folding_->link_classes() : fabric_.fabric().links());
  for (std::size_t t = 0; t < traffic_.size(); ++t) {
    const LinkShares& shares = shares_[traffic_[t].shares];
    for (std::size_t i = 0; i < shares.links.size(); ++i) {
      out[index(shares.links[i])] += static_cast<double>(ends_[t]) * shares.weights[i] * traffic_[t].payload;
    }
  }
  return out;
}

std::vector<LinkLoad> SharedNetwork::loads() const {
  std::vector<LinkLoad> out;
  const auto add = [&](LinkId link, Bytes carried) {
    if (carried.base() > 0.0) out.push_back({link, carried, fabric_.capacity(link)});
  };
  if (folding_ == nullptr) {
    for (std::uint32_t l = 0; l < fabric_.fabric().links(); ++l) add(LinkId{l}, flows_.carried(LinkId{l}));
  } else {
    for (std::size_t i = 0; i < folding_->links().size(); ++i) {
      add(folding_->links()[i], flows_.carried(LinkId{folding_->class_of_link()[i]}));
    }
  }
  return out;
}

}  // namespace orrery
