#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/operation.hpp"
#include "sim/cost/prices.hpp"

namespace orrery {

/// An op of a block, reduced to what its time depends on.
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

/// A message in the form in which one class issues it.
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
  bool saved = false;  ///< tail of a lane that the block has used before this wait: CompiledBlock::saved
};

/// When an op ended, and since when communication, and collectives, had gone on until then without a pause
/// (summarize.hpp). For compute both are its end; for an exchange the second is.
struct Ending {
  Picoseconds end;
  Picoseconds from;
  Picoseconds collective_from;

  /// Takes the later of both, and among equally late ones the longest communication.
  void wait(const Ending& other) {
    if (other.end > end) {
      *this = other;
    } else if (other.end == end) {
      from = other.from < from ? other.from : from;
      collective_from = other.collective_from < collective_from ? other.collective_from : collective_from;
    }
  }
  friend bool operator==(const Ending&, const Ending&) = default;
  void move(Picoseconds by) {
    end += by;
    from += by;
    collective_from += by;
  }
};

/// The last op on every lane of a rank.
using LaneTails = std::array<Ending, lane_count>;

/// Waiting of the compute lane.
struct Exposed {
  Picoseconds all = 0;          ///< for communication
  Picoseconds collectives = 0;  ///< for collectives: part of it

  /// Adds the gap [idle_from, cause.end].
  void add_gap(const Ending& cause, Picoseconds idle_from) {
    if (cause.end <= idle_from) return;
    all += cause.end - (cause.from > idle_from ? cause.from : idle_from);
    collectives += cause.end - (cause.collective_from > idle_from ? cause.collective_from : idle_from);
  }
  void add(const Exposed& other, Picoseconds times = 1) {
    all += other.all * times;
    collectives += other.collectives * times;
  }
};

inline constexpr std::size_t compute_lane = 0;
[[nodiscard]] constexpr bool is_transfer_lane(std::size_t lane) {
  return lane >= lane_number({LaneKind::transfer, 0}) && lane < lane_number({LaneKind::copy, 0});
}

/// A block ready to be walked many times.
///
/// A block is local when no rank outside its class takes part. The outcome of a local block depends on the ends of the
/// few lanes it uses or waits for, relative to the compute lane. Only ends beyond `free_until` matter: an earlier end
/// delays nothing in the block. So outcomes are kept by those relative ends.
struct CompiledBlock {
  static constexpr std::size_t max_watched = 8;
  static constexpr std::size_t max_outcomes = 8;
  static constexpr Picoseconds never = INT64_MIN / 4;  ///< a lane end that delays nothing
  static constexpr Ending free{never, never, never};

  struct Outcome {
    std::array<Ending, max_watched> entry{};  ///< relative to the compute lane's end, or free
    std::array<Ending, max_watched> exit{};   ///< of the watched lanes that the block uses
    Picoseconds compute = 0;                  ///< how far the compute lane's end moves
    Exposed exposed;
    /// The result when the block runs again right after this outcome and comes out alike: that run, its gate included.
    /// The state after a run follows from its outcome alone, so then every further run is like it.
    bool steady = false;
    Picoseconds steady_move = 0;
    Exposed steady_exposed;
  };
  struct Sum {
    Operation operation{};
    Picoseconds time = 0;
    std::uint64_t count = 0;
  };

  bool compiled = false;
  bool local = false;
  bool keeps_outcomes = false;  ///< few enough watched lanes, enough ops
  std::uint8_t watched_count = 0;
  std::uint8_t gate_count = 0;
  std::uint8_t outcome_count = 0;
  std::uint8_t next_outcome = 0;
  std::uint8_t last_outcome = 0;                    ///< looked at first
  std::array<std::uint8_t, max_watched> watched{};  ///< lanes other than compute
  std::array<bool, max_watched> used{};             ///< by an op of the block
  std::array<Picoseconds, max_watched> free_until{};
  /// Lanes whose tails everything in the block waits for. The first op waits for them, and it is a compute op, or a
  /// collective on `gate_lane` with the first compute op behind it.
  std::array<std::uint8_t, lane_count> gate{};
  std::uint8_t gate_lane = 0;
  /// Lanes for which an op waits for the tail at the block's start although another op has gone on that lane before.
  std::array<std::uint8_t, lane_count> saved{};
  std::uint8_t saved_count = 0;

  std::uint32_t first_op = 0;  ///< in CompiledProgram::ops
  std::uint32_t op_count = 0;
  Picoseconds busy = 0;           ///< compute lane
  Picoseconds all = 0;            ///< time of every lane together: the time on a serial device, local blocks only
  Picoseconds communication = 0;  ///< collectives (and copies) of a local block
  std::uint64_t sent_bytes = 0;   ///< bytes from all ranks of one class, for collectives inside the class
  std::uint32_t first_sum = 0;    ///< in CompiledProgram::sums: all but Exchanges
  std::uint32_t sum_count = 0;
  std::array<Outcome, max_outcomes> outcomes;
};

/// Blocks of a Program with prices, and the groups in which classes meet. Where nodes are of several kinds, blocks are
/// compiled for each kind that a class is on.
struct CompiledProgram {
  const Program* program = nullptr;
  const Prices* prices = nullptr;
  std::uint64_t ranks_per_class = 1;
  std::vector<std::uint32_t> kind_of_class;  ///< of the nodes that each class is on
  std::vector<CompiledBlock> blocks;         ///< [kind][block]
  std::vector<TimedOp> ops;
  std::vector<TimedWait> waits;
  std::vector<CompiledBlock::Sum> sums;
  std::uint32_t longest = 0;         ///< most timed ops in one block
  std::uint32_t receives_ahead = 0;  ///< most that a slot passes over

  std::vector<bool> group_local;                          ///< by group: every instance lies inside one class
  std::vector<TimedTransfer> transfers;                   ///< [class][transfer of any block]
  std::vector<std::vector<std::uint32_t>> group_classes;  ///< [group * classes + class]: who meets there, ascending

  /// Keeps its storage; program and prices must outlive it. Without kinds all classes are on kind 0.
  void compile(const Program&, const Prices&, std::vector<std::uint32_t> kind_of_class = {});
  /// Index in `blocks` of a block as a class runs it.
  [[nodiscard]] std::size_t place_of(std::uint32_t rank_class, BlockId id) const {
    return std::size_t{kind_of_class[rank_class]} * program->blocks.size() + index(id);
  }

 private:
  void compile_groups();
  void compile_meetings(std::uint32_t group);
  void compile_block(std::uint32_t rank_class, BlockId);
  void compile_transfers(std::uint32_t rank_class, BlockId);
  void find_gate(CompiledBlock&);
  void watch_lanes(CompiledBlock&);
  std::vector<std::uint32_t> timed_position_;  // by position in the block being compiled
  std::vector<Picoseconds> ends_;
};

/// Walks the ops of a local block once.  `ends` has room for the block's ops.
[[nodiscard]] Exposed walk_local(const CompiledProgram&, const CompiledBlock&, LaneTails&, std::vector<Ending>& ends);

}  // namespace orrery
