#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "exec/comm/proof.hpp"
#include "exec/comm/rendezvous.hpp"
#include "tests/support/program_run.hpp"
#include "tests/unit/exec/meeting.hpp"

using namespace orrery;
using test::all_meet;
using test::free_port;
using test::Outcome;

// Ranks are threads here; they meet as processes do, over TCP.
namespace {

/// A socket that listens at the port of the loopback interface; 0: at any port.
int listen_here(std::uint16_t port) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const timeval limit{30, 0};  // accept ends then, so that no test waits for a rank that never comes
  setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  const bool listens = bind(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 && listen(s, 8) == 0;
  CHECK(listens);
  return s;
}

/// The protocol's messages as another program would write them.
struct WrittenHello {
  std::uint32_t rank, ranks;
  std::uint64_t job, program, host;
  std::uint32_t port, rest;
};
struct WrittenAnswer {
  std::uint32_t text = 0, other_job = 0;
};
struct WrittenRow {
  std::uint32_t address = htonl(INADDR_LOOPBACK), port = 0;
  std::uint64_t host = 1;
};

/// What the called side says and hears first, without a token.
WrittenHello welcomed(int s) {
  Opening theirs;
  static_cast<void>(recv(s, &theirs, sizeof theirs, MSG_WAITALL));
  const Opening own = Opening::fresh();
  static_cast<void>(send(s, &own, sizeof own, MSG_NOSIGNAL));
  Digest proof{};
  static_cast<void>(recv(s, proof.data(), proof.size(), MSG_WAITALL));
  CHECK(same_digest(proof, proof_of_comer("", theirs, own)));
  const Digest mine = proof_of_host("", theirs, own);
  static_cast<void>(send(s, mine.data(), mine.size(), MSG_NOSIGNAL));
  WrittenHello hello{};
  static_cast<void>(recv(s, &hello, sizeof hello, MSG_WAITALL));
  return hello;
}

/// Every two ranks speak over their socket.
void check_connected(std::vector<Outcome>& ranks) {
  for (std::uint32_t a = 0; a < ranks.size(); ++a) {
    INFO(ranks[a].error);
    REQUIRE(ranks[a].met.peers.size() == ranks.size());
    CHECK(ranks[a].met.peers[a].number() < 0);
    for (std::uint32_t b = 0; b < ranks.size(); ++b) {
      if (b == a) continue;
      const char said = static_cast<char>(16 * a + b);
      REQUIRE(send(ranks[a].met.peers[b].number(), &said, 1, 0) == 1);
      char heard = 0;
      for (int look = 0; look < 2000 && recv(ranks[b].met.peers[a].number(), &heard, 1, 0) != 1; ++look) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      CHECK(heard == said);
    }
  }
}

}  // namespace

TEST_CASE("ranks meet at a port or by a file, whoever comes first, and every two are connected", "[rendezvous]") {
  const test::TemporaryFolder folder;
  const bool by_file = GENERATE(false, true);
  const bool first_is_late = GENERATE(false, true);
  const std::uint32_t ranks = GENERATE(1U, 2U, 5U);
  const std::string place = by_file ? folder.file("meet") : "127.0.0.1:" + free_port();
  CAPTURE(place, first_is_late, ranks);
  auto met = all_meet(ranks, place, [&](std::uint32_t p, RendezvousOptions&) {
    if ((p == 0) == first_is_late) std::this_thread::sleep_for(std::chrono::milliseconds(120));
  });
  check_connected(met);
  CHECK_FALSE(std::filesystem::exists(folder.file("meet")));
}

TEST_CASE("ranks know who is on their host", "[rendezvous]") {
  auto met = all_meet(4, "127.0.0.1:" + free_port(),
                      [](std::uint32_t p, RendezvousOptions& o) { o.host = p % 2 == 0 ? 7 : 9; });
  check_connected(met);
  for (const Outcome& o : met) {
    CHECK(o.met.hosts == std::vector<std::uint64_t>{7, 9, 7, 9});
    CHECK(o.met.local_rank(3) == 1);
  }
}

