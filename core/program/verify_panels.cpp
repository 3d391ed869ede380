#include "core/program/verify_panels.hpp"

#include <fmt/format.h>

namespace orrery::verifying {

// Matrices that lie in blocks on a grid of ranks, whose products are made panel by panel (SUMMA). Each block of a sum
// must come exactly once.

Blocks blocks_of(Regions& regions, const OpRun& run, const View& v) {
  const Region* last = nullptr;
  for (const Region& r : regions.of(run, v)) {
    if (regions.touches(r, v) && (last == nullptr || last->stamp < r.stamp)) last = &r;
  }
  return last == nullptr ? Blocks{} : last->blocks;
}

void blocks_are_there(Regions& regions, const OpRun& run, const View& v) {
  if (v.use == View::Use::accumulate) {
    if (const auto* x = std::get_if<Collective>(&run.op->action); x != nullptr && is_paired(*run.block, *run.op, *x)) {
      return;
    }
    if (const auto* c = std::get_if<Compute>(&run.op->action);
        c != nullptr && run.block->kernels[c->kernel].kind == KernelKind::gemm) {
      return;
    }
  }
  for (const Region& r : regions.of(run, v)) {
    if (r.low >= regions.low(v) + v.count || regions.low(v) >= r.high || r.blocks.complete) continue;
    regions.wrong(
        "program.partial",
        fmt::format("{} is used before every block of the sum is there exactly once", regions.program()[v.buffer].name),
        run);
    return;
  }
}

Blocks product_of_blocks(Regions& regions, const OpRun& run, const Kernel& k) {
  if (k.kind != KernelKind::gemm) return {};
  const Blocks a = blocks_of(regions, run, view(run, 0)), b = blocks_of(regions, run, view(run, 1));
  if (a.block == no_block && b.block == no_block) return {};
  if (a.block == no_block) return {b.block, b.members, 0, true};
  if (b.block == no_block) return {a.block, a.members, 0, true};
  if (a.block != b.block) {
    regions.wrong("program.partial",
                  fmt::format("block {} of one factor is multiplied with block {} of the other", a.block, b.block),
                  run);
  }
  Blocks sum;
  if (view(run, 2).use == View::Use::accumulate) sum = blocks_of(regions, run, view(run, 2));
  sum.block = no_block;
  sum.add(a.block, a.members);
  return sum;
}

Blocks blocks_by_root(Regions& regions, const OpRun& run, const Collective& c, const View& from, const View& to) {
  const Blocks term = blocks_of(regions, run, from);
  if (term.block != no_block && term.block != index(c.root)) {
    regions.wrong("program.partial",
                  fmt::format("the product with block {} is summed on member {}", term.block, index(c.root)), run);
  }
  Blocks sum = blocks_of(regions, run, to);
  if (sum.complete) sum.marks = 0;
  sum.block = no_block;
  sum.add(index(c.root), group_size(regions.program()[c.group], regions.program().mesh));
  return sum;
}

}  // namespace orrery::verifying
