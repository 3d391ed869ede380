#pragma once

#include <cstdint>
#include <vector>

#include "core/program/lower/schedule.hpp"
#include "sim/bound/pipeline_bound.hpp"
#include "sim/bound/stage_memory.hpp"

namespace orrery {

/// In which order each rank's receives are posted: by rank, of activations and then of gradients, as
/// `stage * microbatches + microbatch` of the pass that each is for.
using ReceiveOrders = std::vector<std::vector<std::uint32_t>>;
[[nodiscard]] ReceiveOrders receive_orders(const lowering::Orders&, const StageMap&, std::uint32_t microbatches);

/// When each pipeline rank ends its last pass, at least, for any schedule: every rank runs its passes in the
/// schedule's order.
///
///     end(pass) = max(end(pass before on the rank) + what lies between + pass, arrival + pass)
///     arrival   = max(end(sender's pass), arrival of what the sender sent before, arrival of what the receiver
///                 received before) + message, for activations and gradients apart
///
/// Requires lanes that run beside each other.  Keeps its storage: one for each thread.
class PassWalk {
 public:
  [[nodiscard]] const std::vector<Picoseconds>& ends(const lowering::Orders&, const ReceiveOrders&, const StageMap&,
                                                     const std::vector<StageTimes>&, std::uint32_t microbatches);

 private:
  /// Passes of one kind on one stage and pipe.
  struct Way {
    Picoseconds time = 0;
    Picoseconds between = 0;  ///< what lies between one that has begun and the next
    Picoseconds message = 0;  ///< to where it goes next
    std::uint32_t stage = 0;
    std::uint32_t to = 0;  ///< stage where it goes next
    std::uint32_t to_rank = 0;
    bool ends = false;  ///< it goes nowhere
    bool begun = false;
  };
  struct Message {
    std::uint32_t pass = 0;  ///< that it is for
    std::uint32_t to_rank = 0;
    Picoseconds ready = 0;
    Picoseconds time = 0;
  };
  /// A rank's lanes for messages of one kind.
  struct Lanes {
    std::vector<Message> waiting;        ///< to be sent, from number `sent` on
    std::size_t sent = 0, received = 0;  ///< so many
    Picoseconds sent_at = 0, received_at = 0;
  };
  /// Sends the message if it is the next that its receiver takes.
  bool meets(const ReceiveOrders&, Lanes& from, std::size_t kind, const Message&);
  /// Sends what can be sent; whether anything could.
  bool send_waiting(const ReceiveOrders&, Lanes& from, std::size_t kind);

  std::vector<Picoseconds> now_;
  std::vector<Picoseconds>
      come_[2];               ///< when the input of a forward pass, or the gradient for a backward one, has come
  std::vector<Lanes> lanes_;  ///< by rank and kind
  std::vector<Way> ways_;     ///< by rank, chunk, and kind
  std::vector<Picoseconds> weight_;
  std::vector<std::size_t> at_;
};

/// The most bytes that the passes of a rank hold at once above `held`, in that order: a lower bound on the rank's
/// peak where messages are received early, else what it is.  `chunks` are the rank's.
[[nodiscard]] std::uint64_t walked_peak(const std::vector<lowering::Action>& order,
                                        const std::vector<PassMemory>& chunks, std::uint64_t held);

}  // namespace orrery