TEST_CASE("what an earlier job has left in the file is passed over", "[rendezvous]") {
  const test::TemporaryFolder folder;
  test::write(folder.file("meet"), "orrery meeting 1\njob 0\n127.0.0.1 " + free_port() + "\n");
  auto met = all_meet(3, folder.file("meet"), [&](std::uint32_t p, RendezvousOptions&) {
    if (p == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  check_connected(met);
}

TEST_CASE("a rank that does not come is named by rank 0, and the others are told", "[rendezvous]") {
  const auto ranks = all_meet(4, "127.0.0.1:" + free_port(), [](std::uint32_t p, RendezvousOptions& o) {
    if (p == 0) o.limit = Seconds::of(2.0);
    if (p == 2) o.job = "another";  // never one of them
  });
  CHECK(
      ranks[0].error ==
      "rank 0 has waited 2 s for rank 2; a connection was turned away, from 127.0.0.1: rank 0 belongs to another job");
  CHECK(ranks[1].error == ranks[0].error);
  CHECK(ranks[3].error == ranks[0].error);
  CHECK(ranks[2].error == "rank 0 belongs to another job");
}

TEST_CASE("where rank 0 is missing, each says where it was to be", "[rendezvous]") {
  const std::string port = free_port();
  RendezvousOptions options;
  options.rank = 1;
  options.ranks = 2;
  options.limit = Seconds::of(0.2);
  options.place = MeetingPlace::of("127.0.0.1:" + port);
  CHECK_THROWS_WITH(meet(options), "rank 1 has waited 0.2 s for rank 0 at 127.0.0.1:" + port + ": Connection refused");
  options.place = MeetingPlace::of("/nowhere/meet");
  CHECK_THROWS_WITH(meet(options), "rank 1 has waited 0.2 s for rank 0 at /nowhere/meet: the file is not there");
  options.rank = 0;
  CHECK_THROWS_WITH(meet(options), "rank 0 cannot write /nowhere/meet: No such file or directory");
}

TEST_CASE("who has another number of ranks, another program or another's rank is told, and the job goes on waiting",
          "[rendezvous]") {
  const auto says = [](const std::vector<Outcome>& ranks, const std::string& text) {
    CHECK(ranks[2].error == text);
    const std::string waited =
        "rank 0 has waited 2 s for rank 2; a connection was turned away, from 127.0.0.1: " + text;
    for (int p = 0; p < 2; ++p) CHECK(ranks[static_cast<std::size_t>(p)].error == waited);
  };
  const auto last = [](std::uint32_t p, RendezvousOptions& o) {
    if (p == 0) o.limit = Seconds::of(2.0);
    if (p == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return p == 2;
  };
  says(all_meet(3, "127.0.0.1:" + free_port(),
                [&](std::uint32_t p, RendezvousOptions& o) { o.ranks = last(p, o) ? 4 : 3; }),
       "rank 0 expects 3 ranks, but rank 2 expects 4");
  says(all_meet(3, "127.0.0.1:" + free_port(),
                [&](std::uint32_t p, RendezvousOptions& o) { o.program = last(p, o) ? "orrery 2" : "orrery 1"; }),
       "rank 2 has another version of the program than rank 0");
  says(all_meet(3, "127.0.0.1:" + free_port(),
                [&](std::uint32_t p, RendezvousOptions& o) { o.rank = last(p, o) ? 1 : p; }),
       "two processes say that they are rank 1");
}

TEST_CASE("strangers at the port are no ranks", "[rendezvous]") {
  const std::string port = free_port();
  std::thread stranger([&] {
    for (int i = 0; i < 50; ++i) {
      const int s = socket(AF_INET, SOCK_STREAM, 0);
      sockaddr_in at{};
      at.sin_family = AF_INET;
      at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      at.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
      if (connect(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) {
        const std::string words(64, 'x');
        static_cast<void>(send(s, words.data(), i % 2 == 0 ? words.size() : 3, MSG_NOSIGNAL));
      }
      close(s);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  auto met = all_meet(3, "127.0.0.1:" + port, [&](std::uint32_t p, RendezvousOptions&) {
    if (p > 0) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  });
  stranger.join();
  check_connected(met);
}

TEST_CASE("a lower rank that does not answer at once is asked again, and one that goes is named", "[rendezvous]") {
  const bool goes = GENERATE(false, true);
  const std::string port = free_port(), second = free_port();
  const int here = listen_here(static_cast<std::uint16_t>(std::stoi(port)));
  // Rank 2 of 3 comes; ranks 0 and 1 are written out here.
  std::string heard;
  std::thread others([&] {
    const int s = accept(here, nullptr, nullptr);
    const WrittenHello hello = welcomed(s);
    const WrittenAnswer fine;
    static_cast<void>(send(s, &fine, sizeof fine, MSG_NOSIGNAL));
    if (!goes) {
      WrittenRow rows[3];
      rows[1].port = static_cast<std::uint32_t>(std::stoi(second));
      rows[2].port = hello.port;
      static_cast<void>(send(s, rows, sizeof rows, MSG_NOSIGNAL));
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      const int late = listen_here(static_cast<std::uint16_t>(std::stoi(second)));
      const int one = accept(late, nullptr, nullptr);
      heard = std::to_string(welcomed(one).rank);
      close(one);
      close(late);
    }
    close(s);
  });
  RendezvousOptions options;
  options.rank = 2;
  options.ranks = 3;
  options.limit = Seconds::of(20);
  options.place = MeetingPlace::of("127.0.0.1:" + port);
  std::string error;
  try {
    const Met met = meet(options);
    CHECK(met.peers.size() == 3);
  } catch (const Error& e) {
    error = e.what();
  }
  others.join();
  close(here);
  CHECK(error == (goes ? "rank 2 has lost rank 0 while the ranks met: it has closed the connection" : ""));
  CHECK(heard == (goes ? "" : "2"));
}

TEST_CASE("a lower rank that never answers is named with its address", "[rendezvous]") {
  const std::string port = free_port(), second = free_port();
  const int here = listen_here(static_cast<std::uint16_t>(std::stoi(port)));
  std::thread first([&] {
    const int s = accept(here, nullptr, nullptr);
    const WrittenHello hello = welcomed(s);
    const WrittenAnswer fine;
    WrittenRow rows[3];
    rows[1].port = static_cast<std::uint32_t>(std::stoi(second));
    rows[2].port = hello.port;
    static_cast<void>(send(s, &fine, sizeof fine, MSG_NOSIGNAL));
    static_cast<void>(send(s, rows, sizeof rows, MSG_NOSIGNAL));
    char end = 0;
    static_cast<void>(recv(s, &end, 1, 0));
    close(s);
  });
  RendezvousOptions options;
  options.rank = 2;
  options.ranks = 3;
  options.limit = Seconds::of(0.5);
  options.place = MeetingPlace::of("127.0.0.1:" + port);
  CHECK_THROWS_WITH(meet(options),
                    "rank 2 has tried for 0.5 s to connect to rank 1 at 127.0.0.1:" + second + ": Connection refused");
  first.join();
  close(here);
}
