#include "core/program/lower/copies.hpp"
#include "core/program/lower/passes.hpp"

// ZeRO-2 and 3 keep this rank's part of gradients, and of weights; compute works
// on whole copies that live for a while (gradient_copies.cpp, weight_copies.cpp).

namespace orrery::lowering {
namespace {

std::string before(const State& s) {
  if (s.drafts.empty()) return "there are no blocks";
  for (const Draft& d : s.drafts) {
    for (const Op& op : d.block.ops) {
      const auto* alloc = std::get_if<Alloc>(&op.action);
      if (alloc != nullptr && is_copy(s, alloc->what)) return d.block.name + " already has copies";
    }
  }
  return {};
}

void run(State& s) {
  if (s.zero >= 2) add_gradient_copies(s);
  if (s.zero >= 3) add_weight_copies(s);
}

/// In the order of every stage's step a copy is used between its beginning and
/// its end only, and none is left.
std::string after(const State& s) {
  if (s.zero < 2) return {};
  return wrong_lives(s, [&](BufferId b) { return is_copy(s, b); });
}

}  // namespace

LoweringPass parameter_copies() { return {"parameter_copies", before, run, after}; }

}  // namespace orrery::lowering
