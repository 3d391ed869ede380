#include <catch2/catch.hpp>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tests/support/program_run.hpp"
#include "tests/support/signal_rank.hpp"

using namespace orrery;

namespace {

test::Ran run_over_mpi(int processes, const std::string& arguments) {
  return test::run(ORRERY_MPIRUN, "-n " + std::to_string(processes) + " " ORRERY_PROGRAM " " + arguments);
}

/// How often a piece of text occurs.
int occurrences(const std::string& text, const std::string& piece) {
  int n = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a run over MPI prints what a run on threads prints, and the same losses", "[mpi]") {
  const std::string arguments = "run demo-2x2x2 --steps 2 --warmup 0 --json";
  const test::Ran mpi = run_over_mpi(8, arguments + " --backend mpi");
  CAPTURE(mpi.err);
  REQUIRE(mpi.status == 0);
  const test::Ran threads = test::run(ORRERY_PROGRAM, arguments);
  REQUIRE(threads.status == 0);
  const auto a = nlohmann::json::parse(mpi.out);
  const auto b = nlohmann::json::parse(threads.out);
  for (const char* same : {"losses", "sent_bytes", "peak_memory_bytes", "recorded_steps", "complete"}) {
    CAPTURE(same);
    CHECK(a.at(same) == b.at(same));
  }
  CHECK(a.at("origin") == "run mpi");
  CHECK(b.at("origin") == "run threads");
  for (const auto& [key, value] : b.items()) {
    CAPTURE(key);
    CHECK(a.contains(key));
  }
}

// Sums have another order, so losses, near 4, differ by the rounding of fp32 and its growth over two steps.
TEST_CASE("MPI's own collectives give the losses of ours up to rounding, and the report names them", "[mpi]") {
  const std::string arguments = "run demo-2x2x2 --steps 2 --warmup 0 --json";
  const test::Ran mpi = run_over_mpi(8, arguments + " --backend mpi --mpi-collectives");
  CAPTURE(mpi.err);
  REQUIRE(mpi.status == 0);
  const test::Ran threads = test::run(ORRERY_PROGRAM, arguments);
  REQUIRE(threads.status == 0);
  const auto a = nlohmann::json::parse(mpi.out);
  const auto b = nlohmann::json::parse(threads.out);
  REQUIRE(a.at("losses").size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(a.at("losses")[i].get<double>() == Approx(b.at("losses")[i].get<double>()).epsilon(1e-5));
  }
  CHECK(a.at("peak_memory_bytes") == b.at("peak_memory_bytes"));
  // Only messages between stages are counted.
  CHECK(a.at("sent_bytes").get<std::uint64_t>() > 0);
  CHECK(a.at("sent_bytes").get<std::uint64_t>() < b.at("sent_bytes").get<std::uint64_t>());
  CHECK(a.at("assumptions").dump().find("their bytes are not counted") != std::string::npos);
}

TEST_CASE("MPI's own collectives need MPI, and one operation at a time", "[mpi]") {
  const test::Ran threads = test::run(ORRERY_PROGRAM, "run demo-2x2x2 --mpi-collectives");
  CHECK(threads.status == 2);
  CHECK(threads.err.find("--mpi-collectives is for --backend mpi [cli.mpi-collectives]") != std::string::npos);
  const test::Ran lanes = run_over_mpi(8, "run demo-2x2x2 --backend mpi --mpi-collectives --lanes concurrent");
  CHECK(lanes.status == 2);
  CHECK(occurrences(lanes.err, "--mpi-collectives needs one operation at a time [cli.mpi-collectives]") == 1);
}

TEST_CASE("collectives of a plan's groups are measured over MPI", "[mpi]") {
  const test::TemporaryFolder folder;
  const std::string own = GENERATE("", " --mpi-collectives");
  const test::Ran ran = run_over_mpi(
      8, "run demo-2x2x2 --backend mpi --steps 2 --json --measure-groups " + folder.file("groups.csv") + own);
  CAPTURE(own, ran.err);
  REQUIRE(ran.status == 0);
  const auto json = nlohmann::json::parse(ran.out);
  CHECK(json.at("ranks") == 8);
  CHECK(json.at("groups").size() >= 5);
  for (const auto& group : json.at("groups")) {
    CAPTURE(group.dump());
    CHECK(group.at("latency_s").get<double>() >= 0.0);
    CHECK(group.at("bytes_per_s").get<double>() > 0.0);
    CHECK(group.at("sizes").size() == 7);  // 1 KiB to 4 MiB in steps of 4
  }
  const std::string table = test::contents(folder.file("groups.csv"));
  CHECK(occurrences(table, "\n") == static_cast<int>(1 + 7 * json.at("groups").size()));
}

TEST_CASE("a wrong number of processes is said once, with the right one, and stands in the log", "[mpi]") {
  const test::TemporaryFolder folder;
  const test::Ran wrong = run_over_mpi(3, "run demo-2x2x2 --backend mpi --log " + folder.file("log"));
  CHECK(wrong.status == 2);
  CHECK(occurrences(wrong.err, "the plan has 8 ranks, but 3 processes were started [cli.world-size]") == 1);
  CHECK(wrong.err.find("mpirun -n 8 orrery run") != std::string::npos);
  CHECK(wrong.out.empty());
  const auto event = nlohmann::json::parse(test::contents(folder.file("log")));
  CHECK(event.at("event") == "failure");
}

TEST_CASE("a mistake in the plan is said once", "[mpi]") {
  const test::Ran wrong = run_over_mpi(2, "run no-such-plan --backend mpi");
  CHECK(wrong.status == 2);
  CHECK(occurrences(wrong.err, "error: ") == 1);
}

// The launcher kills the others. First one of them says who is gone and what all were doing.
TEST_CASE("a process that is killed or stopped is named with its op, and all are gone", "[mpi]") {
  const int signal = GENERATE(SIGKILL, SIGSTOP);
  const std::string collectives = GENERATE("", " --mpi-collectives");
  const test::TemporaryFolder folder;
  const Rank victim{5};
  std::thread killer([&] { test::signal_rank(folder.file(""), victim, signal); });
  const auto start = std::chrono::steady_clock::now();
  const test::Ran ended = run_over_mpi(
      8, "run demo-2x2x2 --backend mpi --steps 1000000 --heartbeat 0.5 --records " + folder.file("") + collectives);
  killer.join();
  CAPTURE(signal, collectives, ended.err, ended.out);
  CHECK(ended.status != 0);
  CHECK(occurrences(ended.err, "error: rank 5 ") == 1);
  CHECK(ended.err.find(signal == SIGKILL ? " is gone: process " : " is stopped (SIGSTOP") != std::string::npos);
  CHECK(occurrences(ended.err, "\n  rank ") == 8);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(100));
}
