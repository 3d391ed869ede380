#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"

namespace orrery::lowering {

/// View of `count` elements (0: the whole buffer) of a buffer.
struct Operand {
  BufferId buffer{};
  View::Use use = View::Use::read;
  std::int8_t layer_shift = 0;
  std::uint64_t offset = 0;
  std::uint64_t count = 0;
  AxisList member_of;
};
[[nodiscard]] constexpr Operand read(BufferId b, std::int8_t shift = 0) {
  return {b, View::Use::read, shift, 0, 0, {}};
}
[[nodiscard]] constexpr Operand write(BufferId b, std::int8_t shift = 0) {
  return {b, View::Use::write, shift, 0, 0, {}};
}
[[nodiscard]] constexpr Operand update(BufferId b, std::int8_t shift = 0) {
  return {b, View::Use::accumulate, shift, 0, 0, {}};
}

/// A few operands of one op, of which some depend on the model.
class OperandArray {
 public:
  OperandArray(std::initializer_list<Operand> operands) { add(operands); }
  void add(const Operand& operand) { list_[count_++] = operand; }
  void add(std::initializer_list<Operand> operands) {
    for (const Operand& each : operands) add(each);
  }
  operator std::span<const Operand>() const { return {list_, count_}; }

 private:
  Operand list_[8];
  std::size_t count_ = 0;
};

/// Operands of collectives, grouped by the axes of the collective; axes stand in the order in which they came.
struct OperandsByAxes {
  std::vector<std::pair<AxisList, std::vector<Operand>>> all;
  [[nodiscard]] std::vector<Operand>& over(const AxisList& axes) {
    for (auto& [of, operands] : all) {
      if (of == axes) return operands;
    }
    return all.emplace_back(axes, std::vector<Operand>{}).second;
  }
};

/// A few lanes whose last op is waited for.
struct LaneList {
  Lane lane[12] = {};
  std::uint8_t count = 0;
  void push_back(Lane l) { lane[count++] = l; }
  [[nodiscard]] const Lane* begin() const { return lane; }
  [[nodiscard]] const Lane* end() const { return lane + count; }
};

/// A place in a block where the layout of a tensor over the ranks of a group changes: partial sums become whole, or cut
/// by rows; cut rows become whole; rows become heads; a block becomes known to all. The authors of the compute order
/// place seams; sharding_collectives makes each seam a collective.
struct Seam {
  std::uint32_t op = 0;  ///< stands before this op of the block
  Collective::Kind kind = Collective::Kind::all_reduce;
  Collective::Reduction reduction = Collective::Reduction::sum;
  GroupId group{};
  Peer root{};              ///< broadcast and reduce; the distance of a permute
  std::uint32_t width = 0;  ///< of a permute
  Operand operands[2];
  std::uint8_t count = 0;
  LaneList tails;              ///< see Draft::tails
  RecomputeModules parts = 0;  ///< see Draft::parts
};

/// Where a block stands in the Program: first the blocks that all stages share, then those of each stage; within that
/// by section, then as built.
enum class Section : std::uint8_t { model, setup, loss, optimizer, reductions, transfers, tied };

/// A block that passes still add to. It has no lanes, waits, allocations or collectives of seams until the pass that
/// makes them.
struct Draft {
  Block block;
  std::uint32_t place = 0;  ///< order in the Program
  /// Operands that compute takes from other lanes across blocks, as the author states. The first op of the block (and
  /// the first compute op, where that is another), or the given op, waits for the last op issued on the lane before
  /// this run of the block.
  LaneList entry_tails;
  std::vector<std::pair<std::uint32_t, Lane>> tails;
  /// Pairs (op, an earlier op of another lane): waits between ops that touch no common elements.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> after;
  std::vector<Seam> seams;
  /// Pairs (op, the modules that it is a part of), of ops of layers that are a part of any. They are of no use behind
  /// the pass `recomputation`, since other passes move ops.
  std::vector<std::pair<std::uint32_t, RecomputeModules>> parts;
};

struct State;

/// Puts ops of one block in order.
class BlockBuilder {
 public:
  BlockBuilder(const State&, std::string name, Pass pass, Section section);
  /// Makes blocks of one stage.
  BlockBuilder(const State&, std::string name, Pass pass, Section section, std::uint32_t stage);
  /// Makes an empty copy with the name, place and entry of `like`, for a pass that rebuilds it.
  BlockBuilder(const State&, const Draft& like);

