#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/nccl_calls.hpp"

namespace orrery {

/// Called again and again while NCCL is waited for, with the name of the call that takes long; throws where the wait is
/// to end.
using NcclPatience = std::function<void(const char* what)>;

/// One rank's end of an NCCL communicator, which never blocks: unfinished work of NCCL is polled for, so that a peer
/// that is gone can be noticed meanwhile. Used by one thread.
///
/// All failures are Errors with NCCL's own words.
class NcclCommunicator {
 public:
  /// Joins all ranks, each calling it with the same id.
  NcclCommunicator(const NcclCalls&, const NcclCalls::Id&, int ranks, int rank, const NcclPatience&);
  /// Ends it, or aborts it where NCCL does not end within some seconds.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// The part of this communicator with one color, ordered by key; null for no_color. All ranks of this communicator
  /// call it.
  [[nodiscard]] std::unique_ptr<NcclCommunicator> split(int color, int key, const NcclPatience&);

  [[nodiscard]] NcclCalls::Communicator get() const { return handle_; }
  /// Returns when the last request has been given to the device.
  void settle(const NcclPatience&, const char* what) const;
  /// Throws where the communicator has failed since.
  void look() const;
  /// Ends at once the device's work for it; it must not be used afterwards.
  void abort();

  /// Throws Error unless the code is success, or in_progress.
  static void require(const NcclCalls&, int code, const char* what, NcclCalls::Communicator = nullptr);

 private:
  NcclCommunicator(const NcclCalls& calls, NcclCalls::Communicator handle) : calls_(calls), handle_(handle) {}
  const NcclCalls& calls_;
  NcclCalls::Communicator handle_ = nullptr;
  /// The places to which threads of NCCL write the handles of parts. They stay until this communicator ends, also where
  /// a split is given up.
  std::vector<std::unique_ptr<NcclCalls::Communicator>> split_;
};

/// All calls to NCCL between the beginning and `end` count as one: sends and receives that need each other are given to
/// the device together.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclCalls&);
  /// Ends the group where `end` was not reached.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  void end();

 private:
  const NcclCalls& calls_;
  bool open_ = true;
};

}  // namespace orrery
