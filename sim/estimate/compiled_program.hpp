#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/operation.hpp"
#include "sim/cost/prices.hpp"

namespace orrery {

/// An op of a block without what time does not depend on.
struct TimedOp {
  enum class Meeting : std::uint8_t { none, exchange, collective };  ///< with ranks of other classes
  Picoseconds duration = 0;                                          ///< of an Exchange: 0, see its transfers
  std::uint32_t first_wait = 0;
  std::uint32_t wait_count = 0;
  std::uint32_t op = 0;              ///< position in the block
  std::uint32_t first_transfer = 0;  ///< exchange: in CompiledProgram::transfers
  std::uint16_t transfer_count = 0;
  std::uint8_t lane = 0;  ///< lane_number
  Meeting meeting = Meeting::none;
};

/// A message as one class issues it.
struct TimedTransfer {
  std::uint32_t partner = 0;  ///< class at the other end
  std::uint8_t channel = 0;
  bool send = false;
  Picoseconds duration = 0;  ///< of a send
  std::uint64_t bytes = 0;
};

struct TimedWait {
  std::uint32_t op = 0;   ///< timed position in the block
  std::uint8_t lane = 0;  ///< of that op, or whose tail is meant
  bool tail = false;
};

/// The last op on every lane of a rank: when it ended, and since when time until
/// then was communication that went on without a pause (summarize.hpp).  For
/// compute that is its end.
struct LaneTails {
  std::array<Picoseconds, lane_count> end{};
  std::array<Picoseconds, lane_count> from{};
};

inline constexpr std::size_t compute_lane = 0;
[[nodiscard]] constexpr bool is_transfer_lane(std::size_t lane) {
  return lane >= lane_number({LaneKind::transfer, 0}) && lane < lane_number({LaneKind::copy, 0});
}

/// A block ready to be walked many times.
///
/// A block is local when nobody outside its class takes part.  What a local
/// block does depends on the ends of the few lanes it uses or waits for,
/// relative to the compute lane, and only where they lie beyond `free_until`:
/// an end no later than that delays nothing in the block.  So the outcomes met
/// so far are kept by those relative ends.
struct CompiledBlock {
  static constexpr std::size_t max_watched = 4;
  static constexpr std::size_t max_outcomes = 8;
  static constexpr Picoseconds never = INT64_MIN / 4;  ///< a lane end that delays nothing

  struct Outcome {
    std::array<Picoseconds, max_watched> entry{};  ///< relative to the compute lane's end, or never
    std::array<Picoseconds, max_watched> entry_from{};
    std::array<Picoseconds, max_watched> exit{};  ///< of the watched lanes that the block uses
    std::array<Picoseconds, max_watched> exit_from{};
    Picoseconds compute = 0;  ///< how far the compute lane's end moves
    Picoseconds exposed = 0;  ///< see summarize.hpp
  };
  struct Sum {
    Operation operation{};
    Picoseconds time = 0;
    std::uint64_t count = 0;
  };

  bool compiled = false;
  bool local = false;
  bool keeps_outcomes = false;  ///< few enough watched lanes, enough ops
  bool has_tails = false;       ///< an op waits for a lane's tail
  std::uint8_t watched_count = 0;
  std::uint8_t gate_count = 0;
  std::uint8_t outcome_count = 0;
  std::uint8_t next_outcome = 0;
  std::uint8_t last_outcome = 0;
  std::array<std::uint8_t, max_watched> watched{};  ///< lanes other than compute
  std::array<bool, max_watched> used{};             ///< by an op of the block
  std::array<Picoseconds, max_watched> free_until{};
  /// Lanes for whose tails everything in the block waits: the first op does, and it is a compute op, or a
  /// collective on `gate_lane` with the first compute op behind it.
  std::array<std::uint8_t, lane_count> gate{};
  std::uint8_t gate_lane = 0;

  std::uint32_t first_op = 0;  ///< in CompiledProgram::ops
  std::uint32_t op_count = 0;
  Picoseconds busy = 0;           ///< compute lane
  Picoseconds all = 0;            ///< every lane: the time on a serial device, local blocks only
  Picoseconds communication = 0;  ///< collectives (and copies) of a local block
  std::uint64_t sent_bytes = 0;   ///< by all ranks of one class, collectives inside the class
  std::uint32_t first_sum = 0;    ///< in CompiledProgram::sums: all but Exchanges
  std::uint32_t sum_count = 0;
  std::array<Outcome, max_outcomes> outcomes;
};

/// Blocks of a Program with prices, and which classes meet in which groups.
struct CompiledProgram {
  const Program* program = nullptr;
  const Prices* prices = nullptr;
  std::uint64_t ranks_per_class = 1;
  std::vector<CompiledBlock> blocks;
  std::vector<TimedOp> ops;
  std::vector<TimedWait> waits;
  std::vector<CompiledBlock::Sum> sums;
  std::uint32_t longest = 0;  ///< most timed ops in one block

  std::vector<bool> group_local;                          ///< by group: every instance lies inside one class
  std::vector<TimedTransfer> transfers;                   ///< [class][transfer of any block]
  std::vector<std::vector<std::uint32_t>> group_classes;  ///< [group * classes + class]: who meets there, ascending

  /// Keeps its storage; the arguments must outlive it.
  void compile(const Program&, const Prices&);

 private:
  void compile_groups();
  void compile_meetings(std::uint32_t group);
  void compile_block(BlockId);
  void compile_transfers(std::uint32_t rank_class, BlockId);
  void find_gate(CompiledBlock&);
  void watch_lanes(CompiledBlock&);
  std::vector<bool> transfers_done_;           // [class][block]
  std::vector<std::uint32_t> timed_position_;  // by position in the block being compiled
  std::vector<Picoseconds> ends_;
};

/// The latest of several ends, and of several latest ones the longest
/// communication that led to it.
class Latest {
 public:
  Latest() = default;
  Latest(Picoseconds end, Picoseconds from) : end_(end), from_(from) {}
  void wait(Picoseconds end, Picoseconds from) {
    if (end < end_) return;
    from_ = end > end_ || from < from_ ? from : from_;
    end_ = end;
  }
  [[nodiscard]] Picoseconds end() const { return end_; }
  [[nodiscard]] Picoseconds from() const { return from_; }
  /// Part of the gap [idle_from, end] that is exposed communication.
  [[nodiscard]] Picoseconds exposed(Picoseconds idle_from) const {
    if (end_ <= idle_from) return 0;
    return end_ - (from_ > idle_from ? from_ : idle_from);
  }

 private:
  Picoseconds end_ = CompiledBlock::never;
  Picoseconds from_ = CompiledBlock::never;
};

/// Walks the ops of a local block once.  Returns the exposed communication.
/// `ends` has room for the block's ops.
[[nodiscard]] Picoseconds walk_local(const CompiledProgram&, const CompiledBlock&, LaneTails&,
                                     std::vector<Latest>& ends);

}  // namespace orrery
