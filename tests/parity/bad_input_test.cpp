// Mistakes in a run of several processes: one process reports them, the exit status is that of docs/running.md, and no
// process is left.

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/support/program_run.hpp"

using namespace orrery;

namespace {

int occurrences(const std::string& text, const std::string& piece) {
  int n = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

/// Number of processes that have this argument, without the shell that waits for them.
int processes_with(const std::string& argument) {
  int n = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream in(entry.path() / "cmdline", std::ios::binary);
    const std::string line((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    n += line.find(argument) != std::string::npos ? 1 : 0;
  }
  return n;
}

void damage(const std::string& file, std::size_t at) {
  std::string bytes = test::contents(file);
  REQUIRE(bytes.size() > at);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  test::write(file, bytes);
}

}  // namespace

// torchrun, srun and mpirun end all processes once one has failed. Rank 0's words go into a pipe that is full for two
// seconds. Rank 1, which has nothing to say, must not have ended by then.
TEST_CASE("of a job's processes the one that says what is wrong does not see the others end first", "[processes]") {
  const test::TemporaryFolder folder;
  const auto rank = [&](int r) {
    return std::string(ORRERY_PROGRAM) + " run demo-2x2x2 --backend cuda --rank " + std::to_string(r) +
           " --world-size 2 --watchdog 20 --rendezvous " + folder.file("place");
  };
  const std::string pipe = folder.file("pipe"), said = folder.file("said");
  constexpr int room = 65536;  // of a pipe, in bytes: pipe(7)
  const std::string script =
      "mkfifo " + pipe + "; exec 3<>" + pipe + "; head -c " + std::to_string(room) + " /dev/zero >&3; " + rank(0) +
      " 2>" + pipe + " 3>&- & first=$!; " + rank(1) +
      " 3>&- & second=$!; sleep 2; kill -0 $second && echo waits; exec 4<" + pipe + "; exec 3>&-; cat <&4 >" + said +
      " & drain=$!; exec 4<&-; wait $drain; wait $first; a=$?; wait $second; exit $((10 * a + $?))";
  const test::Ran ran = test::run("bash", "-c '" + script + "'");
  CAPTURE(ran.err);
  CHECK(ran.out == "waits\n");
  CHECK(ran.err.empty());
  CHECK(ran.status == 22);
  const std::string text = test::contents(said);
  REQUIRE(text.size() > room);
  CHECK(text.find("the plan has 8 ranks, but 2 processes were started [cli.world-size]") != std::string::npos);
}

TEST_CASE("bad input to several processes is said once, ends all of them, and with the status that is documented",
          "[processes]") {
  const test::TemporaryFolder folder;
  // Its path is an argument of every process below.
  const auto file = [&](const char* name) { return folder.file(name); };
  const std::string program = ORRERY_PROGRAM;
  const std::string demo = "run demo-2x2x2 --steps 1 --warmup 0 --records " + folder.file("");
  REQUIRE(test::run(program, demo + " --checkpoint " + file("saved")).status == 0);
  std::filesystem::copy(file("saved"), file("damaged"), std::filesystem::copy_options::recursive);
  damage(file("damaged/0001-step-1/rank-00005.bin"), 4000);
  test::write(file("newer.toml"), "schema = 99\n");

  struct Wrong {
    const char* what;
    std::string arguments;
    int status;
    std::vector<std::string> says;
  };
  // A job that others start: rank 1 beside rank 0, both statuses as digits.
  const auto two = [&](const std::string& arguments) {
    const auto rank = [&](int r) {
      return program + " " + arguments + " --backend cuda --rank " + std::to_string(r) +
             " --world-size 2 --watchdog 20 --rendezvous " + file("place");
    };
    return "-c '" + rank(1) + " & " + rank(0) + "; s=$?; wait $!; exit $((10 * s + $?))'";
  };
  const std::vector<Wrong> all = {
      {"wrong world size", demo + " --ranks 4", 2, {"--ranks is 4, but the plan has 8 ranks [cli.ranks]"}},
      {"wrong world size of a job",
       two(demo),
       22,
       {"the plan has 8 ranks, but 2 processes were started [cli.world-size]", "mpirun -n 8 orrery run"}},
      {"a peer that is missing",
       demo + " --backend cuda --rank 0 --world-size 8 --watchdog 1 --rendezvous " + file("alone"),
       3,
       {"rank 0 has waited 1 s for ranks 1, 2, 3, 4, 5, 6, 7"}},
      {"a file of a newer version", "run " + file("newer.toml") + " --ranks 8", 2, {"newer.toml:1:", "99"}},
      {"not enough memory",
       "run llama-3-70b-8-dgx-h100 --ranks 64 --records " + folder.file(""),
       3,
       {"the ranks need ", " TiB together; this machine has "}},
      {"a checkpoint with another byte",
       demo + " --ranks 8 --resume --checkpoint " + file("damaged"),
       3,
       {"no checkpoint in " + file("damaged") + " is whole", "rank-00005.bin is damaged", "checksum"}},
      {"no checkpoint", demo + " --ranks 8 --resume --checkpoint " + file("nothing"), 2, {file("nothing")}},
      {"a full disk under the log",
       demo + " --ranks 8 --log /dev/full",
       3,
       {"rank 0 failed between steps: cannot write /dev/full: No space left on device", "\n  rank 7: between ops"}},
      // The shell's limit of a file, in units of 512 bytes, stands for the disk's end; the ranks' records are below it.
      {"a full disk under a checkpoint",
       "-c 'trap \"\" XFSZ; ulimit -f 80; " + program + " " + demo + " --ranks 8 --checkpoint " + file("full") + "'",
       3,
       {"rank 0 failed between steps: no checkpoint of step 1: cannot write " + file("full"), "File too large"}},
  };
  for (const Wrong& wrong : all) {
    const bool shell = wrong.arguments.rfind("-c ", 0) == 0;
    const test::Ran ran = test::run(shell ? "sh" : program, wrong.arguments);
    CAPTURE(wrong.what, wrong.arguments, ran.err);
    CHECK(ran.status == wrong.status);
    CHECK(ran.out.empty());
    CHECK(occurrences(ran.err, "error: ") == 1);
    for (const std::string& text : wrong.says) CHECK(ran.err.find(text) != std::string::npos);
    CHECK(processes_with(folder.file("")) == 0);
  }
  // The unfinished checkpoint that a full disk left is gone.
  CHECK((!std::filesystem::exists(file("full")) || std::filesystem::is_empty(file("full"))));
}
