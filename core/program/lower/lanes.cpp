#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <vector>

#include "core/program/lower/passes.hpp"

namespace orrery::lowering {
namespace {

std::string before(const State& s) {
  if (s.drafts.empty()) return "there are no blocks";
  for (const Draft& d : s.drafts) {
    if (!d.seams.empty()) return d.block.name + " still has seams";
    if (!d.block.waits.empty()) return d.block.name + " already waits";
  }
  return {};
}

/// Compute has its own lane. A collective is on the lane of its axis (or the one for several axes). Each direction and
/// end of a transfer has a lane of its own.
Lane lane_of(const State& s, const Block& block, const Op& op) {
  if (const auto* collective = std::get_if<Collective>(&op.action)) {
    const auto is_ahead = [&](BufferId whole) {
      const auto of_kind = [&](const LayerKind& kind) { return whole == (s.*kind.module).weights; };
      return is_copy(s, whole) ||
             (block.pass != Pass::optimizer && std::any_of(s.kinds.begin(), s.kinds.end(), of_kind));
    };
    const bool ahead =
        collective->kind == Collective::Kind::all_gather && is_ahead(block.views[op.views.first + 1].buffer);
    if (ahead) return {LaneKind::collective, gather_lane};
    return collective_lane(s.program, collective->group);
  }
  if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
    const Transfer& t = block.transfers[exchange->transfers.first];
    const TransferLane lane = t.channel == 0 ? (t.send ? TransferLane::forward_send : TransferLane::forward_receive)
                                             : (t.send ? TransferLane::backward_send : TransferLane::backward_receive);
    return {LaneKind::transfer, static_cast<std::uint8_t>(lane)};
  }
  if (const auto* copy = std::get_if<Copy>(&op.action)) return copy_lane(copy->from, copy->to);
  // Ops on host memory are the host's work.
  if (op.views.count > 0 && s.program[block.views[op.views.first].buffer].tier == Tier::host) {
    return {LaneKind::host, 0};
  }
  return {};
}

/// The buffer whose memory the view is in.
BufferId memory_of(const State& s, const View& v) { return s.program[v.buffer].reuses.value_or(v.buffer); }

/// Whether two views share elements that any rank may touch. A member view can lie anywhere from its offset on, so it
/// is taken to reach the end of the buffer.
bool overlap(const State& s, const View& a, const View& b) {
  if (memory_of(s, a) != memory_of(s, b) || a.layer_shift != b.layer_shift) return false;
  const bool a_before = a.member_of.empty() && a.offset + a.count <= b.offset;
  const bool b_before = b.member_of.empty() && b.offset + b.count <= a.offset;
  return !a_before && !b_before;
}

bool conflict(const State& s, const Block& block, const Op& a, const Op& b) {
  for (std::uint32_t i = 0; i < a.views.count; ++i) {
    const View& u = block.views[a.views.first + i];
    for (std::uint32_t j = 0; j < b.views.count; ++j) {
      const View& v = block.views[b.views.first + j];
      if ((u.use != View::Use::read || v.use != View::Use::read) && overlap(s, u, v)) return true;
    }
  }
  return false;
}

/// The ops of a block that touch each buffer, by lane, latest first, with writing ones kept apart. This is fast for
/// large grids, whose blocks have thousands of ops.
class Accesses {
 public:
  explicit Accesses(const State& s)
      : s_(s), latest_(s.program.buffers.size() * lane_count * 2, none), lanes_(s.program.buffers.size()) {}

