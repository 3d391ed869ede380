#include "exec/comm/slow_world.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace orrery {

class SlowWorld::End final : public Communicator {
 public:
  End(Communicator& end, const World& world, Bandwidth rate, const std::atomic<bool>& slow)
      : end_(end), world_(world), rate_(rate), slow_(slow) {}

  [[nodiscard]] Rank rank() const override { return end_.rank(); }
  std::int64_t exchange(std::span<const Message> messages, std::int64_t ready) override {
    const std::int64_t met = end_.exchange(messages, ready);
    if (!slow_.load(std::memory_order_relaxed)) return met;
    std::uint64_t sent = 0, received = 0;
    for (const Message& m : messages) {
      for (const Piece& piece : m.pieces) (m.send ? sent : received) += piece.bytes;
    }
    const Seconds time = Bytes::of(static_cast<double>(std::max(sent, received))) / rate_;
    sleep(time);
    return met;
  }
  std::optional<std::int64_t> library_collective(const Collective& c, const Members& members,
                                                 std::span<const MemoryView> views, std::int64_t ready) override {
    return end_.library_collective(c, members, views, ready);
  }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return end_.sent_bytes(); }

 private:
  /// In slices, so that a rank does not outlast the run: its next exchange tells that that is over.
  void sleep(Seconds time) const {
    constexpr double slice = 0.05;
    for (double left = time.base(); left > 0.0 && !world_.aborted(); left -= slice) {
      std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, slice)));
    }
  }

  Communicator& end_;
  const World& world_;
  Bandwidth rate_;
  const std::atomic<bool>& slow_;
};

Communicator& SlowWorld::communicator(Rank rank, std::uint32_t end) {
  const std::lock_guard lock(ends_mutex_);
  std::unique_ptr<Communicator>& found = ends_[{rank, end}];
  if (!found) found = std::make_unique<End>(world_.communicator(rank, end), world_, rate_, slow_);
  return *found;
}

}  // namespace orrery
