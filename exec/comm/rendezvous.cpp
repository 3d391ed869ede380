#include "exec/comm/rendezvous.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/base/fnv.hpp"
#include "exec/comm/tcp.hpp"

namespace orrery {
namespace {

using tcp::Clock;
using tcp::Gone;

/// In which who has connected says who it is.
constexpr std::chrono::seconds longest_hello{2};
constexpr std::uint64_t magic = 0x31767a795252524fULL;  // with the protocol's version

/// What a rank says of itself.
struct Hello {
  std::uint64_t kind = magic;
  std::uint32_t rank = 0, ranks = 0;
  std::uint64_t job = 0, program = 0, host = 0;
  std::uint32_t port = 0;  ///< at which it listens for higher ranks
  std::uint32_t rest = 0;
};
/// Rank 0's answer: a text says what is wrong, and else a row for every rank follows.
struct Answer {
  std::uint64_t kind = magic;
  std::uint32_t text = 0;  ///< bytes
  std::uint32_t other_job = 0;
};
struct Row {
  std::uint32_t address = 0;  ///< IPv4 as rank 0 sees it, network order; 0: the one under which rank 0 is known
  std::uint32_t port = 0;
  std::uint64_t host = 0;
};

class Meeting {
 public:
  explicit Meeting(const RendezvousOptions& options)
      : options_(options),
        until_(Clock::now() +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.limit.base()))) {
    hello_.rank = options.rank;
    hello_.ranks = options.ranks;
    hello_.job = fnv1a(options.job);
    hello_.program = fnv1a(options.program);
    hello_.host = options.host;
  }

  Met gather() {
    const MeetingPlace& place = options_.place;
    const Socket listening = listen_where_known();
    if (!place.file.empty()) write_meeting_file(place, options_.job, tcp::port_of(listening));
    std::vector<Socket> peers(options_.ranks);
    std::vector<Row> rows(options_.ranks);
    rows[0].host = options_.host;
    std::uint32_t here = 1;
    try {
      while (here < options_.ranks) here += take_one(listening, peers, rows);
    } catch (const Error& e) {
      for (const Socket& s : peers) tell_wrong(s, e.what(), false);
      remove_file();
      throw;
    }
    remove_file();
    const Answer fine;
    for (std::uint32_t r = 1; r < options_.ranks; ++r) {
      with(r, [&] {
        send(peers[r], &fine, sizeof fine);
        send(peers[r], rows.data(), rows.size() * sizeof(Row));
      });
    }
    return met(std::move(peers), rows);
  }

  Met join() {
    const Socket listening = tcp::listen_at(std::nullopt);
    if (listening.number() < 0) {
      throw Error(fmt::format("rank {} cannot listen: {}", options_.rank, std::strerror(errno)));
    }
    hello_.port = tcp::port_of(listening);
    std::vector<Socket> peers(options_.ranks);
    std::vector<Row> rows(options_.ranks);
    sockaddr_in first{};
    peers[0] = come_to_first(rows, first);
    for (std::uint32_t r = 1; r < options_.rank; ++r) {
      sockaddr_in at = first;
      if (rows[r].address != 0) at.sin_addr.s_addr = rows[r].address;
      at.sin_port = htons(static_cast<std::uint16_t>(rows[r].port));
      peers[r] = come_to(r, at, peers[0]);
      with(r, [&] { send(peers[r], &hello_, sizeof hello_); });
    }
    while (true) {
      const std::string missing = missing_after(options_.rank, peers);
      if (missing.empty()) break;
      Socket one = accepted(listening, missing);
      Hello hello;
      try {
        receive(one, &hello, sizeof hello, longest_hello);
      } catch (const Gone&) {
        continue;
      }
      const bool known = hello.kind == magic && hello.job == hello_.job && hello.rank > options_.rank &&
                         hello.rank < options_.ranks && peers[hello.rank].number() < 0;
      if (known) peers[hello.rank] = std::move(one);  // else somebody else's
    }
    return met(std::move(peers), rows);
  }

