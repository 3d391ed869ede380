#include <catch2/catch.hpp>

#include "tests/unit/validate/runs.hpp"
#include "validate/run_cluster.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("links between two GPUs are counted where a row says so", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.intra_link = "NVLink3 (4 links inter-GPU)";
  const RunCluster counted = run_cluster(run, shipped_library());
  REQUIRE(counted.cluster);
  CHECK(counted.cluster->levels.front().bandwidth == 100.0 * gigabyte_per_second);  // 4 x 25 GB/s
  run.intra_link = "NVLink3 NVSwitch";
  CHECK(run_cluster(run, shipped_library()).cluster->levels.front().bandwidth == 300.0 * gigabyte_per_second);
}

TEST_CASE("a network cell is shared out to the GPUs of a node", "[unit][validate]") {
  const auto gbit = [](const char* text, std::uint32_t per_node) {
    const auto share = network_share(text, per_node);
    return share ? share->base() * 8.0 / 1e9 : -1.0;
  };
  CHECK(gbit("8x200Gb/s HDR InfiniBand per node (Selene)", 8) == Approx(200.0));
  CHECK(gbit("4x100 Gb/s Omni-Path per node", 8) == Approx(50.0));
  CHECK(gbit("1x100 Gb/s EDR InfiniBand per node", 8) == Approx(12.5));
  CHECK(gbit("1600 Gb/s node-node RoCE", 8) == Approx(200.0));
  CHECK(gbit("400 Gb/s RDMA per GPU", 8) == Approx(400.0));
  for (const char* unclear : {"", "fast", "8x", "8x200", "200 Gb/s", "0 Gb/s per GPU", "1 Gb/s per GPU per node"}) {
    CAPTURE(unclear);
    CHECK(gbit(unclear, 8) == -1.0);
  }
}

TEST_CASE("a row's machine is a shipped one with what the row says of it", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.gpus = 64;
  run.inter_net = "4x100 Gb/s Omni-Path per node";
  const RunCluster machine = run_cluster(run, shipped_library());
  REQUIRE(machine.cluster);
  CHECK(machine.cluster->nodes == 8);
  CHECK(machine.cluster->device.calibration == "a100-80");
  CHECK(machine.cluster->levels.back().bandwidth.base() == Approx(50e9 / 8));
  CHECK(machine.filled.empty());

  run.gpu_mem_gb = 40;
  run.intra_link = "";
  run.inter_net = "";
  run.gpus_per_node = {};
  const RunCluster other = run_cluster(run, shipped_library());
  REQUIRE(other.cluster);
  CHECK(other.cluster->device.calibration == "a100-40");
  CHECK(other.filled == std::vector<std::string>{"gpus_per_node", "intra_link", "inter_net"});

  run.intra_link = "PCIe";
  const RunCluster slow = run_cluster(run, shipped_library());
  REQUIRE(slow.cluster);
  CHECK(slow.cluster->levels.front().bandwidth == *slow.cluster->host_link);
}

TEST_CASE("racks of trays hold as many GPUs as jobs take", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.gpu = "GB200";
  run.gpu_mem_gb = {};
  run.gpus_per_node = {};
  run.intra_link = "NVLink5 NVL72 rack domain";
  for (const std::uint64_t gpus : {8U, 64U, 128U, 256U}) {
    run.gpus = gpus;
    const RunCluster machine = run_cluster(run, shipped_library());
    REQUIRE(machine.cluster);
    CHECK(machine.cluster->devices() == gpus);
    CHECK(machine.filled.empty() == (gpus <= 64));  // racks are joined by a network that the row does not state
  }
}

TEST_CASE("a machine that is not known is said so", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.gpu = "TPU";
  CHECK(run_cluster(run, shipped_library()).reason == "no device file is for the GPU \"TPU\"");
  run = dense_run();
  run.gpus = {};
  CHECK(run_cluster(run, shipped_library()).reason == "not published: gpus");
  run = dense_run();
  run.inter_net = "pigeons";
  CHECK(run_cluster(run, shipped_library()).reason == "the network \"pigeons\" is not understood");
  run = dense_run();
  run.gpus = 12;
  CHECK(run_cluster(run, shipped_library()).reason == "12 GPUs are not a whole number of nodes of dgx-a100");
}
