#include "core/program/verify_attention.hpp"

#include <fmt/format.h>

namespace orrery::verifying {

// Attention cut over positions: keys and values travel along a ring of ranks or
// are gathered, and what they give is merged.  A list that has lost a pass, a
// part or a merge is sound in every other respect.

Attended attended_of(Regions& regions, const OpRun& run, const View& v) {
  for (const Region& r : regions.of(run, v)) {
    if (regions.touches(r, v)) return r.attended;
  }
  return {};
}

Attended attend(Regions& regions, const OpRun& run, const Kernel& k, std::uint32_t i) {
  const auto of = [&](std::uint32_t j) { return attended_of(regions, run, view(run, j)); };
  const auto whole = [&](std::uint32_t kv) {
    const auto& shard = regions.program()[view(run, kv).buffer].shard;
    return shard ? shard->dims[0].extent : k.depth / k.batch;
  };
  switch (k.kind) {
    case KernelKind::attention_part_forward: return {0, k.depth / k.batch, whole(1)};
    case KernelKind::attention_merge: {
      const Attended sum = of(i);
      return {0, sum.met + of(i + 2).met, sum.whole};
    }
    case KernelKind::attention_part_backward:
      if (i == 6) return {k.site, k.rows / k.batch, whole(2)};
      return {0, (view(run, 5).use == View::Use::accumulate ? of(5).met : 0) + k.depth / k.batch, whole(2)};
    case KernelKind::add_to: {
      const Attended sum = of(1);
      return {sum.hops, sum.met + of(0).met, sum.whole};
    }
    case KernelKind::convert: return of(0);
    default: return {};
  }
}

void check_attended(Regions& regions, const OpRun& run, const Kernel& k) {
  const auto incomplete = [&](std::uint32_t i, const Attended& a) {
    regions.wrong("program.partial",
                  fmt::format("{} is used after it has met {} of {} positions",
                              regions.program()[view(run, i).buffer].name, a.met, a.whole),
                  run);
  };
  const auto travelled = [&](std::uint32_t i, std::uint64_t hops, std::uint64_t expected, std::uint64_t ranks) {
    if (hops % ranks == expected % ranks) return;
    regions.wrong("program.stale",
                  fmt::format("{} has gone {} places along the ring, not {}",
                              regions.program()[view(run, i).buffer].name, hops % ranks, expected % ranks),
                  run);
  };
  const bool part = k.kind == KernelKind::attention_part_forward || k.kind == KernelKind::attention_part_backward;
  if (part) {
    const std::uint32_t kv = k.kind == KernelKind::attention_part_forward ? 1 : 2;
    const auto& shard = regions.program()[view(run, kv).buffer].shard;
    const std::uint64_t keys = k.depth / k.batch;
    travelled(kv, attended_of(regions, run, view(run, kv)).hops, k.site, shard ? shard->dims[0].extent / keys : 1);
  }
  if (k.kind == KernelKind::add_to) {
    const Attended x = attended_of(regions, run, view(run, 0)), sum = attended_of(regions, run, view(run, 1));
    if (x.whole > 0) travelled(1, sum.hops, x.hops, x.whole / x.met);
    return;
  }
  if (k.kind == KernelKind::attention_merge || k.kind == KernelKind::convert) return;
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    if (view(run, i).use != View::Use::read) continue;
    const Attended a = attended_of(regions, run, view(run, i));
    if (a.whole == 0) continue;
    if (a.met != a.whole) incomplete(i, a);
    if (k.kind == KernelKind::unpack_gradients) travelled(i, a.hops, 0, a.whole / (k.rows / k.batch));
  }
}

}  // namespace orrery::verifying
