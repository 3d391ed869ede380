#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/units.hpp"
#include "exec/comm/world.hpp"

namespace orrery {

/// Another world whose messages take as long as over links of a given rate, while it is set. Each rank sends and
/// receives at that rate, both at once. Messages are the same bytes; ranks only sleep.
class SlowWorld final : public World {
 public:
  SlowWorld(World& world, Bandwidth rate) : world_(world), rate_(rate) {}

  void set(bool slow) { slow_.store(slow, std::memory_order_relaxed); }

  [[nodiscard]] Communicator& communicator(Rank, std::uint32_t end = 0) override;
  void abort(const std::string& reason) override { world_.abort(reason); }
  [[nodiscard]] bool aborted() const override { return world_.aborted(); }
  [[nodiscard]] std::string reason() const override { return world_.reason(); }
  void look() override { world_.look(); }
  [[nodiscard]] bool crowded() const override { return world_.crowded(); }

 private:
  class End;
  World& world_;
  Bandwidth rate_;
  std::atomic<bool> slow_{false};
  std::mutex ends_mutex_;
  std::map<std::pair<Rank, std::uint32_t>, std::unique_ptr<Communicator>> ends_;
};

}  // namespace orrery
