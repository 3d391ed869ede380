#include "core/program/verify_holders.hpp"

#include <algorithm>

namespace orrery::verifying {

Holders::Holders(const Program& p) : p_(p) {
  // Along any other axis ranks have other tokens or other parameters, which the cuts of shards show.
  if (!(p.class_axes == AxisList{Axis::pipeline})) return;
  const auto add = [](std::vector<std::uint32_t>& list, std::uint32_t c) {
    if (list.empty() || list.back() != c) list.push_back(c);
  };
  for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
    for_each_op(p, p.classes[c].setup, [&](const OpRun& run) {
      const auto* compute = std::get_if<Compute>(&run.op->action);
      if (compute == nullptr || run.block->kernels[compute->kernel].kind != KernelKind::initialize) return;
      for (std::uint32_t i = 0; i < run.op->views.count; ++i) {
        const View& v = run.block->views[run.op->views.first + i];
        const Instance at = instance_of(p, v.buffer, v.layer_shift, run.layer, run.microbatch);
        if (p[v.buffer].parameters) add(modules_[{*p[v.buffer].parameters, at.layer}], c);
      }
    });
    for (const Slot& slot : p.classes[c].step) {
      for (const Kernel& k : p[slot.block].kernels) {
        if (k.kind == KernelKind::cross_entropy_loss) add(loss_, c);
      }
    }
  }
}

const std::vector<std::uint32_t>& Holders::of(const Instance& i) const {
  const Buffer& b = p_[i.buffer];
  if (!b.parameters) return none_;
  const auto at = modules_.find({*b.parameters, i.layer});
  return at == modules_.end() ? none_ : at->second;
}

bool Holders::joins(const Group& group, const std::vector<std::uint32_t>& classes) const {
  if (!(group.axes == p_.class_axes)) return false;
  std::vector<std::uint32_t> members = group.members;
  if (members.empty()) {
    for (std::uint32_t c = 0; c < p_.classes.size(); ++c) members.push_back(c);
  }
  std::sort(members.begin(), members.end());
  return members == classes;
}

}  // namespace orrery::verifying
