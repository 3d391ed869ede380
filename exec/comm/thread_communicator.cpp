#include "exec/comm/thread_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

using Clock = std::chrono::steady_clock;

/// Bytes of all pieces.
std::uint64_t bytes_of(std::span<const Piece> pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& p : pieces) bytes += p.bytes;
  return bytes;
}

/// Copies a message between two cuts of the same number of bytes.
void copy(std::span<const Piece> from, std::span<const Piece> to) {
  std::size_t f = 0;
  std::size_t t = 0;
  std::uint64_t f_at = 0;
  std::uint64_t t_at = 0;
  while (f < from.size() && t < to.size()) {
    const std::uint64_t n = std::min(from[f].bytes - f_at, to[t].bytes - t_at);
    if (n > 0) std::memcpy(to[t].data + t_at, from[f].data + f_at, n);
    f_at += n;
    t_at += n;
    if (f_at == from[f].bytes) {
      ++f;
      f_at = 0;
    }
    if (t_at == to[t].bytes) {
      ++t;
      t_at = 0;
    }
  }
}

/// A message that waits for its partner, as its inbox sees it.
struct Posted {
  const Message* message = nullptr;
  Rank sender{};
  std::int64_t ready = 0;
  std::int64_t partner_ready = 0;
  bool matched = false;  // guarded by the inbox's mutex
};

}  // namespace

/// Where messages to one rank meet its receives, in order of arrival.
struct ThreadWorld::Inbox {
  struct Entry {
    Posted* posted;
    Endpoint* owner;
  };
  std::mutex mutex;
  std::vector<Entry> waiting;
  std::atomic<bool> left{false};  ///< the rank sends and receives no more
};

/// One end of a rank: what one of its threads waits on.
class ThreadWorld::Endpoint final : public Communicator {
 public:
  Endpoint(ThreadWorld& world, Rank rank) : world_(world), rank_(rank) {}

