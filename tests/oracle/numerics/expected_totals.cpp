#include "tests/oracle/numerics/expected_totals.hpp"

#include <algorithm>

namespace orrery::test {
namespace {

/// The whole-sized views of a collective: in place, every view; in pairs, the first (reduce_scatter, all_to_all) or the
/// second (all_gather).
std::uint64_t sent_by(const Program& program, const Block& block, const Op& op, const Collective& c, Rank rank) {
  const Group& group = program[c.group];
  const std::uint32_t members = group_size(group, program.mesh);
  const auto peer = index(*peer_of(group, program.mesh, rank));
  const bool pairs = is_paired(block, op, c);
  const std::uint32_t first = c.kind == Collective::Kind::all_gather ? 1 : 0;
  // The views travel as one message: the chunks of a ring cut their concatenation.
  std::uint64_t elements = 0;
  std::uint64_t element = 1;
  for (std::uint32_t i = first; i < op.views.count; i += pairs ? 2 : 1) {
    const View& view = block.views[op.views.first + i];
    element = size_of(program[view.buffer].dtype);
    elements += view.count;
  }
  return ring_bytes_sent(c.kind, elements, element, members, peer, index(c.root));
}

}  // namespace

ExpectedTotals expected_totals(const Program& program, Rank rank) {
  const RankClass& mine = program.classes[class_of(program, rank)];
  ExpectedTotals totals;
  std::uint64_t live[3] = {};
  const auto memory = [&](const OpRun& run) {
    const auto at = [&](BufferId b) -> std::uint64_t& { return live[static_cast<std::size_t>(program[b].tier)]; };
    if (const auto* alloc = std::get_if<Alloc>(&run.op->action)) at(alloc->what) += bytes_of(program[alloc->what]);
    if (const auto* free = std::get_if<Free>(&run.op->action)) at(free->what) -= bytes_of(program[free->what]);
    totals.peak_bytes = std::max(totals.peak_bytes, live[0]);
    totals.host_peak_bytes = std::max(totals.host_peak_bytes, live[1]);
    totals.disk_peak_bytes = std::max(totals.disk_peak_bytes, live[2]);
  };
  for_each_op(program, mine.setup, memory);
  for_each_op(program, mine.step, [&](const OpRun& run) {
    memory(run);
    if (const auto* c = std::get_if<Collective>(&run.op->action)) {
      totals.sent_bytes += sent_by(program, *run.block, *run.op, *c, rank);
    }
    if (const auto* exchange = std::get_if<Exchange>(&run.op->action)) {
      for (std::uint32_t t = 0; t < exchange->transfers.count; ++t) {
        const Transfer& transfer = run.block->transfers[exchange->transfers.first + t];
        if (!transfer.send) continue;
        const View& view = run.block->views[run.op->views.first + transfer.view];
        totals.sent_bytes += view.count * size_of(program[view.buffer].dtype);
      }
    }
  });
  return totals;
}

}  // namespace orrery::test
