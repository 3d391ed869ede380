#include "sim/estimate/prices.hpp"

namespace orrery {

void resize(Prices& prices, const Program& program) {
  prices.first_op.clear();
  prices.first_transfer.clear();
  std::uint32_t ops = 0;
  prices.transfers = 0;
  for (const Block& block : program.blocks) {
    prices.first_op.push_back(ops);
    prices.first_transfer.push_back(prices.transfers);
    ops += static_cast<std::uint32_t>(block.ops.size());
    prices.transfers += static_cast<std::uint32_t>(block.transfers.size());
  }
  prices.op.assign(ops, 0);
  prices.transfer.assign(std::size_t{prices.transfers} * program.classes.size(), 0);
}

void price(Prices& prices, const Program& program, const CostModel& costs) {
  resize(prices, program);
  prices.concurrent_lanes = costs.cluster().device.concurrent_lanes;
  const auto sharing = costs.core_sharing();
  prices.core_count = sharing ? sharing->cores : 0;
  prices.ranks_per_node = sharing ? sharing->ranks_per_node : 0;

  std::vector<bool> priced(program.blocks.size(), false);
  std::vector<bool> sent(program.blocks.size());
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Rank rank = representative(program, c);
    sent.assign(program.blocks.size(), false);
    for (const Slot& slot : program.classes[c].step) {
      const std::size_t b = index(slot.block);
      const Block& block = program.blocks[b];
      if (!priced[b]) {
        priced[b] = true;
        for (std::size_t i = 0; i < block.ops.size(); ++i) {
          const Op& op = block.ops[i];
          if (std::holds_alternative<Exchange>(op.action)) continue;  // its messages are priced below
          if (std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action)) continue;
          prices.op[prices.first_op[b] + i] = costs.price(program, block, op, rank);
        }
      }
      if (block.transfers.empty() || sent[b]) continue;
      sent[b] = true;
      Picoseconds* row = &prices.transfer[std::size_t{c} * prices.transfers + prices.first_transfer[b]];
      for (const Op& op : block.ops) {
        const auto* exchange = std::get_if<Exchange>(&op.action);
        if (exchange == nullptr) continue;
        for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count;
             ++t) {
          if (block.transfers[t].send) row[t] = picoseconds(costs.transfer(program, block, op, block.transfers[t], rank));
        }
      }
    }
  }
}

}  // namespace orrery
