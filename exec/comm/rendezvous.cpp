#include "exec/comm/rendezvous.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "core/base/fnv.hpp"

namespace orrery {
namespace {

using Clock = std::chrono::steady_clock;

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

/// The other side has closed, or time is over.
class Gone : public Error {
 public:
  using Error::Error;
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
    const Socket listening = listen_at(options_.place.host, options_.place.port);
    if (!options_.place.file.empty()) write_file(port_of(listening));
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
      try {
        send_all(peers[r], &fine, sizeof fine);
        send_all(peers[r], rows.data(), rows.size() * sizeof(Row));
      } catch (const Gone& e) {
        throw Error(fmt::format("rank 0 has lost rank {} while the ranks met: {}", r, e.what()));
      }
    }
    return met(std::move(peers), rows);
  }

  Met join() {
    const Socket listening = listen_at("", "0");
    hello_.port = port_of(listening);
    std::vector<Socket> peers(options_.ranks);
    std::vector<Row> rows(options_.ranks);
    sockaddr_in first{};
    peers[0] = come_to_first(rows, first);
    for (std::uint32_t r = 1; r < options_.rank; ++r) {
      sockaddr_in at = first;
      if (rows[r].address != 0) at.sin_addr.s_addr = rows[r].address;
      at.sin_port = htons(static_cast<std::uint16_t>(rows[r].port));
      peers[r] = connected(at);
      if (peers[r].number() < 0) {
        throw Error(fmt::format("rank {} cannot connect to rank {} at {}:{}: {}", options_.rank, r,
                                inet_ntoa(at.sin_addr), rows[r].port, std::strerror(errno)));
      }
      send_all(peers[r], &hello_, sizeof hello_);
    }
    for (std::uint32_t left = options_.ranks - options_.rank - 1; left > 0;) {
      Socket one = accepted(listening, "a higher rank");
      Hello hello;
      try {
        receive_all(one, &hello, sizeof hello, longest_hello);
      } catch (const Gone&) {
        continue;
      }
      const bool known = hello.kind == magic && hello.job == hello_.job && hello.rank > options_.rank &&
                         hello.rank < options_.ranks && peers[hello.rank].number() < 0;
      if (!known) continue;  // somebody else's
      peers[hello.rank] = std::move(one);
      --left;
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

  [[nodiscard]] int left_ms() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - Clock::now()).count();
    return static_cast<int>(std::max<std::int64_t>(left, 0));
  }

  static Socket fresh() { return Socket(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

  static std::optional<sockaddr_in> address_of(const std::string& host, const std::string& port) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) return std::nullopt;
    sockaddr_in found{};
    std::memcpy(&found, list->ai_addr, sizeof found);
    freeaddrinfo(list);
    return found;
  }

  /// At the address that rank 0 is known under, where it is one of this host's; with no host, at all.
  Socket listen_at(const std::string& host, const std::string& port) const {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    at.sin_port = 0;
    if (!host.empty()) {
      const auto known = address_of(host, port);
      if (!known) throw Error(fmt::format("rank {} knows no host {}", options_.rank, host));
      at = *known;
      // Many hosts know their own name as 127.0.1.1, where no other host reaches them.
      const bool loopback = ntohl(at.sin_addr.s_addr) >> 24 == 127;
      if (loopback && host != "localhost" && !host.starts_with("127.")) at.sin_addr.s_addr = htonl(INADDR_ANY);
    }
    Socket s = fresh();
    const int on = 1;
    setsockopt(s.number(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    int code = bind(s.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
    if (code != 0 && errno == EADDRNOTAVAIL) {
      at.sin_addr.s_addr = htonl(INADDR_ANY);
      code = bind(s.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
    }
    if (code != 0 || listen(s.number(), 1024) != 0) {
      throw Error(fmt::format("rank {} cannot listen at {}:{}: {}", options_.rank, host, port, std::strerror(errno)));
    }
    return s;
  }

  static std::uint32_t port_of(const Socket& s) {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    getsockname(s.number(), reinterpret_cast<sockaddr*>(&at), &size);
    return ntohs(at.sin_port);
  }

  Socket accepted(const Socket& listening, const std::string& whom) const {
    for (;;) {
      pollfd wait{listening.number(), POLLIN, 0};
      if (left_ms() == 0 || poll(&wait, 1, left_ms()) == 0) {
        throw Error(fmt::format("rank {} has waited {:g} s for {}", options_.rank, options_.limit.base(), whom));
      }
      const int one = accept4(listening.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (one >= 0) return Socket(one);
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        throw Error(
            fmt::format("rank {} cannot take the connection of {}: {}", options_.rank, whom, std::strerror(errno)));
      }
    }
  }

  void send_all(const Socket& s, const void* data, std::size_t bytes) const {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t n = send(s.number(), at, bytes, MSG_NOSIGNAL);
      if (n > 0) {
        at += n;
        bytes -= static_cast<std::size_t>(n);
        continue;
      }
      if (n < 0 && errno != EAGAIN && errno != EINTR) throw Gone(std::strerror(errno));
      pollfd wait{s.number(), POLLOUT, 0};
      if (poll(&wait, 1, left_ms()) == 0) throw Gone("time is over");
    }
  }
  /// A stranger may connect and say nothing: `longest` bounds the wait besides the limit.
  void receive_all(const Socket& s, void* data, std::size_t bytes,
                   std::chrono::milliseconds longest = std::chrono::hours(24)) const {
    const Clock::time_point until = std::min(until_, Clock::now() + longest);
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t n = recv(s.number(), at, bytes, 0);
      if (n > 0) {
        at += n;
        bytes -= static_cast<std::size_t>(n);
        continue;
      }
      if (n == 0) throw Gone("it has closed the connection");
      if (errno != EAGAIN && errno != EINTR) throw Gone(std::strerror(errno));
      pollfd wait{s.number(), POLLIN, 0};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) == 0) throw Gone("time is over");
    }
  }

