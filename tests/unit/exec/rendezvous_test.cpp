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
#include "exec/comm/rendezvous.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;

// Ranks are threads here; they meet as processes do, over TCP.
namespace {

/// A port that nobody has now.
std::string free_port() {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  socklen_t size = sizeof at;
  getsockname(s, reinterpret_cast<sockaddr*>(&at), &size);
  close(s);
  return std::to_string(ntohs(at.sin_port));
}

struct Outcome {
  Met met;
  std::string error;
};

/// All ranks meet, each with its own view of the job.
std::vector<Outcome> all_meet(std::uint32_t processes, const std::string& place,
                              const std::function<void(std::uint32_t, RendezvousOptions&)>& change = {}) {
  std::vector<Outcome> outcomes(processes);
  std::vector<std::thread> threads;
  for (std::uint32_t p = 0; p < processes; ++p) {
    threads.emplace_back([&, p] {
      RendezvousOptions options;
      options.rank = p;
      options.ranks = processes;
      options.place = MeetingPlace::of(place);
      options.job = "job 1";
      options.program = "orrery 1";
      options.limit = Seconds::of(20);
      options.host = 1;
      if (change) change(p, options);
      try {
        outcomes[p].met = meet(options);
      } catch (const Error& e) {
        outcomes[p].error = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  return outcomes;
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
    o.limit = Seconds::of(p == 0 ? 0.5 : 20.0);
    if (p == 2) o.job = "another";  // never one of them
    if (p == 2) o.limit = Seconds::of(0.1);
  });
  CHECK(ranks[0].error == "rank 0 has waited 0.5 s for rank 2");
  CHECK(ranks[1].error == ranks[0].error);
  CHECK(ranks[3].error == ranks[0].error);
  CHECK(ranks[2].error == "rank 0 is of another job, job 1");
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

TEST_CASE("another number of ranks, another program and two of one rank end the job for all", "[rendezvous]") {
  const auto all_say = [](const std::vector<Outcome>& ranks, const std::string& text) {
    for (const Outcome& o : ranks) CHECK(o.error == text);
  };
  const auto last = [](std::uint32_t p) {
    if (p == 2) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return p == 2;
  };
  all_say(all_meet(3, "127.0.0.1:" + free_port(),
                   [&](std::uint32_t p, RendezvousOptions& o) { o.ranks = last(p) ? 4 : 3; }),
          "rank 0 expects 3 ranks, and rank 2 expects 4");
  all_say(all_meet(3, "127.0.0.1:" + free_port(),
                   [&](std::uint32_t p, RendezvousOptions& o) { o.program = last(p) ? "orrery 2" : "orrery 1"; }),
          "rank 2 has another version of the program than rank 0");
  all_say(
      all_meet(3, "127.0.0.1:" + free_port(), [&](std::uint32_t p, RendezvousOptions& o) { o.rank = last(p) ? 1 : p; }),
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
