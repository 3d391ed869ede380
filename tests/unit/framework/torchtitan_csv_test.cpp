#include <filesystem>
#include <fstream>

#include "framework/torchtitan/schedule_csv.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

TEST_CASE("A schedule of PyTorch is read with its waits, overlaps and messages left out", "[framework][torchtitan]") {
  Diagnostics d;
  const auto order = read_schedule_csv(
      "0UNSHARD,0F0,0SEND_F0,0F1,,,0RECV_B0,0B0,0B1,0REDUCE_GRAD\n"
      ",,1F0,\"(1F1;1B0)OVERLAP_F_B\",1B1\r\n\n",
      "x.csv", d);
  INFO(render(d));
  REQUIRE(order);
  CHECK(order_lines(*order) == std::vector<std::string>{"0F0 0F1 0B0 0B1", "1F0 1F1 1B0 1B1"});
  CHECK(order->chunks == 1);
  CHECK(order->microbatches == 2);
}

TEST_CASE("What is no action is named with its place", "[framework][torchtitan]") {
  for (const char* cell : {"F0", "0X0", "0F", "0F0x", "(0F1;1B0)", "(0F1;1B0)OVERLAP", "0SEND_G0", "()OVERLAP"}) {
    INFO(cell);
    Diagnostics d;
    CHECK_FALSE(read_schedule_csv("0F0,0B0\n" + std::string("1F0,") + cell + "\n", "x.csv", d));
    REQUIRE(d.size() == 1);
    CHECK(d.list()[0].code == "launch.schedule-csv");
    CHECK(d.list()[0].position == Position{2, 5});
  }
  // Actions that cannot run are mistakes of the order.
  Diagnostics d;
  CHECK_FALSE(read_schedule_csv("0B0,0F0\n", "x.csv", d));
  CHECK_FALSE(d.empty());
}

TEST_CASE("Orders on a loop or a V read back equal from what is written for PyTorch", "[framework][torchtitan]") {
  const std::vector<std::string> texts{
      "0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n",                                  // 1F1B
      "0F0 0F1 0I0 0W0 0I1 0W1\n1F0 1I0 1F1 1I1 1W0 1W1\n",                  // weight gradients apart
      "0F0 3F0 3B0 0B0\n1F0 2F0 2B0 1B0\n",                                  // a V
      "0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1\n1F0 1F1 3F0 3F1 3B0 3B1 1B0 1B1\n",  // two chunks on a loop
  };
  for (const std::string& text : texts) {
    INFO(text);
    Diagnostics d;
    const auto order = read_order("orrery-order 1\n" + text, "", d);
    REQUIRE(order);
    const auto back = read_schedule_csv(write_schedule_csv(*order), "x.csv", d);
    REQUIRE(back);
    CHECK(*back == *order);
  }
}

TEST_CASE("A launch file's schedule is read beside it", "[framework][torchtitan]") {
  const auto folder = std::filesystem::temp_directory_path() / "orrery_torchtitan_csv";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "two.csv") << "0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n";
  const std::string text =
      "[model]\nflavor = \"8B\"\n[training]\nlocal_batch_size = 2\n[parallelism]\npipeline_parallel_degree = 2\n"
      "pipeline_parallel_schedule = \"1F1B\"\npipeline_parallel_schedule_csv = \"two.csv\"\n";
  const Launched l = launched(text, (folder / "run.toml").string(), with_model("llama-3-8b", 2));
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.schedule == ScheduleName::custom);
  CHECK(l.run->run.plan.order.size() == 2);
  std::filesystem::remove_all(folder);
  const Launched gone = launched(text, (folder / "run.toml").string(), with_model("llama-3-8b", 2));
  CHECK_FALSE(gone.run);
  REQUIRE_FALSE(gone.diagnostics.empty());
  CHECK(gone.diagnostics.list()[0].code == "file.open");
}
