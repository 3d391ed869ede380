#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// What `calibrate --backend cuda` measures of a GPU prices plans for Orrery's own executor there, and no others.
// Threads stand in for the GPU; what they measure is put where a GPU's constants would be written.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string program = std::string("ORRERY_CUDA_MODULE=stand-in ") + ORRERY_PROGRAM;

std::string plan(const std::string& begin) {
  return begin +
         "schema = 1\nname = \"one\"\nmodel = \"tiny-gpt\"\ncluster = \"dgx-h100\"\n[workload]\nbatch = 8\nsequence = "
         "64\n"
         "precision = \"bf16\"\n[mesh]\norder = [\"data\"]\ndata = 8\n[plan]\nmicrobatch_size = 1\n";
}

/// An estimate with a home where the GPU's constants are, or are not.
json estimate(const std::string& file, const std::string& home, const std::string& more = "") {
  const Ran ran = run("XDG_DATA_HOME=" + home + " " + ORRERY_PROGRAM, "estimate " + file + " --json " + more);
  CAPTURE(file, ran.err);
  REQUIRE(ran.status == 0);
  return json::parse(ran.out);
}

}  // namespace

TEST_CASE("a GPU's measured constants change predictions for Orrery's own executor alone", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string own = folder.file("own.toml"), other = folder.file("other.toml"), none = folder.file("none.toml");
  write(own, plan("for = \"orrery-cuda\"\n"));
  write(other, plan("for = \"megatron-core\"\n"));
  write(none, plan(""));
  const std::string measured = folder.file("measured.toml");
  const Ran ran = run(program, "calibrate --backend cuda -o " + measured);
  CAPTURE(ran.err, ran.out);
  REQUIRE(ran.status == 0);
  CHECK(contents(measured).find("a rehearsal: threads that stand in for a GPU") != std::string::npos);
  const std::string before = folder.file("before"), after = folder.file("after");
  std::filesystem::create_directories(after + "/orrery/calibration");
  std::filesystem::copy(measured, after + "/orrery/calibration/orrery-cuda-h100.toml");

  for (const std::string& file : {other, none}) CHECK(estimate(file, before) == estimate(file, after));
  const json shipped = estimate(own, before), mine = estimate(own, after);
  CHECK(shipped["software"]["name"] == "none");
  CHECK(mine["software"]["name"] == "none");
  CHECK(mine["step_time_s"].get<double>() > 2.0 * shipped["step_time_s"].get<double>());  // a core is no H100
  // A file that is named goes before.
  CHECK(estimate(own, before, "--calibration " + measured)["step_time_s"] == mine["step_time_s"]);
  CHECK(estimate(own, after, "--software megatron-core")["software"]["name"] == "megatron-core");
}

TEST_CASE("threads that stand in for a GPU leave no constants for it", "[unit][cli]") {
  const Ran ran = run(program, "calibrate --backend cuda");
  CHECK(ran.status == 2);
  CHECK(ran.err ==
        "error: --backend cuda on threads that stand in for a GPU needs -o: the file to write [cli.output]\n"
        "  Predictions for a GPU must not come from them.\n");
}

TEST_CASE("Orrery's own executor launches every plan but one algorithm for all collectives", "[unit][cli]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("plan.toml");
  write(file, plan("for = \"orrery-cuda\"\n") + "collective_algorithm = \"ring\"\n");
  const Ran ran = run(ORRERY_PROGRAM, "check " + file);
  CHECK(ran.status == 2);
  CHECK(ran.err.find("orrery run --backend cuda does not launch this combination [framework.cannot]") !=
        std::string::npos);
  CHECK(ran.err.find("NCCL takes its own algorithm for each collective.") != std::string::npos);
  CHECK(run(ORRERY_PROGRAM, "plan --for orrery-cuda --model tiny-gpt --cluster dgx-h100 --gpus 8 --batch 8 --seq 64 " +
                                short_search + "-o " + folder.file("found.toml"))
            .status == 0);
  CHECK(contents(folder.file("found.toml")).find("for = \"orrery-cuda\"") != std::string::npos);
}
