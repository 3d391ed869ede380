#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace orrery {

/// A function that a device's library calls on a host thread, by address; it is freed with its call.
using HostCall = std::unique_ptr<std::function<void()>>;

[[nodiscard]] inline HostCall host_call(std::function<void()> work) {
  return std::make_unique<std::function<void()>>(std::move(work));
}
/// The function that such a library calls: it does the work and frees it.
inline void run_host_call(void* call) {
  const HostCall mine(static_cast<std::function<void()>*>(call));
  (*mine)();
}

/// Owns the calls of a stream. A call that the device was given frees itself. One that was only gathered for a graph
/// may never be called, and belongs to the stream until the graph is launched. The graph is gathered anew for each
/// launch, so no call is made twice.
class HostCalls {
 public:
  void gather() { gathers_ = true; }
  /// The library has it now.
  void given(HostCall call) {
    if (gathers_) {
      gathered_.push_back(std::move(call));
    } else {
      static_cast<void>(call.release());
    }
  }
  /// The gathered calls will be made.
  void launched() {
    for (HostCall& call : gathered_) static_cast<void>(call.release());
    dropped();
  }
  /// The gathered calls will not be made.
  void dropped() {
    gathered_.clear();
    gathers_ = false;
  }

 private:
  bool gathers_ = false;
  std::vector<HostCall> gathered_;
};

}  // namespace orrery
