#include <fmt/format.h>

#include <map>

#include "core/program/verify_parts.hpp"

namespace orrery::verifying {

namespace {

// The backward kernels of attention make the scores again, or know them from what the forward pass kept. A list whose
// backward pass sees other keys, or makes other scores of them, is sound in every other respect.

/// What decides the scores of a layer's queries.
struct Scores {
  std::uint64_t window = 0;
  bool causal = false, chunked = false, alibi = false;
  double scale = 0.0, softcap = 0.0;
  friend bool operator==(const Scores&, const Scores&) = default;
};

bool makes_scores(KernelKind kind) {
  switch (kind) {
    case KernelKind::attention_unfused_forward:
    case KernelKind::attention_unfused_backward:
    case KernelKind::attention_flash_forward:
    case KernelKind::attention_flash_backward:
    case KernelKind::attention_part_forward:
    case KernelKind::attention_part_backward:
    case KernelKind::attention_scores_forward:
    case KernelKind::attention_scores_backward:
    case KernelKind::attention_pairs_backward: return true;
    default: return false;
  }
}

std::string text(const Scores& s) {
  return fmt::format("{}{} of {}, scale {}, cap {}{}", s.causal ? "causal, " : "", s.chunked ? "chunks" : "window",
                     s.window, s.scale, s.softcap, s.alibi ? ", slopes" : "");
}

}  // namespace

void check_scores(Findings& f) {
  const Program& p = f.program();
  for (std::uint32_t c = 0; c < p.classes.size() && !f.full(); ++c) {
    f.reached(c, p.classes.size());
    std::map<std::uint32_t, Scores> of_layer;
    for_each_op(p, p.classes[c].step, [&](const OpRun& run) {
      const auto* compute = std::get_if<Compute>(&run.op->action);
      if (compute == nullptr) return;
      const Kernel& k = run.block->kernels[compute->kernel];
      if (!makes_scores(k.kind)) return;
      const Scores now{k.window, k.options.causal, k.options.chunked, k.options.alibi, k.scale, k.softcap};
      const auto [first, is_new] = of_layer.try_emplace(run.layer, now);
      if (is_new || first->second == now) return;
      f.add_run("program.scores",
                fmt::format("{} makes other scores ({}) than another kernel of its layer ({})", name_of(k.kind),
                            text(now), text(first->second)),
                representative(p, c), false, run);
    });
  }
}

}  // namespace orrery::verifying
