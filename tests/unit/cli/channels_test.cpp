#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/support/program_run.hpp"

// Algorithms of collectives compared on a fabric, and channels that NCCL found, on the command line.

using namespace orrery::test;
using nlohmann::json;

namespace {

const std::string given = std::string(ORRERY_SOURCE_DIR) + "/tests/unit/sim/net/given/channels/";

}  // namespace

TEST_CASE("a fabric's crossover table has every algorithm that its switches allow", "[unit][cli]") {
  const Ran ran = run(ORRERY_PROGRAM, "show fabric dgx-h100-superpod --crossover --gpus 16 --json");
  REQUIRE(ran.status == 0);
  const json table = json::parse(ran.out);
  CHECK(table["gpus"] == 16);
  REQUIRE(table["all_reduce"].size() == 11);  // 1 KiB to 1 GiB by fours
  for (const auto& row : table["all_reduce"]) {
    CHECK(row["time_s"].size() == 7);
    CHECK(row["time_s"].contains("NVLS and rings"));
    CHECK(row["time_s"].contains("NVLS and trees"));
    CHECK_FALSE(row["time_s"].contains("NVLS and SHARP"));
  }
  // A small payload needs as few steps as possible. A large one needs as few bytes over the ports as possible.
  const auto& small = table["all_reduce"].front()["time_s"];
  const auto& large = table["all_reduce"].back()["time_s"];
  CHECK(small["recursive doubling"].get<double>() < small["ring"].get<double>());
  CHECK(large["NVLS and rings"].get<double>() < large["recursive doubling"].get<double>());
  CHECK(table["all_to_all"].back()["time_s"].contains("hierarchical"));
  const Ran text = run(ORRERY_PROGRAM, "show fabric dgx-h100-superpod --crossover --gpus 8");
  CHECK(text.out.find("all-reduce, bytes of each GPU\npayload") != std::string::npos);
  CHECK(text.out.find("NVLS") != std::string::npos);
  CHECK(run(ORRERY_PROGRAM, "show fabric dgx-h100-superpod --crossover --gpus 2000").status == 2);
  CHECK(run(ORRERY_PROGRAM, "show cluster dgx-h100 --crossover").status == 2);
}

TEST_CASE("NCCL's log becomes channels of a cluster", "[unit][cli]") {
  const Ran said = run(ORRERY_PROGRAM, "import " + given + "two-nodes.log");
  REQUIRE(said.status == 0);
  CHECK(said.out.find("# 4 ranks on 2 nodes\n") != std::string::npos);
  CHECK(said.out.find("# ring of channel 1: 0 3 2 1\n") != std::string::npos);
  CHECK(said.out.find("# 2 connections over P2P/CUMEM/read\n") != std::string::npos);
  CHECK(said.out.find("[[cluster.channels]]\nkind = \"tree\"\n") != std::string::npos);

  const std::filesystem::path mine =
      std::filesystem::temp_directory_path() / ("orrery-channels-" + std::to_string(getpid()) + ".toml");
  const Ran written =
      run(ORRERY_PROGRAM, "import " + given + "one-node.xml --cluster dgx-h100 --json -o " + mine.string());
  REQUIRE(written.status == 0);
  const json report = json::parse(written.out);
  CHECK(report["kind"] == "nccl-graph");
  CHECK(report["graphs"].size() == 3);
  CHECK(report["rings"][0] == json::array({0, 1, 2, 3}));
  const Ran shown = run(ORRERY_PROGRAM, "show cluster " + mine.string() + " --json");
  CHECK(json::parse(shown.out)["channels"].size() == 3);
  std::filesystem::remove(mine);

  CHECK(run(ORRERY_PROGRAM, "import " + given + "of-two-nodes.xml").status == 2);
  CHECK(run(ORRERY_PROGRAM, "import " + given + "of-two-nodes.xml --nodes 2").status == 0);
  CHECK(run(ORRERY_PROGRAM, "import " + given + "two-nodes.log --gpu h100").status == 2);
}