 private:
  static Met met(std::vector<Socket> peers, const std::vector<Row>& rows) {
    Met all;
    all.peers = std::move(peers);
    for (const Row& row : rows) all.hosts.push_back(row.host);
    for (const Socket& s : all.peers) {
      const int on = 1;
      if (s.number() < 0) continue;
      setsockopt(s.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      setsockopt(s.number(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    }
    return all;
  }

  void send(const Socket& s, const void* data, std::size_t bytes) const { tcp::send_all(s, data, bytes, until_); }
  /// A stranger may connect and say nothing: `longest` bounds the wait besides the limit.
  void receive(const Socket& s, void* data, std::size_t bytes, Clock::duration longest = std::chrono::hours(24)) const {
    tcp::receive_all(s, data, bytes, std::min(until_, Clock::now() + longest));
  }
  /// Talks to a rank of the job, whose end ends the job.
  template <class Talk>
  void with(std::uint32_t rank, Talk talk) const {
    try {
      talk();
    } catch (const Gone& e) {
      throw Error(fmt::format("rank {} has lost rank {} while the ranks met: {}", options_.rank, rank, e.what()));
    }
  }

  /// At the address that rank 0 is known under, where it is one of this host's; at all with a file.
  Socket listen_where_known() const {
    const std::string &host = options_.place.host, &port = options_.place.port;
    std::optional<sockaddr_in> at;
    if (!host.empty()) {
      at = tcp::address_of(host, port);
      if (!at) throw Error(fmt::format("rank {} knows no host {}", options_.rank, host));
      // Many hosts know their own name as 127.0.1.1, where no other host reaches them.
      if (tcp::is_loopback(*at) && host != "localhost" && !host.starts_with("127.")) {
        at->sin_addr.s_addr = htonl(INADDR_ANY);
      }
    }
    Socket s = tcp::listen_at(at);
    if (s.number() < 0) {
      throw Error(fmt::format("rank {} cannot listen at {}: {}", options_.rank,
                              host.empty() ? "any port" : host + ":" + port, std::strerror(errno)));
    }
    return s;
  }

  /// "ranks 3, 5": those above `rank` that have not come.
  [[nodiscard]] std::string missing_after(std::uint32_t rank, const std::vector<Socket>& peers) const {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t r = rank + 1; r < options_.ranks; ++r) {
      if (peers[r].number() < 0) missing.push_back(r);
    }
    if (missing.empty()) return "";
    return fmt::format("rank{} {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
  }

  Socket accepted(const Socket& listening, const std::string& whom) const {
    Socket one = tcp::accepted(listening, until_);
    if (one.number() >= 0) return one;
    if (errno == 0) {
      throw Error(fmt::format("rank {} has waited {:g} s for {}", options_.rank, options_.limit.base(), whom));
    }
    throw Error(fmt::format("rank {} cannot take the connection of {}: {}", options_.rank, whom, std::strerror(errno)));
  }

  void tell_wrong(const Socket& s, const std::string& text, bool other_job) const {
    if (s.number() < 0) return;
    try {
      const Answer answer{magic, static_cast<std::uint32_t>(text.size()), other_job ? 1U : 0U};
      // Also when the limit, of which it may be told, is over.
      const Clock::time_point until = std::max(until_, Clock::now() + longest_hello);
      tcp::send_all(s, &answer, sizeof answer, until);
      tcp::send_all(s, text.data(), text.size(), until);
    } catch (const Gone&) {
      // It knows already.
    }
  }

  /// Rank 0: one who comes; whether it is one of the job's.
  std::uint32_t take_one(const Socket& listening, std::vector<Socket>& peers, std::vector<Row>& rows) const {
    Socket one = accepted(listening, missing_after(0, peers));
    Hello hello;
    try {
      receive(one, &hello, sizeof hello, longest_hello);
    } catch (const Gone&) {
      return 0;
    }
    if (hello.kind != magic) {
      tell_wrong(one, "this is the meeting place of another program or version", false);
      return 0;
    }
    if (hello.job != hello_.job) {
      tell_wrong(one, fmt::format("rank 0 is of another job, {}", options_.job), true);
      return 0;
    }
    const auto refuse = [&](const std::string& text) {
      tell_wrong(one, text, false);
      throw Error(text);
    };
    if (hello.ranks != options_.ranks) {
      refuse(fmt::format("rank 0 expects {} ranks, and rank {} expects {}", options_.ranks, hello.rank, hello.ranks));
    }
    if (hello.rank == 0 || hello.rank >= options_.ranks || peers[hello.rank].number() >= 0) {
      refuse(fmt::format("two processes say that they are rank {}", hello.rank));
    }
    if (hello.program != hello_.program) {
      refuse(fmt::format("rank {} has another version of the program than rank 0", hello.rank));
    }
    sockaddr_in from{};
    socklen_t size = sizeof from;
    getpeername(one.number(), reinterpret_cast<sockaddr*>(&from), &size);
    // Who has come over the loopback is reached where rank 0 is; of one host, but with a network of its own, not.
    rows[hello.rank] = {tcp::is_loopback(from) ? 0 : from.sin_addr.s_addr, hello.port, hello.host};
    peers[hello.rank] = std::move(one);
    return 1;
  }

  /// Asks until rank 0 is there.
  Socket come_to_first(std::vector<Row>& rows, sockaddr_in& first) const {
    std::string why = "nobody listens";
    const MeetingPlace& place = options_.place;
    do {
      for (const sockaddr_in& at : addresses_at(place, options_.job, why)) {
        Socket s = tcp::connected(at, until_);
        if (s.number() < 0) {
          why = std::strerror(errno);
          continue;
        }
        Answer answer;
        try {
          send(s, &hello_, sizeof hello_);
          receive(s, &answer, sizeof answer);
        } catch (const Gone& e) {
          why = e.what();
          continue;
        }
        if (answer.kind != magic) {
          why = "another program listens there";
          continue;
        }
        if (answer.text > 0) {
          std::string text(std::min<std::uint32_t>(answer.text, 4096), ' ');
          with(0, [&] { receive(s, text.data(), text.size()); });
          why = text;
          // What an earlier job left in a file.
          if (answer.other_job != 0 && !place.file.empty()) continue;
          throw Error(text);
        }
        with(0, [&] { receive(s, rows.data(), rows.size() * sizeof(Row)); });
        first = at;
        return s;
      }
    } while (another_try());
    throw Error(fmt::format("rank {} has waited {:g} s for rank 0 at {}: {}", options_.rank, options_.limit.base(),
                            place.text(), why));
  }

  /// A rank that listens, as rank 0 has said: a network that loses the first try is asked again.
  Socket come_to(std::uint32_t rank, const sockaddr_in& at, const Socket& first) const {
    std::string why;
    do {
      Socket s = tcp::connected(at, until_);
      if (s.number() >= 0) return s;
      why = std::strerror(errno);
      // Rank 0 sends nothing more until all have met: it ends where another rank is lost.
      char more = 0;
      with(0, [&] {
        if (recv(first.number(), &more, 1, MSG_PEEK | MSG_DONTWAIT) == 0) throw Gone("it has closed the connection");
      });
    } while (another_try());
    throw Error(fmt::format("rank {} has tried for {:g} s to connect to rank {} at {}:{}: {}", options_.rank,
                            options_.limit.base(), rank, inet_ntoa(at.sin_addr), ntohs(at.sin_port), why));
  }

  /// After a short while; false when time is over.
  [[nodiscard]] bool another_try() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(50, tcp::milliseconds_until(until_))));
    return tcp::milliseconds_until(until_) > 0;
  }

  void remove_file() const {
    if (!options_.place.file.empty()) std::remove(options_.place.file.c_str());
  }

  const RendezvousOptions& options_;
  Clock::time_point until_;
  Hello hello_;
};

}  // namespace

std::uint32_t Met::local_rank(std::uint32_t rank) const {
  return static_cast<std::uint32_t>(std::count(hosts.begin(), hosts.begin() + rank, hosts[rank]));
}

std::uint64_t this_host() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return fnv1a(id);
}

Met meet(const RendezvousOptions& options) {
  if (options.ranks == 1) return {std::vector<Socket>(1), {options.host}};
  return options.rank == 0 ? Meeting(options).gather() : Meeting(options).join();
}

}  // namespace orrery
