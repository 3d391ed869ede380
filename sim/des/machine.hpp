#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/record/trace.hpp"
#include "sim/des/cores.hpp"
#include "sim/des/network.hpp"
#include "sim/des/rank_classes.hpp"
#include "sim/des/shared_network.hpp"
#include "sim/des/simulate.hpp"
#include "sim/des/step_list.hpp"

namespace orrery {

/// The state of a simulated step.
///
/// An actor is a rank that is simulated: one for each class of a partition of the ranks. Actors run the step list of
/// their Program class. An op starts when it heads its lane and the ops that it waits for have ended. A communication
/// moves when the ops of all its partners have come that far.
class Machine {
 public:
  /// `shared` holds the links that communications share; null: each has its own. Program, prices, partition and links
  /// outlive this object; where nodes are of several kinds, the partition parts their ranks (asserted).
  Machine(const Program&, const Prices&, const RankClasses&, const Perturbation&,
          const std::vector<std::uint32_t>& node_of_rank, SharedNetwork* shared = nullptr);

  /// Runs one step, from its begin to its end. Throws Error on a deadlock, SimulationCancelled when told to stop.
  void run(const SimulationProgress&);
  /// Takes out the trace of the last step, from its begin on.
  [[nodiscard]] Trace take_trace();
  [[nodiscard]] std::uint64_t events() const { return events_; }

  // The functions below are for callers that play several machines side by side, and move their network: begin() a
  // step, then take whichever event comes first, until none is left.

  /// Begins a step at `now`, with every op to be done.  `repetition` numbers steps for the noise.
  void begin(Picoseconds now, std::uint64_t repetition = 0);
  /// When a core or a copy ends next; INT64_MAX where none is at work.
  [[nodiscard]] Picoseconds next_own() const;
  /// Goes to next_own().
  void advance_own();
  /// A communication ends at `now`.
  void arrive(Picoseconds now, std::uint32_t number);
  [[nodiscard]] bool done() const { return left_ == 0; }
  [[nodiscard]] std::uint64_t ops_done() const { return total_ - left_; }
  [[nodiscard]] std::uint64_t ops() const { return total_; }  ///< timed ones of a step
  /// Says who waits for whom, for a machine that is not done and has nothing under way.
  [[nodiscard]] std::string describe_deadlock() const;

 private:
  enum class State : std::uint8_t { waiting, posted, done };
  struct Actor {
    Rank rank{};
    std::uint32_t rank_class = 0;
    std::uint32_t node = 0;
    std::uint32_t kind = 0;             ///< of its node
    double slowdown = 1.0;              ///< of its compute
    std::vector<std::uint32_t> head;    ///< of each lane: position in StepList::lanes
    std::vector<State> state;           ///< of each op
    std::vector<std::uint16_t> moving;  ///< exchange: messages that have not ended
    std::vector<Span> spans;
  };
  /// The ops that end with a running communication: one op of each member, or two ops.
  struct Running {
    std::uint32_t first_member = 0;  ///< into member_ops_
    std::uint32_t members = 0;
    std::uint32_t capacity = 0;
  };
  struct MemberOp {
    std::uint32_t actor;
    std::uint32_t op;
  };
  /// Ranks that meet in one group, and which of them have come to a collective.
  struct Meeting {
    std::vector<std::uint32_t> actors;  ///< ascending
    struct Open {
      std::uint32_t ordinal;
      std::vector<MemberOp> arrived;
    };
    std::vector<Open> open;
  };

  [[nodiscard]] const StepList& list(const Actor& a) const { return lists_[a.rank_class]; }
  /// Duration of an op on its actor's kind of node.
  [[nodiscard]] Picoseconds duration(const Actor& a, const StepOp& op) const {
    return a.kind == 0 ? op.duration : prices_.of_op(op.block, op.op_index, a.kind);
  }
  [[nodiscard]] std::uint32_t actor_of(Rank rank) const { return classes_.of_rank[index(rank)]; }
  void build_meetings();
  void try_lanes(std::uint32_t actor);
  [[nodiscard]] bool is_ready(const Actor&, const StepOp&) const;
  void begin_op(std::uint32_t actor, std::uint32_t op);
  void begin_exchange(std::uint32_t actor, std::uint32_t op);
  void begin_collective(std::uint32_t actor, std::uint32_t op);
  void start(const std::vector<MemberOp>& members, Picoseconds alone, std::uint32_t traffic);
  void note_starts(Cores&);
  void look_up(const SimulationProgress&) const;
  void end(std::uint32_t actor, std::uint32_t op);
  void end_communication(std::uint32_t number);
  [[nodiscard]] Picoseconds with_noise(Picoseconds, const Actor&, std::uint32_t op) const;
  [[nodiscard]] Picoseconds slowed(Picoseconds, const Actor&) const;

  // deadlock.cpp
  struct Blame {
    std::uint32_t actor;
    std::uint32_t op;
    bool exists = true;  ///< false: the actor never issues such an op
  };
  [[nodiscard]] Blame blame(const Blame&, std::string& why) const;
  [[nodiscard]] std::string name(const Blame&) const;

  const Program& program_;
  const Prices& prices_;
  const RankClasses& classes_;
  std::optional<Noise> noise_;
  std::vector<StepList> lists_;
  std::vector<Actor> actors_;
  std::vector<Meeting> meetings_;
  std::vector<std::uint32_t> meeting_of_;  ///< [actor][group]
  bool shares_cores_;
  std::vector<Cores> nodes_;
  UnsharedNetwork unshared_;
  SharedNetwork* shared_;
  Network& network_;  ///< one of the two
  std::vector<std::uint32_t> arrived_;
  EventQueue<MemberOp> copies_;
  std::vector<Running> running_;
  std::vector<MemberOp> member_ops_;
  std::vector<std::uint32_t> free_numbers_;
  Picoseconds begun_ = 0;  ///< the step
  Picoseconds now_ = 0;
  std::uint64_t repetition_ = 0;
  std::uint64_t left_ = 0;   ///< timed ops that have not ended
  std::uint64_t total_ = 0;  ///< timed ops
  std::uint64_t events_ = 0;
};

}  // namespace orrery
