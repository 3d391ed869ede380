#include "sim/des/shared_network.hpp"

#include <algorithm>

namespace orrery {

SharedNetwork::SharedNetwork(const FabricTraffic& fabric, const Folding* folding)
    : fabric_(fabric),
      folding_(folding),
      flows_(folding != nullptr ? folding->link_classes() : fabric.fabric().links(),
             [this](LinkId l) { return fabric_.capacity(folding_ != nullptr ? folding_->link(index(l)) : l); }) {}

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
    at->second = add(folding_ != nullptr ? folding_->fold(std::move(shares), group, rank) : std::move(shares));
  }
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
    at->second = add(folding_ != nullptr ? folding_->fold(std::move(shares), from, to) : std::move(shares));
  }
  traffic_.push_back({at->second, shares_[at->second].most * bytes, fabric_.latency(from, to)});
  return messages_[key] = static_cast<std::uint32_t>(traffic_.size() - 1);
}

void SharedNetwork::start(Picoseconds now, const Communication& c) {
  const Traffic& t = traffic_[c.traffic];
  const LinkShares& shares = shares_[t.shares];
  const Picoseconds latency = std::min(t.latency, c.alone);
  const auto moving = static_cast<double>(c.alone - latency) * 1e-12;
  if (shares.links.empty() || t.payload.base() == 0.0 || moving == 0.0) {  // nothing that could meet others
    flows_.start(now, {}, c.alone, Bytes{}, c.number);
    return;
  }
  flows_.start(now, shares.links, shares.weights, t.payload / Seconds::of(moving), latency, t.payload, c.number);
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
