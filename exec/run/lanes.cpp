#include "exec/run/lanes.hpp"

#include <chrono>
#include <utility>

#include "exec/comm/communicator.hpp"

namespace orrery {

Lanes::Lanes(std::uint32_t count, Hooks hooks) : hooks_(std::move(hooks)), queues_(count) {
  try {
    for (std::uint32_t lane = 0; lane < count; ++lane) {
      threads_.emplace_back([this, lane] { work(lane); });
    }
  } catch (...) {
    stop();
    for (std::thread& t : threads_) t.join();
    throw;
  }
}

Lanes::~Lanes() {
  stop();
  for (std::thread& t : threads_) t.join();
}

std::uint64_t Lanes::issue(std::uint32_t lane, IssuedOp op, std::vector<After> after) {
  wait_below(most_unfinished);
  Queue& queue = queues_[lane];
  {
    const std::lock_guard lock(mutex_);
    queue.ops.push_back({std::move(op), std::move(after)});
  }
  const std::uint64_t number = queue.issued.fetch_add(1, std::memory_order_acq_rel) + 1;
  tell(queue.one_issued);
  return number;
}

void Lanes::drain() { wait_below(1); }

void Lanes::wait_below(std::uint64_t limit) {
  issue_below_.store(limit, std::memory_order_relaxed);  // read by the thread that gets the mutex after this thread's
                                                         // look
  wait(fewer_unfinished_, [&] { return unfinished() < limit; });
  issue_below_.store(0, std::memory_order_relaxed);
}

std::uint64_t Lanes::unfinished() const {
  std::uint64_t n = 0;
  for (const Queue& q : queues_)
    n += q.issued.load(std::memory_order_acquire) - q.ended.load(std::memory_order_acquire);
  return n;
}

void Lanes::tell(std::condition_variable& change) {
  { const std::lock_guard lock(mutex_); }  // nobody is between its look and its sleep
  change.notify_all();
}

void Lanes::stop() {
  stopped_.store(true, std::memory_order_release);
  tell(fewer_unfinished_);
  for (Queue& q : queues_) {
    tell(q.one_issued);
    tell(q.one_ended);
  }
}

void Lanes::look() const {
  if (stopped_.load(std::memory_order_acquire)) {
    if (failure_) std::rethrow_exception(failure_);
    throw Aborted{};
  }
  if (hooks_.aborted()) throw Aborted{};
}

template <class Ready>
void Lanes::wait(std::condition_variable& change, Ready ready) {
  look();
  for (int i = 0; i < (hooks_.spin ? 2000 : 0); ++i) {
    if (ready()) return;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  std::unique_lock lock(mutex_);
  while (!ready()) {
    look();
    change.wait_for(lock, std::chrono::milliseconds(50));  // the run's end does not wake it
  }
}

void Lanes::work(std::uint32_t lane) {
  Queue& queue = queues_[lane];
  try {
    for (std::uint64_t number = 1;; ++number) {
      {
        const Queued next = take(queue, number);
        for (const After& after : next.after) {
          Queue& other = queues_[after.lane];
          wait(other.one_ended, [&] { return other.ended.load(std::memory_order_acquire) >= after.count; });
        }
        hooks_.carry_out(lane, next.op);
      }  // its memory is given back before it counts as ended
      queue.ended.store(number, std::memory_order_release);
      tell(queue.one_ended);
      if (unfinished() < issue_below_.load(std::memory_order_relaxed)) fewer_unfinished_.notify_one();
    }
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_.load(std::memory_order_relaxed)) {
        failure_ = std::current_exception();
        stopped_.store(true, std::memory_order_release);
      }
      queue.ops.clear();  // with the memory that they hold
    }
    stop();
  }
}

Lanes::Queued Lanes::take(Queue& queue, std::uint64_t number) {
  wait(queue.one_issued, [&] { return queue.issued.load(std::memory_order_acquire) >= number; });
  const std::lock_guard lock(mutex_);
  Queued next = std::move(queue.ops.front());
  queue.ops.pop_front();
  return next;
}

}  // namespace orrery
