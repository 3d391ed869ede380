#include "exec/comm/socket_communicator.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <list>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/comm/clock_offset.hpp"

namespace orrery {
namespace {

/// Stands before the bytes of a message, and alone as acknowledgement.
struct Header {
  std::uint64_t tag = 0;
  std::uint64_t bytes = 0;
  std::int64_t ready = 0;
  std::uint64_t acknowledges = 0;
};

std::uint64_t bytes_of(std::span<const Piece> pieces) {
  std::uint64_t bytes = 0;
  for (const Piece& p : pieces) bytes += p.bytes;
  return bytes;
}

/// A place in the bytes of a message.
struct Cursor {
  std::span<const Piece> pieces;
  std::size_t piece = 0;
  std::uint64_t at = 0;

  void advance(std::uint64_t bytes) {
    at += bytes;
    while (piece < pieces.size() && at >= pieces[piece].bytes) at -= pieces[piece++].bytes;
  }
  /// Fills `iov` from the place on; returns the number of entries.
  std::size_t fill(std::span<iovec> iov) const {
    std::size_t n = 0;
    std::uint64_t skipped = at;
    for (std::size_t i = piece; i < pieces.size() && n < iov.size(); ++i) {
      if (pieces[i].bytes > skipped) iov[n++] = {pieces[i].data + skipped, pieces[i].bytes - skipped};
      skipped = 0;
    }
    return n;
  }
};

/// No message is larger than the memory of the host that takes it.
std::uint64_t most_early_bytes() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
}

std::string wrong_size(std::uint64_t sent, std::uint64_t right) {
  return fmt::format("sends {} bytes where {} are expected", sent, right);
}

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Socket::~Socket() {
  if (number_ >= 0) close(number_);
}

void raise_socket_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

std::vector<std::vector<Socket>> connected_sockets(std::uint32_t ranks) {
  raise_socket_limit();
  std::vector<std::vector<Socket>> rows(ranks);
  for (auto& row : rows) row.resize(ranks);
  for (std::uint32_t a = 0; a < ranks; ++a) {
    for (std::uint32_t b = a + 1; b < ranks; ++b) {
      int pair[2];
      if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        throw Error("cannot connect " + std::to_string(ranks) + " processes with each other: " + std::strerror(errno) +
                    " after " + std::to_string(a * ranks + b) + " sockets");
      }
      rows[a][b] = Socket(pair[0]);
      rows[b][a] = Socket(pair[1]);
    }
  }
  return rows;
}

/// A message of an exchange under way.
struct SocketWorld::Posted {
  const Message* message = nullptr;
  std::int64_t ready = 0;
  std::int64_t partner_ready = 0;
  bool done = false;
  Endpoint* owner = nullptr;
};

struct SocketWorld::Peer {
  struct Out {
    Header header;
    std::uint64_t header_sent = 0;
    Cursor rest;
  };
  /// A message that came before its receive.
  struct Early {
    Header header;
    std::vector<std::byte> bytes;
    Piece whole;
    bool complete = false;
    Posted* claimed_by = nullptr;
  };
  Socket socket;
  bool closed = false;
  std::deque<Out> out;
  Header in;
  std::uint64_t in_got = 0;   ///< bytes of the header
  std::uint64_t in_left = 0;  ///< bytes of the message
  Cursor into;
  Posted* in_posted = nullptr;  ///< the message's receive; null where it is the last early one
  Early* in_early = nullptr;
  std::list<Posted*> sends, receives;  ///< not yet acknowledged; not yet met
  std::list<Early> early;
};

/// One thread's end.
class SocketWorld::Endpoint final : public Communicator {
 public:
  Endpoint(SocketWorld& world, bool patient) : world_(world), patient_(patient) {}

  [[nodiscard]] Rank rank() const override { return world_.rank_; }
  [[nodiscard]] std::uint64_t sent_bytes() const override { return sent_; }

