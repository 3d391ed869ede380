#include "exec/comm/clock_offset.hpp"

#include <chrono>
#include <limits>

namespace orrery {
namespace {

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

std::int64_t measured_clock_offset(Communicator& control, const std::vector<bool>& shares_clock) {
  constexpr int trips = 32;
  constexpr std::uint64_t tag = std::uint64_t{0x7ffffffeU} << 32;
  // The value itself may travel as "ready". It is sent as bytes, so that each way is one message.
  const auto say = [&](Rank peer, bool send, std::int64_t& value) {
    const Piece piece{reinterpret_cast<std::byte*>(&value), sizeof value};
    const Message m{send, peer, tag, std::span(&piece, 1)};
    control.exchange(std::span(&m, 1), 0);
  };
  const Rank own = control.rank();
  std::int64_t offset = 0;
  for (std::uint32_t r = 1; r < shares_clock.size(); ++r) {
    if (shares_clock[r] || (own != Rank{0} && own != Rank{r})) continue;
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    for (int i = 0; i < trips; ++i) {
      std::int64_t value = 0;
      if (own == Rank{0}) {
        say(Rank{r}, false, value);
        value = steady_ns();
        say(Rank{r}, true, value);
        continue;
      }
      const std::int64_t asked = steady_ns();
      say(Rank{0}, true, value);
      say(Rank{0}, false, value);
      const std::int64_t answered = steady_ns();
      if (answered - asked >= best) continue;
      best = answered - asked;
      offset = value - (asked + best / 2);
    }
  }
  return offset;
}

}  // namespace orrery
