#include "exec/device/nccl_groups.hpp"

#include <algorithm>
#include <set>

namespace orrery {
namespace {

RankParts parts_of(const Group& group, const Mesh& mesh) {
  RankParts parts;
  for (std::uint32_t r = 0; r < mesh.size(); ++r) {
    const std::optional<Peer> peer = peer_of(group, mesh, Rank{r});
    const std::vector<Rank> ranks = group_ranks(group, mesh, Rank{r});
    const bool in = peer.has_value() && ranks.size() > 1;
    // A part's name is its first member's number, on which all members agree.
    parts.color.push_back(in ? static_cast<int>(index(ranks.front())) : -1);
    parts.key.push_back(in ? static_cast<int>(index(*peer)) : 0);
  }
  return parts;
}

/// Keys of all exchanges; empty where one exchange has several.
std::optional<std::set<std::uint32_t>> keys_of(const Program& program, ExchangeSplit split) {
  std::set<std::uint32_t> keys;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    const RankClass& lists = program.classes[class_of(program, Rank{r})];
    std::set<BlockId> blocks;
    for (const auto* slots : {&lists.setup, &lists.step}) {
      for (const Slot& slot : *slots) blocks.insert(slot.block);
    }
    for (const BlockId id : blocks) {
      const Block& block = program[id];
      for (const Op& op : block.ops) {
        const auto* e = std::get_if<Exchange>(&op.action);
        std::set<std::uint32_t> of_op;
        for (std::uint32_t i = 0; e != nullptr && i < e->transfers.count; ++i) {
          const Transfer& t = block.transfers[e->transfers.first + i];
          const Peer sender = t.send ? peer_of(program[t.group], program.mesh, Rank{r}).value() : t.peer;
          of_op.insert(exchange_key(split, t.channel, index(sender)));
        }
        if (of_op.size() > 1) return std::nullopt;
        keys.merge(of_op);
      }
    }
  }
  return keys;
}

}  // namespace

std::uint32_t exchange_key(ExchangeSplit split, std::uint8_t channel, std::uint32_t sender) {
  switch (split) {
    case ExchangeSplit::channel_and_side: return 2U * channel + sender % 2U;
    case ExchangeSplit::channel: return 2U * channel;
    case ExchangeSplit::none: break;
  }
  return 0;
}

NcclGroups nccl_groups(const Program& program) {
  NcclGroups groups;
  for (const Group& group : program.groups) {
    RankParts parts = parts_of(group, program.mesh);
    groups.of_group.emplace_back();
    if (std::all_of(parts.color.begin(), parts.color.end(), [](int c) { return c < 0; })) continue;
    const auto same = std::find(groups.parts.begin(), groups.parts.end(), parts);
    groups.of_group.back() = static_cast<std::uint32_t>(same - groups.parts.begin());
    if (same == groups.parts.end()) groups.parts.push_back(std::move(parts));
  }
  for (const ExchangeSplit split : {ExchangeSplit::channel_and_side, ExchangeSplit::channel, ExchangeSplit::none}) {
    const auto keys = keys_of(program, split);
    if (!keys) continue;
    groups.split = split;
    groups.exchanges.assign(keys->begin(), keys->end());
    break;
  }
  return groups;
}

}  // namespace orrery