  std::int64_t exchange(std::span<const Message> messages, std::int64_t ready) override {
    if (messages.empty()) return ready;
    std::unique_lock lock(world_.mutex_);
    if (world_.aborted()) throw Aborted{};
    posted_.clear();
    for (const Message& m : messages) {
      posted_.push_back({&m, ready, ready, false, this});
      if (m.send) sent_ += bytes_of(m.pieces);
    }
    pending = posted_.size();
    for (Posted& p : posted_) world_.post(p);
    wait(lock);
    for (const Posted& p : posted_) ready = std::max(ready, p.partner_ready);
    return ready;
  }

  std::size_t pending = 0;  ///< messages not done; guarded by the world's mutex

 private:
  void wait(std::unique_lock<std::mutex>& lock) {
    // The thread that moves data moves it for all threads of the rank, so a wait in the kernel is short where there are
    // others.
    const int longest_sleep_ms = world_.options_.ends > 1 ? 1 : 20;
    const int looks = world_.options_.crowded ? 2 : 200;
    const std::int64_t began = steady_ns();
    bool told = false;
    for (int look = 0; pending > 0; ++look) {
      if (world_.aborted()) throw Aborted{};
      world_.move_data(look < looks ? 0 : longest_sleep_ms, lock);
      if (pending == 0 || look < looks) continue;
      const Posted& open = *std::find_if(posted_.begin(), posted_.end(), [](const Posted& p) { return !p.done; });
      if (!told && world_.options_.waiting) world_.options_.waiting(open.message->peer);
      told = true;
      give_up_if_hopeless(began, lock);
    }
    if (told && world_.options_.waiting) world_.options_.waiting(std::nullopt);
  }

  void give_up_if_hopeless(std::int64_t began, std::unique_lock<std::mutex>& lock) {
    const double limit = world_.options_.watchdog.base();
    const std::int64_t met = world_.options_.last_end ? world_.options_.last_end() : 0;
    const bool late = !patient_ && static_cast<double>(steady_ns() - std::max(began, met)) * 1e-9 >= limit;
    for (const Posted& p : posted_) {
      const bool gone = world_.peers_[index(p.message->peer)]->closed;
      if (p.done || (!gone && !late)) continue;
      lock.unlock();
      world_.abort(gone ? ended_text(rank(), p.message->peer) : waited_text(rank(), p.message->peer, limit));
      throw Aborted{};
    }
  }

  SocketWorld& world_;
  bool patient_;
  std::vector<Posted> posted_;
  std::uint64_t sent_ = 0;
};

SocketWorld::SocketWorld(Rank rank, std::vector<Socket> peers, WaitOptions options)
    : rank_(rank), options_(std::move(options)) {
  for (Socket& s : peers) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->closed = s.number() < 0;
    peers_.back()->socket = std::move(s);
  }
  for (std::uint32_t e = 0; e <= options_.ends; ++e) {
    endpoints_.push_back(std::make_unique<Endpoint>(*this, e == options_.ends));
  }
}

SocketWorld::~SocketWorld() {
  std::unique_lock lock(mutex_);
  const auto left = [](const auto& p) { return !p->closed && !p->out.empty(); };
  while (!aborted() && std::any_of(peers_.begin(), peers_.end(), left)) move_data(10, lock);
}

Communicator& SocketWorld::communicator(Rank rank, std::uint32_t end) {
  ORRERY_ASSERT(rank == rank_ && end < options_.ends, rank, rank_, end, options_.ends);
  return *endpoints_[end];
}

Communicator& SocketWorld::control() { return *endpoints_.back(); }

void SocketWorld::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (aborted()) return;
  reason_ = reason;
  aborted_.store(true, std::memory_order_release);
}

std::string SocketWorld::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void SocketWorld::find_clock_offset(const std::vector<std::uint64_t>& hosts) {
  std::vector<bool> shares_clock;
  for (const std::uint64_t host : hosts) shares_clock.push_back(host == hosts[0]);
  clock_offset_ = measured_clock_offset(control(), shares_clock);
}

void SocketWorld::look() {
  std::unique_lock lock(mutex_);
  if (aborted()) return;
  move_data(0, lock);
  for (std::uint32_t r = 0; r < ranks() && !aborted(); ++r) {
    if (r == index(rank_) || !peers_[r]->closed) continue;
    reason_ = ended_text(rank_, Rank{r});
    aborted_.store(true, std::memory_order_release);
  }
}

