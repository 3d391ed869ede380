#include "core/program/lower/modules_again.hpp"

#include <algorithm>

namespace orrery::lowering {
namespace {

/// Modules, the ones around others first.
constexpr RecomputeModule outermost_first[] = {
    RecomputeModule::moe,         RecomputeModule::mlp,     RecomputeModule::shared_experts, RecomputeModule::core_attn,
    RecomputeModule::mla_up_proj, RecomputeModule::moe_act, RecomputeModule::layernorm};

/// Whether results of the module are dropped, and not only what it keeps on the way to them.
bool drops_results(RecomputeModule m) {
  return m == RecomputeModule::layernorm || m == RecomputeModule::moe_act || m == RecomputeModule::mla_up_proj;
}

bool is_in(const std::vector<BufferId>& list, BufferId b) {
  return std::find(list.begin(), list.end(), b) != list.end();
}

}  // namespace

ModulesAgain::ModulesAgain(const State& s, const Draft& forward, RecomputeModules modules)
    : s_(s), forward_(forward), items_(items_of(forward)) {
  find_groups(modules);
}

std::vector<ModulesAgain::Item> ModulesAgain::items_of(const Draft& draft) {
  std::vector<Item> out;
  const Block& block = draft.block;
  const auto add = [](Item& item, BufferId b, View::Use use) {
    if (use != View::Use::write) item.reads.push_back(b);
    if (use != View::Use::read) item.writes.push_back(b);
  };
  for (std::uint32_t i = 0; i <= block.ops.size(); ++i) {
    for (std::uint32_t n = 0; n < draft.seams.size(); ++n) {
      const Seam& seam = draft.seams[n];
      if (seam.op != i) continue;
      Item item{true, n, seam.parts, {}, {}};
      for (std::uint32_t o = 0; o < seam.count; ++o) add(item, seam.operands[o].buffer, seam.operands[o].use);
      out.push_back(std::move(item));
    }
    if (i == block.ops.size()) break;
    Item item{false, i, 0, {}, {}};
    for (const auto& [op, parts] : draft.parts) {
      if (op == i) item.parts = parts;
    }
    for_each_view(block, block.ops[i], [&](const View& v) { add(item, v.buffer, v.use); });
    out.push_back(std::move(item));
  }
  return out;
}

void ModulesAgain::find_groups(RecomputeModules modules) {
  const auto module_of = [&](const Item& item) -> std::optional<RecomputeModule> {
    for (const RecomputeModule m : outermost_first) {
      if (has_module(modules, m) && has_module(item.parts, m)) return m;
    }
    return std::nullopt;
  };
  const auto n = static_cast<std::uint32_t>(items_.size());
  for (std::uint32_t first = 0; first < n;) {
    const std::optional<RecomputeModule> module = module_of(items_[first]);
    std::uint32_t end = first + 1;
    while (end < n && module_of(items_[end]) == module) ++end;
    if (module) add_group(*module, first, end - 1);
    first = end;
  }
}

void ModulesAgain::add_group(RecomputeModule module, std::uint32_t first, std::uint32_t last) {
  groups_.push_back({first, last});
  for (std::uint32_t i = first; i <= last; ++i) {
    for (const BufferId made : items_[i].writes) {
      if (drops_results(module) || !is_read_behind(last, made)) dropped_[made] = groups_.size() - 1;
    }
  }
}

bool ModulesAgain::is_read_behind(std::uint32_t item, BufferId buffer) const {
  for (std::uint32_t i = item + 1; i < items_.size(); ++i) {
    if (is_in(items_[i].reads, buffer)) return true;
    if (is_in(items_[i].writes, buffer)) return false;
  }
  return false;
}

void ModulesAgain::make_group(BlockBuilder& b, std::size_t group) {
  Group& g = groups_[group];
  if (g.made) return;
  g.made = true;
  for (std::uint32_t i = g.first; i <= g.last; ++i) make_again(b, i, g.first);
}

void ModulesAgain::make_again(BlockBuilder& b, std::uint32_t number, std::uint32_t first) {
  const Item& item = items_[number];
  for (const BufferId buffer : item.reads) {
    std::uint32_t maker = number;
    while (maker > 0 && (maker == number || !is_in(items_[maker].writes, buffer))) --maker;
    if (!is_in(items_[maker].writes, buffer) || maker == number) continue;  // the forward pass begins with it
    if (maker >= first) continue;                                           // it was made a moment ago
    if (const auto group = dropped_.find(buffer);
        group != dropped_.end() && groups_[group->second].last >= maker && groups_[group->second].first <= maker) {
      make_group(b, group->second);
      continue;
    }
    // A copy that a seam brought is brought again, unless the backward pass has done so.
    const Item& from = items_[maker];
    if (!from.seam || s_.program[buffer].role != Role::workspace || is_in(from.reads, buffer)) continue;
    const auto now = brought_.find(buffer);
    if (now == brought_.end() || now->second != from.reads.front()) make_again(b, maker, maker);
  }
  Draft& draft = b.draft();
  if (item.seam) {
    draft.seams.push_back(forward_.seams[item.at]);
    draft.seams.back().op = static_cast<std::uint32_t>(draft.block.ops.size());
  } else {
    b.copy_op(forward_, item.at);
    draft.block.kernels.back().pass = Pass::recompute;
  }
  wrote(item);
}

void ModulesAgain::wrote(const Item& item) {
  for (const BufferId buffer : item.writes) {
    brought_[buffer] = item.seam && !item.reads.empty() ? std::optional(item.reads.front()) : std::nullopt;
  }
}

void ModulesAgain::put_into(Draft& backward) {
  BlockBuilder b(s_, backward);
  brought_.clear();
  for (const Item& item : items_of(backward)) {
    for (const BufferId buffer : item.reads) {
      const auto group = dropped_.find(buffer);
      // What the backward pass has brought itself is there.
      if (group != dropped_.end() && !brought_.contains(buffer)) make_group(b, group->second);
    }
    if (item.seam) {
      b.draft().seams.push_back(backward.seams[item.at]);
      b.draft().seams.back().op = static_cast<std::uint32_t>(b.draft().block.ops.size());
    } else {
      b.copy_op(backward, item.at);
    }
    wrote(item);
  }
  backward = std::move(b.draft());
}

}  // namespace orrery::lowering