  void tell_wrong(const Socket& s, const std::string& text, bool other_job) const {
    if (s.number() < 0) return;
    try {
      const Answer answer{magic, static_cast<std::uint32_t>(text.size()), other_job ? 1U : 0U};
      send_all(s, &answer, sizeof answer);
      send_all(s, text.data(), text.size());
    } catch (const Gone&) {
      // It knows already.
    }
  }

  /// Rank 0: one who comes; whether it is one of the job's.
  std::uint32_t take_one(const Socket& listening, std::vector<Socket>& peers, std::vector<Row>& rows) const {
    std::string missing;
    for (std::uint32_t r = 1; r < options_.ranks; ++r) {
      if (peers[r].number() < 0) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
    }
    Socket one = accepted(listening, (missing.find(',') == std::string::npos ? "rank " : "ranks ") + missing);
    Hello hello;
    try {
      receive_all(one, &hello, sizeof hello, longest_hello);
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
    const bool here = ntohl(from.sin_addr.s_addr) >> 24 == 127;
    rows[hello.rank] = {here ? 0 : from.sin_addr.s_addr, hello.port, hello.host};
    peers[hello.rank] = std::move(one);
    return 1;
  }

  Socket connected(const sockaddr_in& at) const {
    Socket s = fresh();
    if (connect(s.number(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return s;
    if (errno != EINPROGRESS) return {};
    pollfd wait{s.number(), POLLOUT, 0};
    if (poll(&wait, 1, std::min(left_ms(), 2000)) == 0) {
      errno = ETIMEDOUT;
      return {};
    }
    int failure = 0;
    socklen_t size = sizeof failure;
    getsockopt(s.number(), SOL_SOCKET, SO_ERROR, &failure, &size);
    errno = failure;
    return failure == 0 ? std::move(s) : Socket();
  }

  /// Where rank 0 may be, as far as is known now.
  [[nodiscard]] std::vector<sockaddr_in> places(std::string& why) const {
    std::vector<sockaddr_in> all;
    const MeetingPlace& place = options_.place;
    if (place.file.empty()) {
      if (const auto at = address_of(place.host, place.port)) all.push_back(*at);
      if (all.empty()) why = "no such host";
      return all;
    }
    std::ifstream in(place.file);
    std::string kind, job, address, port;
    if (!(std::getline(in, kind) && std::getline(in, job))) {
      why = "the file is not there";
      return all;
    }
    if (kind != "orrery meeting 1" || job != options_.job) {
      why = "the file is of another job";
      return all;
    }
    while (in >> address >> port) {
      if (const auto at = address_of(address, port)) all.push_back(*at);
    }
    return all;
  }

  /// Asks until rank 0 is there.
  Socket come_to_first(std::vector<Row>& rows, sockaddr_in& first) const {
    std::string why = "nobody listens";
    const MeetingPlace& place = options_.place;
    const std::string where = place.file.empty() ? place.host + ":" + place.port : place.file;
    do {
      for (const sockaddr_in& at : places(why)) {
        Socket s = connected(at);
        if (s.number() < 0) {
          why = std::strerror(errno);
          continue;
        }
        Answer answer;
        try {
          send_all(s, &hello_, sizeof hello_);
          receive_all(s, &answer, sizeof answer);
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
          receive_all(s, text.data(), text.size());
          why = text;
          // What an earlier job left in a file.
          if (answer.other_job != 0 && !place.file.empty()) continue;
          throw Error(text);
        }
        receive_all(s, rows.data(), rows.size() * sizeof(Row));
        first = at;
        return s;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(std::min(50, left_ms())));
    } while (left_ms() > 0);
    throw Error(fmt::format("rank {} has waited {:g} s for rank 0 at {}: {}", options_.rank, options_.limit.base(),
                            where, why));
  }

  /// All addresses of this host, those of the network first.
  void write_file(std::uint32_t port) const {
    std::ostringstream text;
    text << "orrery meeting 1\n" << options_.job << "\n";
    ifaddrs* list = nullptr;
    std::string own;
    if (getifaddrs(&list) == 0) {
      for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
        if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
        sockaddr_in at{};
        std::memcpy(&at, i->ifa_addr, sizeof at);
        const std::string line = fmt::format("{} {}\n", inet_ntoa(at.sin_addr), port);
        if (ntohl(at.sin_addr.s_addr) >> 24 == 127) {
          own += line;
        } else {
          text << line;
        }
      }
      freeifaddrs(list);
    }
    text << own;
    const std::string fresh_name = options_.place.file + ".new";
    std::ofstream out(fresh_name);
    out << text.str() << std::flush;
    if (!out || std::rename(fresh_name.c_str(), options_.place.file.c_str()) != 0) {
      throw Error(fmt::format("rank 0 cannot write {}: {}", options_.place.file, std::strerror(errno)));
    }
  }
  void remove_file() const {
    if (!options_.place.file.empty()) std::remove(options_.place.file.c_str());
  }

  const RendezvousOptions& options_;
  Clock::time_point until_;
  Hello hello_;
};

}  // namespace

MeetingPlace MeetingPlace::of(const std::string& text) {
  MeetingPlace place;
  const std::size_t colon = text.rfind(':');
  const bool port = colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
                    text.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (port) {
    place.host = text.substr(0, colon);
    place.port = text.substr(colon + 1);
  } else {
    place.file = text;
  }
  return place;
}

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
