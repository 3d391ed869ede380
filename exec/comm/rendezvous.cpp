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
#include <functional>
#include <thread>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/base/fnv.hpp"
#include "exec/comm/proof.hpp"
#include "exec/comm/reception.hpp"
#include "exec/comm/tcp.hpp"

namespace orrery {
namespace {

using tcp::Clock;
using tcp::Gone;

/// The time in which a process that listens must show that it is of the job; one that does not is asked again.
constexpr std::chrono::seconds longest_proof{10};

/// Rank 0's answer: a text says what is wrong; without one, a row for every rank follows.
struct Answer {
  std::uint32_t text = 0;  ///< bytes
  std::uint32_t other_job = 0;
};
/// Where a rank listens.
struct Row {
  std::uint32_t address = 0;  ///< IPv4 as rank 0 sees it, network order
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
    Socket listening = listen_where_known();
    if (!place.file.empty()) {
      if (token_.empty()) token_ = hex_of(random_secret());
      write_meeting_file(place, options_.job, tcp::own_address(listening), options_.token.empty() ? token_ : "");
    }
    Reception reception(std::move(listening), token_, warning());
    std::vector<Socket> peers(options_.ranks);
    std::vector<Row> rows(options_.ranks);
    rows[0].host = options_.host;
    try {
      for (std::string missing; !(missing = missing_after(0, peers)).empty();) {
        take_one(next_of(reception, missing), reception, peers, rows);
      }
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
    std::vector<Socket> peers(options_.ranks);
    std::vector<Row> rows(options_.ranks);
    Socket listening;
    peers[0] = come_to_first(rows, listening);
    for (std::uint32_t r = 1; r < options_.rank; ++r) {
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = rows[r].address;
      at.sin_port = htons(static_cast<std::uint16_t>(rows[r].port));
      peers[r] = come_to(r, at, peers[0]);
    }
    Reception reception(std::move(listening), token_, warning());
    for (std::string missing; !(missing = missing_after(options_.rank, peers)).empty();) {
      Reception::Guest guest = next_of(reception, missing);
      const Hello& hello = guest.hello;
      const bool known = hello.job == hello_.job && hello.rank > options_.rank && hello.rank < options_.ranks &&
                         peers[hello.rank].number() < 0;
      if (known) {
        peers[hello.rank] = std::move(guest.socket);
      } else {
        reception.turn_away(guest,
                            fmt::format("it says that it is rank {}, which this rank does not wait for", hello.rank));
      }
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
  void receive(const Socket& s, void* data, std::size_t bytes) const { tcp::receive_all(s, data, bytes, until_); }

  [[nodiscard]] std::function<void(const std::string&)> warning() const {
    if (!options_.warn) return {};
    return [this](const std::string& what) { options_.warn(fmt::format("rank {}: {}", options_.rank, what)); };
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

  /// Listens at the address under which rank 0 is known.
  Socket listen_where_known() const {
    std::string why;
    const auto at = address_of(options_.place, why);
    if (!at) throw Error(fmt::format("rank 0 cannot listen at {}: {}", options_.place.text(), why));
    Socket s = tcp::listen_at(*at);
    if (s.number() < 0) {
      throw Error(fmt::format("rank 0 cannot listen at {}: {}", options_.place.text(), std::strerror(errno)));
    }
    return s;
  }

  /// The ranks above `rank` that have not come: "ranks 3, 5".
  [[nodiscard]] std::string missing_after(std::uint32_t rank, const std::vector<Socket>& peers) const {
    std::vector<std::uint32_t> missing;
    for (std::uint32_t r = rank + 1; r < options_.ranks; ++r) {
      if (peers[r].number() < 0) missing.push_back(r);
    }
    if (missing.empty()) return "";
    return fmt::format("rank{} {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
  }

  Reception::Guest next_of(Reception& reception, const std::string& whom) const {
    if (auto guest = reception.next(until_)) return *std::move(guest);
    throw Error(fmt::format("rank {} has waited {:g} s for {}{}", options_.rank, options_.limit.base(), whom,
                            reception.turned_away_text()));
  }

  void tell_wrong(const Socket& s, const std::string& text, bool other_job) const {
    if (s.number() < 0) return;
    try {
      const Answer answer{static_cast<std::uint32_t>(text.size()), other_job ? 1U : 0U};
      // Some time is left even when the limit is over, because the text may be about the limit.
      const Clock::time_point until = std::max(until_, Clock::now() + std::chrono::seconds(2));
      tcp::send_all(s, &answer, sizeof answer, until);
      tcp::send_all(s, text.data(), text.size(), until);
    } catch (const Gone&) {
      // The guest knows already.
    }
  }

  /// Rank 0 takes a guest that has the job's token. A guest that does not fit is told, counted, and holds nobody up.
  void take_one(Reception::Guest guest, Reception& reception, std::vector<Socket>& peers,
                std::vector<Row>& rows) const {
    const Hello& hello = guest.hello;
    const bool other_job = hello.job != hello_.job;
    const std::string wrong = what_is_wrong(hello, peers);
    if (!wrong.empty()) {
      tell_wrong(guest.socket, wrong, other_job);
      reception.turn_away(guest, wrong);
      return;
    }
    rows[hello.rank] = {guest.address, hello.port, hello.host};
    peers[hello.rank] = std::move(guest.socket);
  }

  [[nodiscard]] std::string what_is_wrong(const Hello& hello, const std::vector<Socket>& peers) const {
    if (hello.job != hello_.job) return "rank 0 belongs to another job";
    if (hello.ranks != options_.ranks) {
      return fmt::format("rank 0 expects {} ranks, but rank {} expects {}", options_.ranks, hello.rank, hello.ranks);
    }
    if (hello.rank == 0 || hello.rank >= options_.ranks || peers[hello.rank].number() >= 0) {
      return fmt::format("two processes say that they are rank {}", hello.rank);
    }
    if (hello.program != hello_.program) {
      return fmt::format("rank {} has another version of the program than rank 0", hello.rank);
    }
    return "";
  }

  /// Asks until rank 0 is there. From then on this rank listens, on the interface by which it has come.
  Socket come_to_first(std::vector<Row>& rows, Socket& listening) {
    std::string why = "no process listens";
    const MeetingPlace& place = options_.place;
    do {
      const auto found = find_place(place, options_.job, options_.token.empty(), why);
      if (!found) continue;
      Socket s = tcp::connected(found->at, until_);
      if (s.number() < 0) {
        why = std::strerror(errno);
        continue;
      }
      if (options_.token.empty()) token_ = found->token;
      listening = listen_beside(s);
      hello_.port = ntohs(tcp::own_address(listening).sin_port);
      Answer answer;
      try {
        prove_to_host(s, token_, std::min(until_, Clock::now() + longest_proof));
        send(s, &hello_, sizeof hello_);
        receive(s, &answer, sizeof answer);
      } catch (const Gone& e) {
        why = e.what();
        continue;
      }
      if (answer.text > 0) {
        std::string text(std::min<std::uint32_t>(answer.text, 4096), ' ');
        with(0, [&] { receive(s, text.data(), text.size()); });
        why = text;
        // The file is one that an earlier job left.
        if (answer.other_job != 0 && !place.file.empty()) continue;
        throw Error(text);
      }
      with(0, [&] { receive(s, rows.data(), rows.size() * sizeof(Row)); });
      return s;
    } while (another_try());
    throw Error(fmt::format("rank {} has waited {:g} s for rank 0 at {}: {}", options_.rank, options_.limit.base(),
                            place.text(), why));
  }

  Socket listen_beside(const Socket& connected) const {
    sockaddr_in at = tcp::own_address(connected);
    at.sin_port = 0;
    Socket s = tcp::listen_at(at);
    if (s.number() < 0) throw Error(fmt::format("rank {} cannot listen: {}", options_.rank, std::strerror(errno)));
    return s;
  }

  /// Connects to a rank that listens, as rank 0 has said. Where a network loses the first try, it asks again.
  Socket come_to(std::uint32_t rank, const sockaddr_in& at, const Socket& first) const {
    std::string why;
    do {
      Socket s = tcp::connected(at, until_);
      if (s.number() >= 0) {
        try {
          prove_to_host(s, token_, std::min(until_, Clock::now() + longest_proof));
          send(s, &hello_, sizeof hello_);
          return s;
        } catch (const Gone& e) {
          why = e.what();
        }
      } else {
        why = std::strerror(errno);
      }
      // Rank 0 sends nothing more until all have met: the connection ends where another rank is lost.
      char more = 0;
      with(0, [&] {
        if (recv(first.number(), &more, 1, MSG_PEEK | MSG_DONTWAIT) == 0) throw Gone("it has closed the connection");
      });
    } while (another_try());
    throw Error(fmt::format("rank {} has tried for {:g} s to connect to rank {} at {}:{}: {}", options_.rank,
                            options_.limit.base(), rank, inet_ntoa(at.sin_addr), ntohs(at.sin_port), why));
  }

  /// Returns true after a short while; false when time is over.
  [[nodiscard]] bool another_try() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(50, tcp::milliseconds_until(until_))));
    return tcp::milliseconds_until(until_) > 0;
  }

  void remove_file() const {
    if (!options_.place.file.empty()) std::remove(options_.place.file.c_str());
  }

  const RendezvousOptions& options_;
  std::string token_ = options_.token;  ///< with a file, and no token given, the token in the file
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
  raise_socket_limit();
  if (options.ranks == 1) return {std::vector<Socket>(1), {options.host}};
  return options.rank == 0 ? Meeting(options).gather() : Meeting(options).join();
}

}  // namespace orrery
