#include "exec/comm/nccl_communicator.hpp"

#include <chrono>
#include <thread>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

/// Longest end of a communicator while a peer may be gone.
constexpr std::chrono::seconds longest_end{5};

/// Most waits are shorter than a thread's sleep; in longer waits others need the core.
class Pause {
 public:
  void operator()() {
    if (++looks_ < 200) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  int looks_ = 0;
};

}  // namespace

void NcclCommunicator::require(const NcclCalls& calls, int code, const char* what, NcclCalls::Communicator on) {
  if (code == NcclCalls::success || code == NcclCalls::in_progress) return;
  std::string text = std::string("NCCL cannot ") + what + ": " + calls.error_string(code);
  const char* const last = calls.last_error(on);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  throw Error(text);
}

NcclCommunicator::NcclCommunicator(const NcclCalls& calls, const NcclCalls::Id& id, int ranks, int rank,
                                   const NcclPatience& patience)
    : calls_(calls) {
  NcclCalls::Config config;
  const int code = calls.init_rank(&handle_, ranks, id, rank, &config);
  try {
    require(calls, code, "connect the ranks");
    settle(patience, "connect the ranks");
  } catch (...) {
    abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (handle_ == nullptr) return;
  int state = calls_.finalize(handle_);
  const auto until = std::chrono::steady_clock::now() + longest_end;
  Pause pause;
  while (state == NcclCalls::in_progress && std::chrono::steady_clock::now() < until) {
    pause();
    if (calls_.async_error(handle_, &state) != NcclCalls::success) break;
  }
  if (state == NcclCalls::success) {
    calls_.destroy(handle_);
  } else {
    abort();
  }
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::split(int color, int key, const NcclPatience& patience) {
  NcclCalls::Config config;
  NcclCalls::Communicator& handle = *split_.emplace_back(std::make_unique<NcclCalls::Communicator>(nullptr));
  require(calls_, calls_.split(handle_, color, key, &handle, &config), "form a group of ranks", handle_);
  settle(patience, "form a group of ranks");
  if (color < 0) return nullptr;
  // A thread of NCCL writes the handle.
  Pause pause;
  for (volatile NcclCalls::Communicator* given = &handle; *given == nullptr; pause()) {
    look();
    patience("form a group of ranks");
  }
  // The constructor is private.
  std::unique_ptr<NcclCommunicator> part(new NcclCommunicator(calls_, handle));
  part->settle(patience, "form a group of ranks");
  return part;
}

void NcclCommunicator::settle(const NcclPatience& patience, const char* what) const {
  Pause pause;
  for (;;) {
    int state = NcclCalls::success;
    require(calls_, calls_.async_error(handle_, &state), "say how it is", handle_);
    if (state == NcclCalls::success) return;
    patience(what);  // before the error is reported, which may come from a partner that is gone
    require(calls_, state, what, handle_);
    pause();
  }
}

void NcclCommunicator::look() const {
  int state = NcclCalls::success;
  require(calls_, calls_.async_error(handle_, &state), "say how it is", handle_);
  require(calls_, state, "go on", handle_);
}

void NcclCommunicator::abort() {
  if (handle_ != nullptr) calls_.abort(handle_);
  handle_ = nullptr;
}

NcclGroup::NcclGroup(const NcclCalls& calls) : calls_(calls) {
  NcclCommunicator::require(calls, calls.group_start(), "begin a group of calls");
}

NcclGroup::~NcclGroup() {
  if (open_) calls_.group_end();
}

void NcclGroup::end() {
  open_ = false;
  NcclCommunicator::require(calls_, calls_.group_end(), "carry out a group of calls");
}

}  // namespace orrery
