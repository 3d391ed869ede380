#include "sim/des/rank_totals.hpp"

#include "core/record/live_memory.hpp"
#include "core/record/traffic.hpp"

namespace orrery {

std::uint64_t sent_by(const Program& program, Rank rank) {
  std::vector<std::uint64_t> runs(program.blocks.size(), 0);
  for (const Slot& slot : program.classes[class_of(program, rank)].step) runs[index(slot.block)] += slot.repeat;
  std::uint64_t bytes = 0;
  for (std::size_t b = 0; b < runs.size(); ++b) {
    if (runs[b] == 0) continue;
    const Block& block = program.blocks[b];
    for (const Op& op : block.ops) bytes += sent_bytes(program, block, op, rank) * runs[b];
  }
  return bytes;
}

void add_totals(Trace& trace, const Program& program) {
  LiveMemory memory;
  memory.read(program);
  for (RankTrace& r : trace.ranks) {
    r.peak_bytes = memory.peak(program, class_of(program, r.rank)).peak;
    r.sent_bytes = sent_by(program, r.rank);
  }
}

}  // namespace orrery
