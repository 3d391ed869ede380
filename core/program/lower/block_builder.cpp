#include "core/program/lower/block_builder.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery::lowering {

BlockBuilder::BlockBuilder(Program& program, std::string name, Pass pass) : program_(&program) {
  block_.name = std::move(name);
  block_.pass = pass;
  block_.ops.reserve(64);
  block_.views.reserve(192);
  block_.kernels.reserve(48);
}

void BlockBuilder::push(Op op, std::span<const Operand> operands) {
  op.views = {static_cast<std::uint32_t>(block_.views.size()), static_cast<std::uint32_t>(operands.size())};
  for (const Operand& o : operands) {
    const std::uint64_t count = o.count != 0 ? o.count : (*program_)[o.buffer].count;
    block_.views.push_back({o.buffer, o.offset, count, o.use, o.layer_shift, o.member_of});
  }
  for (const Lane lane : pending_tails_) tails_.emplace_back(static_cast<std::uint32_t>(block_.ops.size()), lane);
  pending_tails_.clear();
  block_.ops.push_back(op);
}

void BlockBuilder::compute(const Kernel& kernel, std::span<const Operand> operands) {
  block_.kernels.push_back(kernel);
  push({Compute{static_cast<std::uint32_t>(block_.kernels.size() - 1)}, {LaneKind::compute, 0}, {}, {}}, operands);
}

void BlockBuilder::collective(Collective::Kind kind, GroupId group, std::uint8_t lane,
                              std::span<const Operand> operands, Collective::Reduction reduction) {
  push({Collective{kind, reduction, group, Peer{0}}, {LaneKind::collective, lane}, {}, {}}, operands);
}

void BlockBuilder::transfer(bool send, GroupId group, Peer peer, std::uint8_t channel, TransferLane lane,
                            Operand what) {
  const auto first = static_cast<std::uint32_t>(block_.transfers.size());
  block_.transfers.push_back({send, peer, group, channel, 0});
  push({Exchange{{first, 1}}, {LaneKind::transfer, static_cast<std::uint8_t>(lane)}, {}, {}}, {&what, 1});
}

void BlockBuilder::alloc(BufferId what, std::int8_t shift) { block_.ops.push_back({Alloc{what, shift}, {}, {}, {}}); }
void BlockBuilder::free(BufferId what, std::int8_t shift) { block_.ops.push_back({Free{what, shift}, {}, {}, {}}); }

void BlockBuilder::moved(const std::vector<std::uint32_t>& to) {
  if (to.empty()) return;
  for (auto& tail : tails_) tail.first = to[tail.first];
}

namespace {

bool takes_lane(const Op& op) {
  return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
}

bool same_instance(const View& a, const View& b) { return a.buffer == b.buffer && a.layer_shift == b.layer_shift; }

/// Elements that any rank may touch: a member view can lie anywhere from its
/// offset on, so it is taken to reach the end of the buffer.
bool overlap(const View& a, const View& b) {
  if (!same_instance(a, b)) return false;
  const bool a_before = a.member_of.empty() && a.offset + a.count <= b.offset;
  const bool b_before = b.member_of.empty() && b.offset + b.count <= a.offset;
  return !a_before && !b_before;
}

bool conflict(const Block& block, const Op& a, const Op& b) {
  for (std::uint32_t i = 0; i < a.views.count; ++i) {
    const View& u = block.views[a.views.first + i];
    for (std::uint32_t j = 0; j < b.views.count; ++j) {
      const View& v = block.views[b.views.first + j];
      if ((u.use != View::Use::read || v.use != View::Use::read) && overlap(u, v)) return true;
    }
  }
  return false;
}

bool waits_for_compute(const Block& block, const Op& op) {
  for (std::uint32_t i = 0; i < op.waits.count; ++i) {
    const Wait& w = block.waits[op.waits.first + i];
    if (w.kind == Wait::Kind::op && block.ops[w.op].lane.kind == LaneKind::compute) return true;
  }
  return false;
}

/// A receive into a fresh buffer takes nothing from compute.
bool receives_only(const Block& block, const Op& op) {
  const auto* exchange = std::get_if<Exchange>(&op.action);
  return exchange != nullptr && !block.transfers[exchange->transfers.first].send;
}

}  // namespace

BlockId BlockBuilder::finish() {
  const bool one_lane = std::all_of(block_.ops.begin(), block_.ops.end(), [](const Op& op) {
    return !takes_lane(op) || op.lane == Lane{};
  });
  for (std::uint32_t i = 0; i < block_.ops.size(); ++i) {
    Op& op = block_.ops[i];
    if (!takes_lane(op)) continue;
    op.waits.first = static_cast<std::uint32_t>(block_.waits.size());
    const auto add = [&](const Wait& w) {
      block_.waits.push_back(w);
      ++op.waits.count;
    };
    if (!one_lane) {
      // The latest conflicting op of each other lane; earlier ones of that lane are then done too.
      bool lane_done[lane_count] = {};
      lane_done[lane_number(op.lane)] = true;
      for (std::uint32_t j = i; j-- > 0;) {
        const Op& earlier = block_.ops[j];
        if (!takes_lane(earlier) || lane_done[lane_number(earlier.lane)]) continue;
        if (conflict(block_, op, earlier)) {
          lane_done[lane_number(earlier.lane)] = true;
          add({Wait::Kind::op, {}, j});
        }
      }
    }
    if (op.lane.kind != LaneKind::compute && !waits_for_compute(block_, op) && !receives_only(block_, op)) {
      add({Wait::Kind::tail, {LaneKind::compute, 0}, 0});
    }
    for (const auto& [at, lane] : tails_) {
      if (at == i) add({Wait::Kind::tail, lane, 0});
    }
  }
  program_->blocks.push_back(std::move(block_));
  return BlockId{static_cast<std::uint32_t>(program_->blocks.size() - 1)};
}

}  // namespace orrery::lowering
