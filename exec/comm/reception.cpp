#include "exec/comm/reception.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

using tcp::Clock;

/// The time in which a guest must say everything that it is asked.
constexpr std::chrono::seconds longest_wait{5};
/// More guests than this would take the sockets that ranks need, so the oldest goes.
constexpr std::size_t most_waiting = 256;

std::string address_text(std::uint32_t address) {
  in_addr at{};
  at.s_addr = address;
  std::array<char, INET_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET, &at, text.data(), text.size()) == nullptr ? "?" : text.data();
}

}  // namespace

Reception::Reception(Socket listening, std::string token, std::function<void(const std::string&)> warn)
    : listening_(std::move(listening)), token_(std::move(token)), warn_(std::move(warn)) {}

std::optional<Reception::Guest> Reception::next(Clock::time_point until) {
  for (;;) {
    std::string why;
    for (auto w = waiting_.begin(); w != waiting_.end();) {
      Step step = advance(*w, why);
      if (step == Step::is_done) {
        Guest guest{std::move(w->socket), w->hello, w->address};
        waiting_.erase(w);
        return guest;
      }
      if (step == Step::waits && Clock::now() >= w->until) {
        step = Step::is_wrong;
        why = "it did not identify itself in time";
      }
      if (step == Step::is_wrong) count(w->address, why);
      w = step == Step::is_wrong ? waiting_.erase(w) : std::next(w);
    }
    if (Clock::now() >= until) return std::nullopt;
    std::vector<pollfd> polled{{listening_.number(), POLLIN, 0}};
    for (const Waiting& w : waiting_) polled.push_back({w.socket.number(), POLLIN, 0});
    const Clock::time_point look = waiting_.empty() ? until : std::min(until, waiting_.front().until);
    if (poll(polled.data(), polled.size(), tcp::milliseconds_until(look)) < 0 && errno != EINTR) {
      throw Error(fmt::format("cannot wait for connections: {}", std::strerror(errno)));
    }
    if (polled.front().revents != 0) take_all();
  }
}

void Reception::take_all() {
  // Only a part of a flood is taken at once, so that the guests that are there are looked at in between.
  for (std::size_t taken = 0; taken < most_waiting / 4; ++taken) {
    sockaddr_in from{};
    socklen_t size = sizeof from;
    Socket one(accept4(listening_.number(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (one.number() < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno != EMFILE && errno != ENFILE) || waiting_.empty()) {
        throw Error(fmt::format("cannot take a connection: {}", std::strerror(errno)));
      }
    }
    if (one.number() < 0 || waiting_.size() == most_waiting) {
      count(waiting_.front().address, "it sent nothing while other connections came");
      waiting_.pop_front();
    }
    if (one.number() < 0) continue;
    Waiting& w = waiting_.emplace_back();
    w.socket = std::move(one);
    w.address = from.sin_addr.s_addr;
    w.until = Clock::now() + longest_wait;
  }
}

Reception::Step Reception::advance(Waiting& w, std::string& why) const {
  for (;;) {
    const auto bytes = [](auto& value) { return std::as_writable_bytes(std::span(&value, 1)); };
    const std::span<std::byte> asked = w.asked == Waiting::Asked::opening ? bytes(w.theirs)
                                       : w.asked == Waiting::Asked::proof ? bytes(w.proof)
                                                                          : bytes(w.hello);
    const ssize_t n = recv(w.socket.number(), asked.data() + w.got, asked.size() - w.got, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Step::waits;
    if (n <= 0) {
      why = "it left before it identified itself";
      return Step::is_wrong;
    }
    w.got += static_cast<std::size_t>(n);
    if (w.got < asked.size()) continue;
    w.got = 0;
    if (const Step step = answer(w, why); step != Step::goes_on) return step;
  }
}

Reception::Step Reception::answer(Waiting& w, std::string& why) const {
  // So few bytes fit into what the system keeps for a new connection.
  const auto say = [&](const void* data, std::size_t size) {
    return send(w.socket.number(), data, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
  };
  bool said = true;
  switch (w.asked) {
    case Waiting::Asked::opening:
      if (w.theirs.kind != Opening::magic) {
        why = "it is another program, or another version of this one";
        return Step::is_wrong;
      }
      w.own = Opening::fresh();
      said = say(&w.own, sizeof w.own);
      w.asked = Waiting::Asked::proof;
      break;
    case Waiting::Asked::proof: {
      if (!same_digest(w.proof, proof_of_comer(token_, w.theirs, w.own))) {
        why = "it does not have the job's token";
        return Step::is_wrong;
      }
      const Digest own = proof_of_host(token_, w.theirs, w.own);
      said = say(own.data(), own.size());
      w.asked = Waiting::Asked::hello;
      break;
    }
    case Waiting::Asked::hello: return Step::is_done;
  }
  if (!said) why = "it left before it identified itself";
  return said ? Step::goes_on : Step::is_wrong;
}

void Reception::turn_away(const Guest& guest, const std::string& why) { count(guest.address, why); }

void Reception::count(std::uint32_t address, const std::string& why) {
  last_ = fmt::format("from {}: {}", address_text(address), why);
  if (++turned_away_ == 1 && warn_) warn_(fmt::format("a connection was turned away, {}", last_));
}

std::string Reception::turned_away_text() const {
  if (turned_away_ == 0) return "";
  return fmt::format("; {} turned away, {}{}",
                     turned_away_ == 1 ? "a connection was" : fmt::format("{} connections were", turned_away_),
                     turned_away_ == 1 ? "" : "the last ", last_);
}

}  // namespace orrery
