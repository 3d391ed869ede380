#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/estimate/compiled_program.hpp"

namespace orrery {

/// The times on which one class of ranks spends its step.
struct ClassTimes {
  Picoseconds end = 0;       ///< of its last op
  Picoseconds busy = 0;      ///< compute lane
  Exposed exposed;           ///< compute lane waiting, see summarize.hpp
  Picoseconds exchange = 0;  ///< transfer lanes busy
  std::uint64_t exchanges = 0;
};

/// Times of a step of every class, where classes meet in collectives and messages.
///
/// Each class is walked through its list until an op that needs another class; both go on from there when the other has
/// come to the matching op. This order of evaluation is the rendezvous order in which a verified Program cannot
/// deadlock; the times are those of the lanes, not of this order.
class Walk {
 public:
  /// Walks the step of `compiled`. Keeps its storage between calls. Throws Error when classes wait for each other
  /// forever.
  void run(CompiledProgram& compiled);

  [[nodiscard]] const std::vector<ClassTimes>& classes() const { return times_; }
  [[nodiscard]] Picoseconds step_time() const;
  /// Bytes sent by all ranks of all classes.
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_; }
  /// Runs of each of CompiledProgram::blocks, summed over classes.
  [[nodiscard]] const std::vector<std::uint64_t>& block_runs() const { return runs_; }

 private:
  enum class Pending : std::uint8_t { none, exchange, collective };
  struct Class {
    LaneTails lanes{};
    std::uint32_t slot = 0;
    std::uint32_t run = 0;  ///< of the slot's repeats
    std::uint32_t op = 0;   ///< timed position in a block that meets other classes
    Pending pending = Pending::none;
    const TimedOp* at = nullptr;               ///< the op that is pending
    Ending ready{};                            ///< what it waited for longest
    Picoseconds began = 0;                     ///< exchange: first message
    Picoseconds ended = 0;                     ///< exchange: last message so far
    std::uint32_t group = 0;                   ///< collective
    const TimedTransfer* transfers = nullptr;  ///< exchange
    std::uint32_t transfer_count = 0;
    std::uint32_t open = 0;    ///< bit i: message i has not met its partner
    LaneTails entry{};         ///< lanes at the start of the block's current run, for its saved lanes
    std::vector<Ending> ends;  ///< of its ops
    /// The last ends of the two receive lanes, and how many there were; none are kept where no slot asks for them.
    std::array<std::vector<Ending>, 2> received;
    std::array<std::uint64_t, 2> receives{};
    std::array<Ending, 2> tails{};  ///< tails of the receive lanes while a slot passes over some receives
  };

  void advance(std::uint32_t c);
  static void pass_over(Class&, std::uint32_t receives);
  static void come_back(Class&);
  void run_local(Class&, ClassTimes&, CompiledBlock&, std::uint32_t repeat);
  Exposed run_once(LaneTails&, CompiledBlock&, CompiledBlock::Outcome*& outcome);
  bool post_exchange(std::uint32_t c, const TimedOp&);
  bool post_collective(std::uint32_t c, const TimedOp&);
  void finish_meeting(std::uint32_t c, Picoseconds start, Picoseconds end);
  [[nodiscard]] BlockId block_of(std::uint32_t c) const;
  [[noreturn]] void stuck() const;

  CompiledProgram* compiled_ = nullptr;
  bool serial_ = false;
  std::vector<Class> classes_;
  std::vector<ClassTimes> times_;
  std::vector<std::uint32_t> runnable_;
  std::vector<std::uint64_t> runs_;
  std::vector<Ending> ends_;
  std::uint64_t sent_ = 0;
};

}  // namespace orrery