  void compute(const Kernel& kernel, std::span<const Operand> operands);
  void compute(const Kernel& kernel, std::initializer_list<Operand> operands) {
    compute(kernel, std::span<const Operand>(operands.begin(), operands.size()));
  }
  void collective(Collective::Kind kind, GroupId group, std::span<const Operand> operands,
                  Collective::Reduction reduction = Collective::Reduction::sum, Peer root = Peer{0},
                  std::uint32_t width = 0);
  void collective(Collective::Kind kind, GroupId group, std::initializer_list<Operand> operands,
                  Collective::Reduction reduction = Collective::Reduction::sum) {
    collective(kind, group, std::span<const Operand>(operands.begin(), operands.size()), reduction);
  }
  /// Copies pairs (read, write).
  void copy(Tier from, Tier to, std::span<const Operand> operands);
  /// One message to or from `peer` of `group`.
  void transfer(bool send, GroupId group, Peer peer, std::uint8_t channel, Operand what);
  /// Takes at most two operands, in the order that Collective names. The seam is over the tensor axis.
  void seam(Collective::Kind kind, std::initializer_list<Operand> operands,
            Collective::Reduction reduction = Collective::Reduction::sum);
  /// The same over another group.
  void seam(Collective::Kind kind, GroupId group, std::initializer_list<Operand> operands,
            Collective::Reduction reduction = Collective::Reduction::sum);
  /// Broadcast or reduce.
  void rooted_seam(Collective::Kind kind, GroupId group, Peer root, std::initializer_list<Operand> operands);
  /// Adds a permute: what each rank reads goes `distance` places on in its ring of `width` ranks (0: the group).
  void pass_on(GroupId group, std::uint32_t distance, std::uint32_t width, std::initializer_list<Operand> operands);

  /// The block's first op waits for the last op issued on `lane` before the block.
  void enter_after_tail(Lane lane) { draft_.entry_tails.push_back(lane); }
  /// The next op or seam waits for the last op issued on `lane` before the block.
  void after_tail(Lane lane) { pending_tails_.push_back(lane); }

  /// Appends op `i` of another draft with its tails, and the seams before it. With i = number of ops, only the seams at
  /// the end are appended.
  void copy_seams(const Draft& from, std::uint32_t i);
  void copy_op(const Draft& from, std::uint32_t i);

  /// While it lives, ops and seams are a part of the module too.
  class Part {
   public:
    Part(BlockBuilder& b, RecomputeModule m) : b_(b), outer_(b.parts_) { b.parts_ |= set_of(m); }
    ~Part() { b_.parts_ = outer_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    BlockBuilder& b_;
    RecomputeModules outer_;
  };

  [[nodiscard]] Draft& draft() { return draft_; }
  /// Adds the block to the state.
  BlockId finish(State&);

 private:
  void push(Op op, std::span<const Operand> operands);
  void take_tails();

  const State* state_;
  Draft draft_;
  LaneList pending_tails_;
  RecomputeModules parts_ = 0;
};

[[nodiscard]] inline bool is_memory(const Op& op) {
  return std::holds_alternative<Alloc>(op.action) || std::holds_alternative<Free>(op.action);
}
/// Calls visit(view) for every operand of the op.
template <class Visitor>
void for_each_view(const Block& block, const Op& op, Visitor&& visit) {
  for (std::uint32_t v = 0; v < op.views.count; ++v) visit(block.views[op.views.first + v]);
}

}  // namespace orrery::lowering
