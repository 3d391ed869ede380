#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/nccl_calls.hpp"

namespace orrery {

/// Asked again and again while NCCL is waited for, with what it is that takes
/// long; throws where the wait is to end.
using NcclPatience = std::function<void(const char* what)>;

/// One rank's end of an NCCL communicator, which never blocks: what NCCL has not
/// ended is polled for, so that a peer that is gone can be noticed meanwhile.
/// Used by one thread.
///
/// All failures are Errors with NCCL's own words.
class NcclCommunicator {
 public:
  /// Of all ranks, each calling it with the same id.
  NcclCommunicator(const NcclCalls&, const NcclCalls::Id&, int ranks, int rank, const NcclPatience&);
  /// Ends it, or aborts it where NCCL does not within some seconds.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// The part of one color, ordered by key; null for no_color.  All ranks of this one call it.
  [[nodiscard]] std::unique_ptr<NcclCommunicator> split(int color, int key, const NcclPatience&);

  [[nodiscard]] NcclCalls::Communicator get() const { return handle_; }
  /// Until what was asked of it last has been given to the device.
  void settle(const NcclPatience&, const char* what) const;
  /// Throws where it has failed since.
  void look() const;
  /// Ends at once what the device does for it; nothing else may be asked of it then.
  void abort();

  /// Throws Error unless the code is success, or in_progress.
  static void require(const NcclCalls&, int code, const char* what, NcclCalls::Communicator = nullptr);

 private:
  NcclCommunicator(const NcclCalls& calls, NcclCalls::Communicator handle) : calls_(calls), handle_(handle) {}
  const NcclCalls& calls_;
  NcclCalls::Communicator handle_ = nullptr;
  /// What threads of NCCL write the handles of parts to: there until this one is ended, also where a split is given up.
  std::vector<std::unique_ptr<NcclCalls::Communicator>> split_;
};

/// What is asked of NCCL between the beginning and `end` is one: sends and
/// receives that need each other are given to the device together.
class NcclGroup {
 public:
  explicit NcclGroup(const NcclCalls&);
  /// Where `end` was not reached.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  void end();

 private:
  const NcclCalls& calls_;
  bool open_ = true;
};

}  // namespace orrery
