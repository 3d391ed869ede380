#include "core/program/verify_attention.hpp"

#include <fmt/format.h>

#include <algorithm>

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

namespace {

/// Number of positions in the whole sequence whose keys operand `kv` of the kernel has a part of.
std::uint64_t whole_sequence(const Regions& regions, const OpRun& run, const Kernel& k, std::uint32_t kv) {
  const auto& shard = regions.program()[view(run, kv).buffer].shard;
  return shard ? shard->dims[0].extent : k.depth / k.batch;
}

/// The ranks that brought keys must have come from: as many as hold a part of the sequence like operand `kv`.
Attended brought(const Regions& regions, const OpRun& run, const Kernel& k, std::uint32_t kv) {
  Attended a;
  a.whole = whole_sequence(regions, run, k, kv);
  a.ranks = std::max<std::uint64_t>(1, a.whole / std::max<std::uint64_t>(1, k.depth / k.batch));
  a.narrow = k.ring == 0 ? 1 : k.ring;
  a.hops = k.site - k.site % a.narrow;
  a.turns = k.site % a.narrow;
  return a;
}

/// The operand that holds brought keys, or values; 0 where the kernel has none.
std::uint32_t brought_operand(const Kernel& k) {
  switch (k.kind) {
    case KernelKind::attention_part_backward: return 2;
    case KernelKind::attention_part_forward:
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_scores_backward:
    case KernelKind::attention_values_forward:
    case KernelKind::attention_values_backward: return 1;
    default: return 0;
  }
}

}  // namespace

Attended attend(Regions& regions, const OpRun& run, const Kernel& k, std::uint32_t i) {
  const auto of = [&](std::uint32_t j) { return attended_of(regions, run, view(run, j)); };
  const auto result = [&](std::uint64_t met, std::uint64_t whole) {
    Attended a;
    a.met = met;
    a.whole = whole;
    return a;
  };
  // Adds the keys of this kernel to those met before.
  const auto with_brought = [&] {
    const std::uint64_t before = view(run, i).use == View::Use::accumulate ? of(i).met : 0;
    return result(before + k.depth / k.batch, whole_sequence(regions, run, k, brought_operand(k)));
  };
  switch (k.kind) {
    case KernelKind::attention_part_forward:
    case KernelKind::attention_values_forward:
    case KernelKind::attention_scores_backward: return with_brought();
    case KernelKind::attention_merge: return result(of(i).met + of(i + 2).met, of(i).whole);
    case KernelKind::attention_part_backward: {
      if (i != 6) return with_brought();
      Attended a = brought(regions, run, k, 2);
      a.met = k.rows / k.batch;
      return a;
    }
    case KernelKind::add_to: {
      Attended sum = of(1);
      sum.met += of(0).met;
      return sum;
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
  const auto travelled = [&](std::uint32_t i, const Attended& a, const Attended& expected) {
    const auto check = [&](const char* where, std::uint64_t is, std::uint64_t should, std::uint64_t places) {
      if (is % places == should % places) return true;
      regions.wrong("program.stale",
                    fmt::format("{} has gone {} places along the {}, not {}",
                                regions.program()[view(run, i).buffer].name, is % places, where, should % places),
                    run);
      return false;
    };
    if (check("ring", a.hops, expected.hops, expected.ranks)) {
      check("inner ring", a.turns, expected.turns, expected.narrow);
    }
  };
  if (const std::uint32_t kv = brought_operand(k); kv != 0) {
    travelled(kv, attended_of(regions, run, view(run, kv)), brought(regions, run, k, kv));
  }
  if (k.kind == KernelKind::add_to) {
    const Attended x = attended_of(regions, run, view(run, 0)), sum = attended_of(regions, run, view(run, 1));
    if (x.whole > 0) travelled(1, sum, x);
    return;
  }
  if (k.kind == KernelKind::attention_merge || k.kind == KernelKind::convert) return;
  for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
    if (view(run, i).use != View::Use::read) continue;
    const Attended a = attended_of(regions, run, view(run, i));
    if (a.whole == 0) continue;
    if (a.met != a.whole) incomplete(i, a);
    if (k.kind != KernelKind::unpack_gradients) continue;
    Attended home = a;
    home.hops = home.turns = 0;
    travelled(i, a, home);
  }
}

}  // namespace orrery::verifying
