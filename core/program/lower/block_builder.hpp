#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

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
[[nodiscard]] constexpr Operand read(BufferId b, std::int8_t shift = 0) { return {b, View::Use::read, shift, 0, 0, {}}; }
[[nodiscard]] constexpr Operand write(BufferId b, std::int8_t shift = 0) {
  return {b, View::Use::write, shift, 0, 0, {}};
}
[[nodiscard]] constexpr Operand update(BufferId b, std::int8_t shift = 0) {
  return {b, View::Use::accumulate, shift, 0, 0, {}};
}

/// Puts ops of one block in order and works out what they wait for.
///
/// Waits follow from the operands: an op waits for the latest earlier op of
/// each other lane that touches the same elements (one of them writing).  An op
/// beside compute that waits for no compute op of this block takes its operands
/// from earlier blocks and waits for the tail of compute.  What compute takes
/// from other lanes across blocks the author states with `after_tail`.
class BlockBuilder {
 public:
  BlockBuilder(Program& program, std::string name, Pass pass);

  void compute(const Kernel& kernel, std::span<const Operand> operands);
  void compute(const Kernel& kernel, std::initializer_list<Operand> operands) {
    compute(kernel, std::span<const Operand>(operands.begin(), operands.size()));
  }
  void collective(Collective::Kind kind, GroupId group, std::uint8_t lane, std::span<const Operand> operands,
                  Collective::Reduction reduction = Collective::Reduction::sum);
  void collective(Collective::Kind kind, GroupId group, std::uint8_t lane, std::initializer_list<Operand> operands,
                  Collective::Reduction reduction = Collective::Reduction::sum) {
    collective(kind, group, lane, std::span<const Operand>(operands.begin(), operands.size()), reduction);
  }
  /// One message to or from `peer` of `group`.
  void transfer(bool send, GroupId group, Peer peer, std::uint8_t channel, TransferLane lane, Operand what);
  void alloc(BufferId what, std::int8_t shift = 0);
  void free(BufferId what, std::int8_t shift = 0);

  /// The next op waits for the last op issued on `lane` before this block.
  void after_tail(Lane lane) { pending_tails_.push_back(lane); }

  /// The block so far, for the lifetime pass to extend.
  [[nodiscard]] Block& block() { return block_; }
  /// Op i now stands at `to[i]` (empty: nothing moved): stated tails follow.
  void moved(const std::vector<std::uint32_t>& to);
  /// Computes the waits and adds the block to the program.
  BlockId finish();

 private:
  void push(Op op, std::span<const Operand> operands);

  Program* program_;
  Block block_;
  std::vector<Lane> pending_tails_;
  std::vector<std::pair<std::uint32_t, Lane>> tails_;  ///< (op, lane)
};

/// Which instance of a buffer a block touches.
struct Touched {
  BufferId buffer{};
  std::int8_t layer_shift = 0;
  friend bool operator==(const Touched&, const Touched&) = default;
};

/// Inserts Alloc before the first use and Free after the last, over the blocks
/// in the order in which one layer or microbatch runs them.
///
/// `kept` lives from the first block that uses it to the last; every other
/// buffer that is not persistent and not in `outside` lives inside each block
/// that uses it.  `allocate_only` and `free_only` are kept across blocks too,
/// but end or begin elsewhere.
struct Lifetimes {
  std::vector<Touched> kept;
  std::vector<Touched> outside;
  std::vector<Touched> allocate_only;
  std::vector<Touched> free_only;
};
void insert_lifetimes(const Program&, std::span<BlockBuilder*> blocks, const Lifetimes&);

}  // namespace orrery::lowering
