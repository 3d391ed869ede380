#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace orrery {

/// What a device's library is given to call on a host thread, by address: it ends with its call.
using HostCall = std::unique_ptr<std::function<void()>>;

[[nodiscard]] inline HostCall host_call(std::function<void()> work) {
  return std::make_unique<std::function<void()>>(std::move(work));
}
/// As such a library calls: the work is done and ends.
inline void run_host_call(void* call) {
  const HostCall mine(static_cast<std::function<void()>*>(call));
  (*mine)();
}

/// Who ends a stream's calls.  One that the device was given ends with its call; one that was only gathered for a
/// graph may never be called, and is the stream's until the graph is launched.  The graph is gathered anew for each
/// launch, so that none is called twice.
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
  /// What was gathered will be called.
  void launched() {
    for (HostCall& call : gathered_) static_cast<void>(call.release());
    dropped();
  }
  /// What was gathered will not be.
  void dropped() {
    gathered_.clear();
    gathers_ = false;
  }

 private:
  bool gathers_ = false;
  std::vector<HostCall> gathered_;
};

}  // namespace orrery
