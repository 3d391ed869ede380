#pragma once

#include <cstdint>
#include <vector>

#include "sim/des/event_queue.hpp"

namespace orrery {

/// A communication whose partners are all ready: one message of an Exchange, or
/// one Collective.
struct Communication {
  std::uint32_t number = 0;   ///< whose it is; comes back when it ends
  Picoseconds alone = 0;      ///< duration with the links to itself
  std::uint32_t traffic = 0;  ///< number of its traffic over links; a network without shared links ignores it
};

/// Everything that moves between ranks, from start to end.
///
/// The simulator asks nothing else of the network, and asks for the next event anew after every start. So where links
/// are shared, a start may delay what is under way.
class Network {
 public:
  virtual ~Network() = default;
  virtual void start(Picoseconds now, const Communication&) = 0;
  [[nodiscard]] virtual bool idle() const = 0;
  /// Requires a network that is not idle.
  [[nodiscard]] virtual Picoseconds next_event() = 0;
  /// Goes to next_event() and appends the communications that end there, possibly none.
  virtual void advance(std::vector<std::uint32_t>& ended) = 0;
};

/// Every communication has its links to itself and takes its price.
class UnsharedNetwork final : public Network {
 public:
  void start(Picoseconds now, const Communication& c) override { ends_.push(now + c.alone, c.number); }
  [[nodiscard]] bool idle() const override { return ends_.empty(); }
  [[nodiscard]] Picoseconds next_event() override { return ends_.next_time(); }
  void advance(std::vector<std::uint32_t>& ended) override { ended.push_back(ends_.pop()); }

 private:
  EventQueue<std::uint32_t> ends_;
};

}  // namespace orrery
