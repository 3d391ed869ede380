#pragma once

#include <cstdint>
#include <map>
#include <numeric>
#include <thread>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "exec/device/device.hpp"
#include "exec/kernels/routing_counts.hpp"

namespace orrery {

/// What learned routing has chosen on a device, summed there, so that nothing waits for the host (KernelContext).
class RoutingThere {
 public:
  /// The sums of a layer in the device's memory, which a kernel that carries `room` rows will add to.
  [[nodiscard]] std::uint64_t* sums(Device& device, DeviceStream& stream, std::uint32_t layer, std::uint64_t experts,
                                    std::uint64_t room) {
    const auto [at, fresh] = layers_.try_emplace(layer);
    Layer& of = at->second;
    if (fresh) {
      of.here.assign(2 * experts, 0);
      of.there = device.allocate(of.here.size() * sizeof(std::uint64_t));
      if (of.there == nullptr) throw Error("no memory on the device for the counts of what tokens choose");
      stream.copy(of.there, of.here.data(), of.here.size() * sizeof(std::uint64_t));
    }
    of.room += room;
    return reinterpret_cast<std::uint64_t*>(of.there);
  }
  /// Requires that all work of the stream has ended; waits for copies of some numbers.
  [[nodiscard]] RoutingCounts read(Device& device, DeviceStream& stream, DeviceEvent& event) {
    RoutingCounts all;
    if (layers_.empty()) return all;
    for (auto& [layer, of] : layers_) stream.copy(of.here.data(), of.there, of.here.size() * sizeof(std::uint64_t));
    stream.record(event);
    while (!device.done(event)) std::this_thread::yield();
    for (const auto& [layer, of] : layers_) {
      const auto middle = of.here.begin() + static_cast<std::ptrdiff_t>(of.here.size() / 2);
      all[layer] = {{of.here.begin(), middle}, std::accumulate(middle, of.here.end(), std::uint64_t{0}), of.room};
    }
    return all;
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [layer, of] : layers_) sum += of.here.size() * sizeof(std::uint64_t);
    return sum;
  }
  void release(Device& device) {
    for (const auto& [layer, of] : layers_) device.release(of.there);
    layers_.clear();
  }

 private:
  struct Layer {
    std::byte* there = nullptr;
    std::vector<std::uint64_t> here;  ///< choices of each expert, then those kept
    std::uint64_t room = 0;
  };
  std::map<std::uint32_t, Layer> layers_;
};

}  // namespace orrery
