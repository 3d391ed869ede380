#include "core/program/lower/draft.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/state.hpp"

namespace orrery::lowering {
namespace {

std::uint32_t place(std::uint32_t number, Section section) { return 8 * number + static_cast<std::uint32_t>(section); }

}  // namespace

BlockBuilder::BlockBuilder(const State& state, std::string name, Pass pass, Section section) : state_(&state) {
  draft_.block.name = std::move(name);
  draft_.block.pass = pass;
  draft_.place = place(0, section);
  if (section != Section::model) return;
  draft_.block.ops.reserve(64);
  draft_.block.views.reserve(192);
  draft_.block.kernels.reserve(48);
}

BlockBuilder::BlockBuilder(const State& state, std::string name, Pass pass, Section section, std::uint32_t stage)
    : BlockBuilder(state, std::move(name), pass, section) {
  draft_.place = place(stage + 1, section);
}

BlockBuilder::BlockBuilder(const State& state, const Draft& like) : state_(&state) {
  draft_.block.name = like.block.name;
  draft_.block.pass = like.block.pass;
  draft_.place = like.place;
  draft_.entry_tails = like.entry_tails;
  draft_.block.ops.reserve(2 * like.block.ops.size());
  draft_.block.views.reserve(2 * like.block.views.size());
  draft_.block.kernels.reserve(2 * like.block.kernels.size());
}

void BlockBuilder::take_tails() {
  for (const Lane lane : pending_tails_) {
    draft_.tails.emplace_back(static_cast<std::uint32_t>(draft_.block.ops.size()), lane);
  }
  pending_tails_ = LaneList();
}

void BlockBuilder::push(Op op, std::span<const Operand> operands) {
  Block& block = draft_.block;
  op.views = {static_cast<std::uint32_t>(block.views.size()), static_cast<std::uint32_t>(operands.size())};
  const std::size_t needed = block.views.size() + operands.size();
  if (needed > block.views.capacity()) block.views.reserve(std::max(needed, 2 * block.views.capacity()));
  for (const Operand& o : operands) {
    const std::uint64_t count = o.count != 0 ? o.count : state_->program[o.buffer].count;
    block.views.push_back({o.buffer, o.offset, count, o.use, o.layer_shift, o.member_of});
  }
  take_tails();
  if (parts_ != 0) draft_.parts.emplace_back(static_cast<std::uint32_t>(block.ops.size()), parts_);
  block.ops.push_back(op);
}

void BlockBuilder::compute(const Kernel& kernel, std::span<const Operand> operands) {
  draft_.block.kernels.push_back(kernel);
  push({Compute{static_cast<std::uint32_t>(draft_.block.kernels.size() - 1)}, {}, {}, {}}, operands);
}

void BlockBuilder::collective(Collective::Kind kind, GroupId group, std::span<const Operand> operands,
                              Collective::Reduction reduction, Peer root, std::uint32_t width) {
  push({Collective{kind, reduction, group, root, width}, {}, {}, {}}, operands);
}

void BlockBuilder::copy(Tier from, Tier to, std::span<const Operand> operands) {
  push({orrery::Copy{from, to}, {}, {}, {}}, operands);
}

void BlockBuilder::transfer(bool send, GroupId group, Peer peer, std::uint8_t channel, Operand what) {
  const auto first = static_cast<std::uint32_t>(draft_.block.transfers.size());
  draft_.block.transfers.push_back({send, peer, group, channel, 0});
  push({Exchange{{first, 1}}, {}, {}, {}}, {&what, 1});
}

void BlockBuilder::seam(Collective::Kind kind, std::initializer_list<Operand> operands,
                        Collective::Reduction reduction) {
  seam(kind, state_->tensor_group, operands, reduction);
}

void BlockBuilder::seam(Collective::Kind kind, GroupId group, std::initializer_list<Operand> operands,
                        Collective::Reduction reduction) {
  Seam seam;
  seam.group = group;
  seam.op = static_cast<std::uint32_t>(draft_.block.ops.size());
  seam.kind = kind;
  seam.reduction = reduction;
  for (const Operand& o : operands) seam.operands[seam.count++] = o;
  seam.tails = pending_tails_;
  seam.parts = parts_;
  pending_tails_ = LaneList();
  draft_.seams.push_back(seam);
}

void BlockBuilder::rooted_seam(Collective::Kind kind, GroupId group, Peer root,
                               std::initializer_list<Operand> operands) {
  seam(kind, group, operands);
  draft_.seams.back().root = root;
}

void BlockBuilder::pass_on(GroupId group, std::uint32_t distance, std::uint32_t width,
                           std::initializer_list<Operand> operands) {
  rooted_seam(Collective::Kind::permute, group, Peer{distance}, operands);
  draft_.seams.back().width = width;
}

void BlockBuilder::copy_seams(const Draft& from, std::uint32_t i) {
  for (const Seam& s : from.seams) {
    if (s.op != i) continue;
    draft_.seams.push_back(s);
    draft_.seams.back().op = static_cast<std::uint32_t>(draft_.block.ops.size());
  }
}

void BlockBuilder::copy_op(const Draft& from, std::uint32_t i) {
  Block& block = draft_.block;
  Op op = from.block.ops[i];
  ORRERY_ASSERT(op.waits.count == 0 && !std::holds_alternative<Exchange>(op.action), from.block.name, i);
  if (auto* compute = std::get_if<Compute>(&op.action)) {
    block.kernels.push_back(from.block.kernels[compute->kernel]);
    compute->kernel = static_cast<std::uint32_t>(block.kernels.size() - 1);
  }
  const auto first = from.block.views.begin() + op.views.first;
  op.views.first = static_cast<std::uint32_t>(block.views.size());
  block.views.insert(block.views.end(), first, first + op.views.count);
  for (const auto& [at, lane] : from.tails) {
    if (at == i) after_tail(lane);
  }
  take_tails();
  block.ops.push_back(op);
}

BlockId BlockBuilder::finish(State& state) {
  state.drafts.push_back(std::move(draft_));
  return BlockId{static_cast<std::uint32_t>(state.drafts.size() - 1)};
}

}  // namespace orrery::lowering
