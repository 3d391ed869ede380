#pragma once

#include <cstdint>
#include <variant>

#include "core/program/program.hpp"

namespace orrery::test {

/// How many times a step of the class recomputes a layer of experts.
[[nodiscard]] inline std::uint64_t recomputed_layers(const Program& p, std::uint32_t rank_class) {
  std::uint64_t n = 0;
  for_each_op(p, p.classes[rank_class].step, [&](const OpRun& run) {
    const auto* c = std::get_if<Compute>(&run.op->action);
    if (c == nullptr) return;
    const Kernel& k = run.block->kernels[c->kernel];
    if (k.kind == KernelKind::dispatch_forward && k.pass == Pass::recompute) ++n;
  });
  return n;
}

}  // namespace orrery::test
