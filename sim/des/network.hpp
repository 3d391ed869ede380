#pragma once

#include <cstdint>

#include "sim/des/event_queue.hpp"

namespace orrery {

/// A communication whose partners are all ready: one message of an Exchange, or
/// one Collective.
struct Communication {
  std::uint32_t number = 0;  ///< whose it is; comes back when it ends
  Picoseconds alone = 0;     ///< duration with the links to itself
};

/// What moves between ranks, from start to end.
///
/// The simulator asks nothing else of the network, and asks for the next end
/// anew after every start: so a network whose links are shared, where a start
/// delays what is under way, fits the same three questions.  Here every
/// communication has its links to itself and takes its price.
class Network {
 public:
  void start(Picoseconds now, const Communication& c) { ends_.push(now + c.alone, c.number); }
  [[nodiscard]] bool idle() const { return ends_.empty(); }
  /// Requires a network that is not idle.
  [[nodiscard]] Picoseconds next_end() const { return ends_.next_time(); }
  /// The communication that ends at next_end().
  std::uint32_t finish() { return ends_.pop(); }

 private:
  EventQueue<std::uint32_t> ends_;
};

}  // namespace orrery