void SocketWorld::finish(Posted& p) {
  p.done = true;
  --p.owner->pending;
}

void SocketWorld::acknowledge(Peer& peer, const Posted& p) {
  peer.out.push_back({{p.message->tag, 0, p.ready, 1}, 0, {}});
  write_to(peer);
}

void SocketWorld::post(Posted& own) {
  const Message& m = *own.message;
  Peer& peer = *peers_[index(m.peer)];
  if (m.send) {
    peer.sends.push_back(&own);
    peer.out.push_back({{m.tag, bytes_of(m.pieces), own.ready, 0}, 0, {m.pieces}});
    peer.out.back().rest.advance(0);
    write_to(peer);
    return;
  }
  const auto here = std::find_if(peer.early.begin(), peer.early.end(), [&](const Peer::Early& e) {
    return e.header.tag == m.tag && e.claimed_by == nullptr;
  });
  if (here == peer.early.end()) {
    peer.receives.push_back(&own);
    return;
  }
  here->claimed_by = &own;
  if (here->complete) end_frame(peer);
}

/// Moves the data that can be moved, after waiting for some for at most the given time.
void SocketWorld::move_data(int timeout_ms, std::unique_lock<std::mutex>& lock) {
  std::vector<pollfd> polled;
  std::vector<Peer*> owners;
  for (const auto& p : peers_) {
    if (p->closed) continue;
    polled.push_back({p->socket.number(), static_cast<short>(p->out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    owners.push_back(p.get());
  }
  lock.unlock();
  if (timeout_ms == 0 && options_.crowded) std::this_thread::yield();
  const int ready = poll(polled.data(), polled.size(), timeout_ms);
  if (polled.empty() && timeout_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  lock.lock();
  if (aborted()) return;  // whoever waited is gone, and its memory with it
  for (std::size_t i = 0; ready > 0 && i < polled.size(); ++i) {
    if ((polled[i].revents & POLLOUT) != 0) write_to(*owners[i]);
    if ((polled[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_from(*owners[i]);
  }
}

void SocketWorld::write_to(Peer& peer) {
  while (!peer.closed && !peer.out.empty()) {
    Peer::Out& out = peer.out.front();
    std::array<iovec, 64> iov;
    std::size_t n = 0;
    if (out.header_sent < sizeof(Header)) {
      iov[n++] = {reinterpret_cast<std::byte*>(&out.header) + out.header_sent, sizeof(Header) - out.header_sent};
    }
    n += out.rest.fill(std::span(iov).subspan(n));
    if (n > 0) {
      msghdr message{};
      message.msg_iov = iov.data();
      message.msg_iovlen = n;
      const ssize_t sent = sendmsg(peer.socket.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      // A closed peer shows when it is read from: the data that it has sent is taken first.
      if (sent < 0) {
        peer.out.clear();
        return;
      }
      const auto bytes = static_cast<std::uint64_t>(sent);
      const std::uint64_t of_header = std::min(bytes, sizeof(Header) - out.header_sent);
      out.header_sent += of_header;
      out.rest.advance(bytes - of_header);
    }
    if (out.header_sent == sizeof(Header) && out.rest.piece == out.rest.pieces.size()) peer.out.pop_front();
  }
}

void SocketWorld::read_from(Peer& peer) {
  while (!peer.closed) {
    std::array<iovec, 64> iov;
    std::size_t n = 0;
    const bool header = peer.in_got < sizeof(Header);
    if (header) {
      iov[n++] = {reinterpret_cast<std::byte*>(&peer.in) + peer.in_got, sizeof(Header) - peer.in_got};
    } else {
      n = peer.into.fill(iov);
    }
    const ssize_t got = readv(peer.socket.number(), iov.data(), static_cast<int>(n));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      peer.closed = true;
      return;
    }
    if (header) {
      peer.in_got += static_cast<std::uint64_t>(got);
      if (peer.in_got == sizeof(Header)) begin_frame(peer);
    } else {
      peer.in_left -= static_cast<std::uint64_t>(got);
      peer.into.advance(static_cast<std::uint64_t>(got));
      if (peer.in_left == 0) {
        end_frame(peer);
      } else if (peer.in_early != nullptr && peer.into.piece == peer.into.pieces.size()) {
        make_room(peer);
      }
    }
  }
}

/// Makes room for the next bytes of a message that nobody has asked for yet. Memory is taken as bytes arrive, not as a
/// header says.
void SocketWorld::make_room(Peer& peer) {
  constexpr std::uint64_t at_once = std::uint64_t{4} << 20;
  Peer::Early& early = *peer.in_early;
  const std::uint64_t here = early.bytes.size();
  const std::uint64_t more = std::min(peer.in.bytes - here, std::max(here, at_once));
  early.bytes.resize(here + more);
  early.whole = {early.bytes.data(), early.bytes.size()};
  peer.into = {std::span<const Piece>(&early.whole, 1)};
  peer.into.advance(here);
}

/// The peer sent something that no rank sends. The run ends, and with it everything that was to come from there.
void SocketWorld::give_up_on(Peer& peer, const std::string& what) {
  const auto at = std::find_if(peers_.begin(), peers_.end(), [&](const auto& p) { return p.get() == &peer; });
  peer.closed = true;
  if (aborted()) return;
  reason_ = fmt::format("rank {} ends the run: rank {} {}", index(rank_), at - peers_.begin(), what);
  aborted_.store(true, std::memory_order_release);
}

/// A header has come.
void SocketWorld::begin_frame(Peer& peer) {
  const auto with_tag = [&](const Posted* p) { return p->message->tag == peer.in.tag; };
  if (peer.in.acknowledges != 0) {
    const auto sent = std::find_if(peer.sends.begin(), peer.sends.end(), with_tag);
    if (sent == peer.sends.end()) return give_up_on(peer, "acknowledges a message that was not sent to it");
    (*sent)->partner_ready = peer.in.ready;
    finish(**sent);
    peer.sends.erase(sent);
    peer.in_got = 0;
    return;
  }
  peer.in_left = peer.in.bytes;
  const auto met = std::find_if(peer.receives.begin(), peer.receives.end(), with_tag);
  if (met != peer.receives.end()) {
    peer.in_posted = *met;
    peer.receives.erase(met);
    if (const std::uint64_t right = bytes_of(peer.in_posted->message->pieces); right != peer.in.bytes) {
      return give_up_on(peer, wrong_size(peer.in.bytes, right));
    }
    peer.into = {peer.in_posted->message->pieces};
    peer.into.advance(0);
  } else {
    if (peer.in.bytes > most_early_bytes()) {
      return give_up_on(peer, fmt::format("announces a message of {} bytes, but this host has {}", peer.in.bytes,
                                          most_early_bytes()));
    }
    Peer::Early& early = peer.early.emplace_back();
    early.header = peer.in;
    peer.in_early = &early;
    make_room(peer);
  }
  if (peer.in_left == 0) end_frame(peer);
}

/// A message is complete, or an early one has been claimed.
void SocketWorld::end_frame(Peer& peer) {
  if (peer.in_got == sizeof(Header) && peer.in_left == 0) {
    peer.in_got = 0;
    if (peer.in_early != nullptr) {
      peer.in_early->complete = true;
    } else {
      peer.in_posted->partner_ready = peer.in.ready;
      acknowledge(peer, *peer.in_posted);
      finish(*peer.in_posted);
    }
    peer.in_early = nullptr;
    peer.in_posted = nullptr;
  }
  for (auto e = peer.early.begin(); e != peer.early.end();) {
    if (!e->complete || e->claimed_by == nullptr) {
      ++e;
      continue;
    }
    Posted& own = *e->claimed_by;
    if (const std::uint64_t right = bytes_of(own.message->pieces); right != e->bytes.size()) {
      return give_up_on(peer, wrong_size(e->bytes.size(), right));
    }
    const std::byte* from = e->bytes.data();
    for (const Piece& piece : own.message->pieces) {
      if (piece.bytes > 0) std::memcpy(piece.data, from, piece.bytes);
      from += piece.bytes;
    }
    own.partner_ready = e->header.ready;
    acknowledge(peer, own);
    finish(own);
    e = peer.early.erase(e);
  }
}

}  // namespace orrery