  void clear() {
    for (const Access& a : accesses_) {
      latest_[a.list] = none;
      lanes_[a.list / (2 * lane_count)] = {};
    }
    accesses_.clear();
  }
  void add(const Block& block, std::uint32_t op) {
    const std::size_t lane = lane_number(block.ops[op].lane);
    for_each_view(block, block.ops[op], [&](const View& v) {
      const BufferId memory = memory_of(s_, v);
      const bool writes = v.use != View::Use::read;
      const std::size_t list = list_of(memory, lane, writes);
      lanes_[index(memory)][writes ? 1 : 0] |= std::uint32_t{1} << lane;
      accesses_.push_back({op, latest_[list], list, part_of(v)});
      latest_[list] = static_cast<std::uint32_t>(accesses_.size() - 1);
    });
  }
  /// The latest op on each other lane that conflicts with `op`, latest first.
  const std::vector<std::uint32_t>& conflicts(const Block& block, const Op& op) {
    std::array<std::uint32_t, lane_count> last;  // by lane
    std::uint32_t found = 0;                     // lanes that have one
    const std::uint32_t others = ~(std::uint32_t{1} << lane_number(op.lane));
    for_each_view(block, op, [&](const View& v) {
      const BufferId memory = memory_of(s_, v);
      const Part part = part_of(v);
      for (const bool written : {true, false}) {
        if (!written && v.use == View::Use::read) continue;
        for (std::uint32_t lanes = lanes_[index(memory)][written ? 1 : 0] & others; lanes != 0; lanes &= lanes - 1) {
          const auto lane = static_cast<std::size_t>(std::countr_zero(lanes));
          const bool has = (found >> lane & 1U) != 0;
          for (std::uint32_t at = latest_[list_of(memory, lane, written)]; at != none; at = accesses_[at].before) {
            const Access& earlier = accesses_[at];
            if (has && earlier.op <= last[lane]) break;
            if (!part.meets(earlier.part)) continue;
            last[lane] = earlier.op;
            found |= std::uint32_t{1} << lane;
            break;
          }
        }
      }
    });
    found_.clear();
    for (; found != 0; found &= found - 1) found_.push_back(last[static_cast<std::size_t>(std::countr_zero(found))]);
    std::sort(found_.begin(), found_.end(), std::greater<>());
    return found_;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static_assert(lane_count <= 32, "lanes are bits of a number");
  /// The properties of a view that overlap() compares, for two views of one buffer.
  struct Part {
    std::uint64_t begin, end;
    std::int8_t shift;
    [[nodiscard]] bool meets(const Part& other) const {
      return shift == other.shift && begin < other.end && other.begin < end;
    }
  };
  static Part part_of(const View& v) {
    return {v.offset, v.member_of.empty() ? v.offset + v.count : ~std::uint64_t{0}, v.layer_shift};
  }
  struct Access {
    std::uint32_t op;
    std::uint32_t before;  ///< of the list
    std::size_t list;
    Part part;
  };
  static std::size_t list_of(BufferId memory, std::size_t lane, bool written) {
    return (std::size_t{index(memory)} * lane_count + lane) * 2 + (written ? 1 : 0);
  }
  const State& s_;
  std::vector<std::uint32_t> latest_;                ///< by list
  std::vector<std::array<std::uint32_t, 2>> lanes_;  ///< by memory: bits of the lanes that have read it, and that have
                                                     ///< written it
  std::vector<Access> accesses_;
  std::vector<std::uint32_t> found_;
};

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

/// An op waits for the latest earlier op of each other lane that touches the same elements, one of them writing. An op
/// beside compute that waits for no compute op of this block takes its operands from earlier blocks and waits for the
/// tail of compute. The draft states what compute takes from other lanes across blocks.
void add_waits(Draft& draft, Accesses& accesses) {
  Block& block = draft.block;
  const bool one_lane =
      std::all_of(block.ops.begin(), block.ops.end(), [](const Op& op) { return is_memory(op) || op.lane == Lane{}; });
  accesses.clear();
  bool first = true, entered = false;
  // Blocks of large rings have thousands of ops that wait for tails.
  std::vector<std::pair<std::uint32_t, Lane>> tails = draft.tails;
  const auto by_op = [](const auto& a, const auto& b) { return a.first < b.first; };
  if (!std::is_sorted(tails.begin(), tails.end(), by_op)) std::stable_sort(tails.begin(), tails.end(), by_op);
  auto tail = tails.begin();
  for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
    Op& op = block.ops[i];
    if (is_memory(op)) continue;
    op.waits.first = static_cast<std::uint32_t>(block.waits.size());
    const auto add = [&](const Wait& w) {
      block.waits.push_back(w);
      ++op.waits.count;
    };
    if (!one_lane) {
      // Earlier ops of those lanes are then done too.
      for (const std::uint32_t earlier : accesses.conflicts(block, op)) add({Wait::Kind::op, {}, earlier});
      accesses.add(block, i);
    }
    for (const auto& [at, earlier] : draft.after) {
      if (at == i) add({Wait::Kind::op, {}, earlier});
    }
    // Ops of the host, and copies, that use the block's own results have waited with those.
    const bool follows = (op.lane.kind == LaneKind::host || op.lane.kind == LaneKind::copy) && op.waits.count > 0;
    if (op.lane.kind != LaneKind::compute && !follows && !waits_for_compute(block, op) && !receives_only(block, op)) {
      add({Wait::Kind::tail, {LaneKind::compute, 0}, 0});
    }
    // The first op waits, and where that is beside compute the first compute op waits too.
    if (!entered && (first || op.lane.kind == LaneKind::compute)) {
      for (const Lane lane : draft.entry_tails) add({Wait::Kind::tail, lane, 0});
      entered = op.lane.kind == LaneKind::compute;
      first = false;
    }
    for (; tail != tails.end() && tail->first <= i; ++tail) {
      if (tail->first == i) add({Wait::Kind::tail, tail->second, 0});
    }
  }
}

void run(State& s) {
  Accesses accesses(s);
  for (Draft& d : s.drafts) {
    for (Op& op : d.block.ops) op.lane = lane_of(s, d.block, op);
    add_waits(d, accesses);
  }
}

/// Ops of a block that touch the same elements, one writing, are ordered: on
/// one lane, or the later waits for the earlier or for one behind it on its lane.
std::string after(const State& s) {
  for (const Draft& d : s.drafts) {
    const Block& block = d.block;
    for (std::uint32_t i = 0; i < block.ops.size(); ++i) {
      const Op& op = block.ops[i];
      for (std::uint32_t j = 0; j < i; ++j) {
        const Op& earlier = block.ops[j];
        if (op.lane == earlier.lane || is_memory(op) || is_memory(earlier) || !conflict(s, block, op, earlier))
          continue;
        const auto first = block.waits.begin() + op.waits.first;
        const bool ordered = std::any_of(first, first + op.waits.count, [&](const Wait& w) {
          return w.kind == Wait::Kind::op && w.op >= j && block.ops[w.op].lane == earlier.lane;
        });
        if (!ordered) return fmt::format("{}: op {} does not wait for op {}", block.name, i, j);
      }
    }
    for (const Op& op : block.ops) {
      if (!is_memory(op) && op.lane != lane_of(s, block, op)) return block.name + " has an op on a foreign lane";
    }
  }
  return {};
}

}  // namespace

LoweringPass lanes() { return {"lanes", before, run, after}; }

}  // namespace orrery::lowering
