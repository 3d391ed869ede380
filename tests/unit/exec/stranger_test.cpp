#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/fnv.hpp"
#include "exec/comm/proof.hpp"
#include "exec/comm/socket_communicator.hpp"
#include "tests/support/program_run.hpp"
#include "tests/unit/exec/meeting.hpp"

using namespace orrery;
using test::all_meet;
using test::free_port;

// Processes of no job, which come where ranks meet or listen where ranks look for each other.
namespace {

constexpr const char* token = "a secret of sixteen or more";

/// Connects as soon as somebody listens; keeps what it hears after it has said `words`, until the other side closes.
class Stranger {
 public:
  explicit Stranger(const std::string& port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
    for (int i = 0; i < 2000; ++i) {
      socket_ = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(socket_, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return;
      close(socket_);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    socket_ = -1;
  }
  ~Stranger() { close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void say(const void* data, std::size_t bytes) const { static_cast<void>(send(socket_, data, bytes, MSG_NOSIGNAL)); }
  /// Reads this many bytes, or all that come before the other side closes.
  [[nodiscard]] std::string hear(std::size_t most = 4096) const {
    std::string all(most, '\0');
    std::size_t got = 0;
    for (ssize_t n = 0; got < most && (n = recv(socket_, all.data() + got, most - got, 0)) > 0;) {
      got += static_cast<std::size_t>(n);
    }
    all.resize(got);
    return all;
  }

 private:
  int socket_ = -1;
};

/// Addresses (hexadecimal, network order) at which this process's sockets listen.
std::vector<std::string> listening() {
  std::vector<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string link = std::filesystem::read_symlink(entry, gone).string();
    if (link.starts_with("socket:[")) own.push_back(link.substr(8, link.size() - 9));
  }
  std::vector<std::string> found;
  std::ifstream in("/proc/self/net/tcp");
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, skip, inode;
    fields >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skip;
    fields >> inode;
    const bool is_own = std::find(own.begin(), own.end(), inode) != own.end();
    if (state == "0A" && is_own) found.push_back(local.substr(0, 8));
  }
  return found;
}

}  // namespace

TEST_CASE("strangers learn nothing, and neither what they say nor their silence ends or delays the job",
          "[rendezvous][stranger]") {
  const std::string port = free_port();
  std::string of_old, of_noise, of_guess;
  std::vector<std::unique_ptr<Stranger>> silent;
  std::thread strangers([&] {
    for (int i = 0; i < 300; ++i) silent.push_back(std::make_unique<Stranger>(port));
    // This is the hello of the protocol's second version, with the right name of the job.
    struct {
      std::uint64_t kind = 0x32767a795252524fULL;
      std::uint32_t rank = 1, ranks = 3;
      std::uint64_t job = fnv1a("job 1"), program = 0, host = 1;
      std::uint32_t port = 1, rest = 0;
    } const hello;
    const Stranger old(port);
    old.say(&hello, sizeof hello);
    of_old = old.hear();
    const Stranger noise(port);
    noise.say(std::string(200, 'x').data(), 200);
    of_noise = noise.hear();
    const Stranger guess(port);
    const Opening opening = Opening::fresh();
    guess.say(&opening, sizeof opening);
    Opening theirs;
    of_guess = guess.hear(sizeof theirs);
    if (of_guess.size() == sizeof theirs) std::memcpy(&theirs, of_guess.data(), sizeof theirs);
    const Digest proof = proof_of_comer("another secret, as long", opening, theirs);
    guess.say(proof.data(), proof.size());
    of_guess += guess.hear();
  });
  std::mutex mutex;
  std::vector<std::string> warned;
  const auto start = std::chrono::steady_clock::now();
  const auto met = all_meet(3, "127.0.0.1:" + port, [&](std::uint32_t p, RendezvousOptions& o) {
    o.token = token;
    o.limit = Seconds::of(60);
    o.warn = [&, p](const std::string& what) {
      const std::lock_guard lock(mutex);
      if (p == 0) warned.push_back(what);
    };
    if (p == 2) strangers.join();
  });
  for (const test::Outcome& o : met) CHECK(o.error.empty());
  // If each of 300 in turn took as long as one may be silent, it would take 25 minutes.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(40));
  CHECK(of_old.empty());
  CHECK(of_noise.empty());
  CHECK(of_guess.size() == sizeof(Opening));  // a nonce, and no word more
  REQUIRE(warned.size() == 1);
  CHECK_THAT(warned[0], Catch::StartsWith("rank 0: a connection was turned away, from 127.0.0.1: "));
}

TEST_CASE("a rank with another token is turned away, and both sides say so", "[rendezvous][stranger]") {
  const auto met = all_meet(2, "127.0.0.1:" + free_port(), [&](std::uint32_t p, RendezvousOptions& o) {
    o.token = p == 0 ? token : "another secret, as long";
    o.limit = Seconds::of(p == 0 ? 2.0 : 1.0);
  });
  CHECK_THAT(met[0].error, Catch::StartsWith("rank 0 has waited 2 s for rank 1; ") &&
                               Catch::EndsWith("from 127.0.0.1: it does not have the job's token"));
  CHECK_THAT(met[1].error, Catch::StartsWith("rank 1 has waited 1 s for rank 0 at 127.0.0.1:") &&
                               Catch::Contains(": it has closed the connection when it had seen this rank's proof: it "
                                               "may have another token"));
}

TEST_CASE("who listens in rank 0's place without the token is told nothing of the job", "[rendezvous][stranger]") {
  const int here = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(bind(here, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(listen(here, 8) == 0);
  socklen_t size = sizeof at;
  getsockname(here, reinterpret_cast<sockaddr*>(&at), &size);
  std::size_t heard = 0;
  std::thread impostor([&] {
    const int s = accept(here, nullptr, nullptr);
    const Opening own = Opening::fresh();
    static_cast<void>(send(s, &own, sizeof own, MSG_NOSIGNAL));
    const Digest guess{};
    static_cast<void>(send(s, guess.data(), guess.size(), MSG_NOSIGNAL));
    char all[4096];
    for (ssize_t n = 0; (n = recv(s, all, sizeof all, 0)) > 0;) heard += static_cast<std::size_t>(n);
    close(s);
  });
  RendezvousOptions options;
  options.rank = 1;
  options.ranks = 2;
  options.limit = Seconds::of(0.3);
  options.place = MeetingPlace::of("127.0.0.1:" + std::to_string(ntohs(at.sin_port)));
  options.token = token;
  CHECK_THROWS_AS(meet(options), Error);
  close(here);
  impostor.join();
  CHECK(heard == sizeof(Opening) + sizeof(Digest));
}

TEST_CASE("ranks listen at the address where they meet, and at no other", "[rendezvous][stranger]") {
  std::vector<std::string> seen;
  const auto met = all_meet(4, "127.0.0.1:" + free_port(), [&](std::uint32_t p, RendezvousOptions& o) {
    if (p == 0) o.limit = Seconds::of(1.5);
    if (p < 3) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    seen = listening();
    o.limit = Seconds::of(0.1);
    o.job = "another";
  });
  CHECK(seen == std::vector<std::string>(3, "0100007F"));
}

TEST_CASE("a file carries a token, and one that others may read or have written is not relied on",
          "[rendezvous][stranger]") {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("meet");
  std::string text;
  mode_t mode = 0;
  auto met = all_meet(2, file, [&](std::uint32_t p, RendezvousOptions& o) {
    o.limit = Seconds::of(20);
    if (p == 0) return;
    for (int i = 0; i < 2000 && !std::filesystem::exists(file); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    text = test::contents(file);
    struct stat is {};
    if (stat(file.c_str(), &is) == 0) mode = is.st_mode & 0777;
  });
  CHECK(met[1].error.empty());
  CHECK(mode == 0600);
  // "orrery meeting 2", the job, an address with its port, and 32 bytes.
  std::istringstream lines(text);
  std::string kind, job, address, secret;
  CHECK((std::getline(lines, kind) && std::getline(lines, job) && std::getline(lines, address) &&
         std::getline(lines, secret)));
  CHECK(secret.size() == 64);
  CHECK(secret.find_first_not_of("0123456789abcdef") == std::string::npos);

  test::write(file, "orrery meeting 2\njob 1\n127.0.0.1 " + free_port() + "\n" + secret + "\n");
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  RendezvousOptions options;
  options.rank = 1;
  options.ranks = 2;
  options.job = "job 1";
  options.limit = Seconds::of(0.2);
  options.place = MeetingPlace::of(file);
  CHECK_THROWS_WITH(meet(options), "rank 1 has waited 0.2 s for rank 0 at " + file +
                                       ": other users have access to the file, so they may know its token");
  options.token = token;  // then nothing is taken from there but the address
  CHECK_THROWS_WITH(meet(options), Catch::EndsWith(": Connection refused"));
}

TEST_CASE("a token is needed where a network leads, and only there", "[rendezvous][stranger]") {
  CHECK_FALSE(needs_token(MeetingPlace::of("127.0.0.1:29500")));
  CHECK_FALSE(needs_token(MeetingPlace::of("localhost:29500")));
  CHECK_FALSE(needs_token(MeetingPlace::of("/shared/meet")));
  CHECK(needs_token(MeetingPlace::of("192.0.2.7:29500")));
  RendezvousOptions options;
  options.ranks = 2;
  options.limit = Seconds::of(0.2);
  options.place = MeetingPlace::of("0.0.0.0:29500");
  CHECK_THROWS_WITH(meet(options), "rank 0 cannot listen at 0.0.0.0:29500: ranks cannot meet at the address 0.0.0.0");
}

namespace {

struct WrittenHeader {
  std::uint64_t tag = 0, bytes = 0;
  std::int64_t ready = 0;
  std::uint64_t acknowledges = 0;
};

/// Rank 0's reason to end a run in which rank 1 sends these bytes, while rank 0 waits for `expected` bytes.
std::string reason_after(const WrittenHeader& header, std::size_t expected) {
  std::vector<std::vector<Socket>> rows = connected_sockets(2);
  const int other = rows[1][0].number();
  SocketWorld world(Rank{0}, std::move(rows[0]), {});
  static_cast<void>(send(other, &header, sizeof header, MSG_NOSIGNAL));
  std::vector<std::byte> bytes(expected);
  const Piece piece{bytes.data(), bytes.size()};
  const Message wanted{false, Rank{1}, 7, std::span<const Piece>(&piece, 1)};
  CHECK_THROWS_AS(world.communicator(Rank{0}).exchange(std::span<const Message>(&wanted, 1), 0), Aborted);
  return world.reason();
}

}  // namespace

TEST_CASE("what no rank sends ends the run with a reason, and takes no memory", "[stranger]") {
  CHECK_THAT(reason_after({8, std::uint64_t{1} << 62, 0, 0}, 8),
             Catch::StartsWith(
                 "rank 0 ends the run: rank 1 announces a message of 4611686018427387904 bytes, but this host has "));
  CHECK(reason_after({7, 9, 0, 0}, 8) == "rank 0 ends the run: rank 1 sends 9 bytes where 8 are expected");
  CHECK(reason_after({7, 0, 0, 1}, 8) == "rank 0 ends the run: rank 1 acknowledges a message that was not sent to it");
}

TEST_CASE("a long message that comes before its receive arrives whole", "[stranger]") {
  std::vector<std::vector<Socket>> rows = connected_sockets(2);
  std::vector<std::unique_ptr<SocketWorld>> worlds;
  for (std::uint32_t r = 0; r < 2; ++r) {
    worlds.push_back(std::make_unique<SocketWorld>(Rank{r}, std::move(rows[r]), WaitOptions{}));
  }
  std::vector<std::byte> sent(std::size_t{21} << 20), got(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 2654435761U >> 13);
  std::byte small{};
  const auto exchange = [&](std::uint32_t rank, bool send, std::uint64_t tag, std::byte* data, std::size_t bytes) {
    const Piece piece{data, bytes};
    const Message m{send, Rank{1 - rank}, tag, std::span<const Piece>(&piece, 1)};
    worlds[rank]->communicator(Rank{rank}).exchange(std::span<const Message>(&m, 1), 0);
  };
  std::thread sender([&] {
    const Piece pieces[2] = {{sent.data(), sent.size()}, {&small, 1}};
    const Message both[2] = {{true, Rank{0}, 1, std::span(pieces, 1)}, {true, Rank{0}, 2, std::span(pieces + 1, 1)}};
    worlds[1]->communicator(Rank{1}).exchange(both, 0);
  });
  exchange(0, false, 2, &small, 1);  // the long one comes first, and lies beside
  exchange(0, false, 1, got.data(), got.size());
  sender.join();
  CHECK(got == sent);
}
