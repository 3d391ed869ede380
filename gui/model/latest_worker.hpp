#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace orrery::gui {

/// A thread that does the newest request. A newer request replaces one that waits, and the one being done is told so
/// through `outdated`, which it may look at. submit() never blocks for longer than a copy. The destructor tells the
/// running work to stop and waits for it; `work` must not throw.
template <class Request>
class LatestWorker {
 public:
  using Work = std::function<void(const Request&, const std::atomic<bool>& outdated)>;

  explicit LatestWorker(Work work) : work_(std::move(work)), thread_([this] { loop(); }) {}
  ~LatestWorker() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      outdated_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  LatestWorker(const LatestWorker&) = delete;
  LatestWorker& operator=(const LatestWorker&) = delete;

  void submit(Request request) {
    {
      const std::lock_guard lock(mutex_);
      waiting_ = std::move(request);
      outdated_ = true;
    }
    wake_.notify_one();
  }
  /// Stops the running work and drops the waiting request.
  void cancel() {
    const std::lock_guard lock(mutex_);
    waiting_.reset();
    outdated_ = true;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return ending_ || waiting_; });
      if (ending_) return;
      const Request request = std::move(*waiting_);
      waiting_.reset();
      outdated_ = false;
      lock.unlock();
      work_(request, outdated_);
      lock.lock();
    }
  }

  Work work_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<Request> waiting_;
  std::atomic<bool> outdated_{false};
  bool ending_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace orrery::gui