  [[nodiscard]] Rank rank() const override { return rank_; }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return sent_; }

  std::int64_t exchange(std::span<const Message> messages, std::int64_t ready) override {
    if (messages.empty()) return ready;
    posted_.resize(messages.size());
    pending_.store(static_cast<std::uint32_t>(messages.size()), std::memory_order_relaxed);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      posted_[i] = {&messages[i], messages[i].send ? rank_ : messages[i].peer, ready, ready, false};
      if (messages[i].send) sent_ += bytes_of(messages[i].pieces);
    }
    for (Posted& p : posted_) post(p);
    wait();
    world_.last_met_.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    for (const Posted& p : posted_) ready = std::max(ready, p.partner_ready);
    return ready;
  }

  void wake() {
    const std::lock_guard lock(wait_mutex_);
    woken_.notify_all();
  }

 private:
  [[nodiscard]] Inbox& inbox_of(const Message& m) { return *world_.inboxes_[index(m.send ? m.peer : rank_)]; }

  void post(Posted& own) {
    const Message& m = *own.message;
    Inbox& inbox = inbox_of(m);
    Inbox::Entry partner{};
    {
      const std::lock_guard lock(inbox.mutex);
      const auto found = std::find_if(inbox.waiting.begin(), inbox.waiting.end(), [&](const Inbox::Entry& e) {
        const Message& other = *e.posted->message;
        return other.send != m.send && e.posted->sender == own.sender && other.tag == m.tag;
      });
      if (found == inbox.waiting.end()) {
        inbox.waiting.push_back({&own, this});
        return;
      }
      partner = *found;
      inbox.waiting.erase(found);
      partner.posted->matched = true;
      own.matched = true;
    }
    const Message& other = *partner.posted->message;
    ORRERY_ASSERT(bytes_of(m.pieces) == bytes_of(other.pieces), rank_, m.peer, bytes_of(m.pieces),
                  bytes_of(other.pieces));
    copy(m.send ? m.pieces : other.pieces, m.send ? other.pieces : m.pieces);
    own.partner_ready = partner.posted->ready;
    partner.posted->partner_ready = own.ready;
    partner.owner->finish_one();
    finish_one();
  }

  /// After this call the owner may be gone from its exchange, so only the endpoint may be touched.
  void finish_one() {
    if (pending_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake();
  }

  [[nodiscard]] bool done() const { return pending_.load(std::memory_order_acquire) == 0; }

  void wait() {
    // A partner that is about to come is met without the kernel's help. Where ranks outnumber cores, the wait lets
    // others run. Where they outnumber them many times, whoever runs next is hardly ever the partner.
    const int looks = world_.thronged_ ? 0 : world_.crowded() ? 50 : 2000;
    for (int i = 0; i < looks; ++i) {
      if (done()) return;
      if (world_.crowded()) {
        std::this_thread::yield();
      } else {
        pause();
      }
    }
    const auto longest =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(world_.options_.watchdog.base()));
    const auto posted = Clock::now();
    std::unique_lock lock(wait_mutex_);
    while (!done()) {
      if (world_.aborted()) {
        lock.unlock();
        withdraw();
        throw Aborted{};
      }
      lock.unlock();
      const Clock::time_point met{Clock::duration(world_.last_met_.load(std::memory_order_relaxed))};
      const auto limit = std::max(posted, met) + longest;
      give_up_if_hopeless(Clock::now() >= limit);
      lock.lock();
      if (done() || world_.aborted()) continue;
      // A copy may still be under way past the limit: look again from time to time, do not spin.
      const auto next_look = Clock::now() + std::chrono::milliseconds(100);
      woken_.wait_until(lock, limit > Clock::now() ? std::min(limit, next_look) : next_look);
    }
  }

  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  /// Ends the run when a partner has left or the wait has been too long.
  void give_up_if_hopeless(bool late) {
    for (Posted& p : posted_) {
      const Rank peer = p.message->peer;
      const bool gone = world_.inboxes_[index(peer)]->left.load(std::memory_order_acquire);
      if (!gone && !late) continue;
      {
        const std::lock_guard lock(inbox_of(*p.message).mutex);
        if (p.matched) continue;
      }
      world_.abort(gone ? ended_text(rank_, peer) : waited_text(rank_, peer, world_.options_.watchdog.base()));
      return;
    }
  }

  /// Takes back messages that nobody has met yet, and waits for copies under way. After this no other rank touches this
  /// rank's memory.
  void withdraw() {
    std::uint32_t taken = 0;
    for (Posted& p : posted_) {
      Inbox& inbox = inbox_of(*p.message);
      const std::lock_guard lock(inbox.mutex);
      taken += static_cast<std::uint32_t>(
          std::erase_if(inbox.waiting, [&](const Inbox::Entry& e) { return e.posted == &p; }));
    }
    while (pending_.load(std::memory_order_acquire) > taken) std::this_thread::yield();
  }

  ThreadWorld& world_;
  Rank rank_;
  std::vector<Posted> posted_;
  std::atomic<std::uint32_t> pending_{0};
  std::mutex wait_mutex_;
  std::condition_variable woken_;
  std::uint64_t sent_ = 0;
};

ThreadWorld::ThreadWorld(std::uint32_t ranks, Options options)
    : options_(std::move(options)),
      crowded_(std::uint64_t{ranks} * options_.ends > std::thread::hardware_concurrency()),
      thronged_(std::uint64_t{ranks} * options_.ends > 8 * std::uint64_t{std::thread::hardware_concurrency()}) {
  for (std::uint32_t r = 0; r < ranks; ++r) {
    inboxes_.push_back(std::make_unique<Inbox>());
    for (std::uint32_t e = 0; e < options_.ends; ++e) {
      endpoints_.push_back(std::make_unique<Endpoint>(*this, Rank{r}));
    }
  }
}

ThreadWorld::~ThreadWorld() = default;

Communicator& ThreadWorld::communicator(Rank rank, std::uint32_t end) {
  ORRERY_ASSERT(end < options_.ends, end, options_.ends);
  return *endpoints_[std::size_t{index(rank)} * options_.ends + end];
}

void ThreadWorld::abort(const std::string& reason) {
  {
    const std::lock_guard lock(reason_mutex_);
    if (aborted()) return;
    reason_ = reason;
    if (options_.describe) {
      for (std::uint32_t r = 0; r < inboxes_.size(); ++r) reason_ += "\n  " + options_.describe(Rank{r});
    }
    aborted_.store(true, std::memory_order_release);
  }
  for (const auto& endpoint : endpoints_) endpoint->wake();
}

void ThreadWorld::leave(Rank rank) {
  inboxes_[index(rank)]->left.store(true, std::memory_order_release);
  for (const auto& endpoint : endpoints_) endpoint->wake();
}

std::string ThreadWorld::reason() const {
  const std::lock_guard lock(reason_mutex_);
  return reason_;
}

}  // namespace orrery
