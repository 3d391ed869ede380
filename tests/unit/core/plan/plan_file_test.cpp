#include "core/plan/plan_file.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

const std::filesystem::path given = std::filesystem::path(ORRERY_SOURCE_DIR) / "tests/error/core-plan/given";

// A folder of this process, which is removed at the end.
struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("orrery-plan-file-test-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

void write(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
}

std::optional<PlannedRun> read(const std::string& text, const std::filesystem::path& file,
                               std::optional<std::uint32_t> gpus = std::nullopt) {
  Diagnostics found;
  auto run = read_plan(text, file.string(), Library(given / "none"), gpus, found);
  INFO(render(found));
  CHECK(found.empty() == run.has_value());
  return run;
}

const char* const small_plan = R"(schema = 1
model = "tiny.toml"
cluster = "eight.toml"

[workload]
batch = 8
sequence = 16

[mesh]
data = 2
tensor = 2
pipeline = 2
)";

}  // namespace

TEST_CASE("A plan that is written reads back equal, and writes the same text") {
  const Folder folder;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    test::RandomRunLimits limits;
    limits.chunks = seed % 2 == 0;
    PlannedRun run = test::random_run(seed, limits);
    run.model_reference = "model.toml";
    // Every choice that may be open is open now and then.
    if (seed % 3 == 0) {
      run.plan.stage_layers.reset();
      run.plan.recompute_layers.reset();  // counts layers of stages of known sizes
    }
    if (seed % 5 == 0) run.plan.gradient_bucket.reset();
    if (seed % 7 == 0) run.plan.overlap_gradients.reset();
    if (seed % 11 == 0) run.plan.attention.reset();
    if (seed % 4 == 0 && run.plan.parameter_chunk != Bytes()) run.plan.parameter_chunk.reset();
    if (seed % 4 == 0) run.plan.collective_algorithm = static_cast<CollectiveAlgorithm>(seed / 4 % 3);
    CAPTURE(test::describe(run));
    write(folder.path / "model.toml", write_model(run.model));
    const std::string text = write_plan(run);
    const auto again = read(text, folder.path / "plan.toml");
    REQUIRE(again.has_value());
    CHECK(again->plan == run.plan);
    CHECK(again->workload == run.workload);
    CHECK(again->model == run.model);
    CHECK(!again->cluster.has_value());
    CHECK(write_plan(*again) == text);
  }
}

TEST_CASE("Axes without an order stand as pipeline, data, tensor; missing choices are auto") {
  const auto run = read(small_plan, given / "plan.toml");
  REQUIRE(run.has_value());
  CHECK(run->plan.mesh == Mesh{{{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}}});
  CHECK(!is_resolved(run->plan));
  CHECK(
      (!run->plan.stage_layers && !run->plan.gradient_bucket && !run->plan.overlap_gradients && !run->plan.attention));
  CHECK(run->plan.schedule == ScheduleName::one_f_one_b);
  // The text "auto" means the same as a missing key.
  const auto same =
      read(std::string(small_plan) +
               "[plan]\nstage_layers = \"auto\"\ngradient_bucket = \"auto\"\noverlap_gradients = \"auto\"\n"
               "attention = \"auto\"\ncollective_algorithm = \"auto\"\n",
           given / "plan.toml");
  REQUIRE(same.has_value());
  CHECK(same->plan == run->plan);
}

TEST_CASE("References are relative to the plan file, and the cluster takes the number of GPUs asked for") {
  const auto run = read(small_plan, given / "plan.toml");
  REQUIRE(run.has_value());
  CHECK(run->model.name == "tiny");
  REQUIRE(run->cluster.has_value());
  CHECK(run->cluster->devices() == 8);  // as in given/eight.toml: 2 nodes x 4
  CHECK(run->cluster_reference == "eight.toml");

  std::string four = small_plan;
  four.replace(four.find("pipeline = 2"), 12, "pipeline = 1");
  const auto asked = read(four, given / "plan.toml", 4);
  REQUIRE(asked.has_value());
  CHECK(asked->cluster->devices() == 4);
  // The written file names the size, so it reads back without being asked again.
  const auto again = read(write_plan(*asked), given / "plan.toml");
  REQUIRE(again.has_value());
  CHECK(*again->cluster == *asked->cluster);
  CHECK(again->plan == asked->plan);
}

TEST_CASE("Values keep their place in the file") {
  const auto run = read(small_plan, given / "plan.toml");
  REQUIRE(run.has_value());
  // [mesh] is line 9; tensor = 2 is line 11, its value column 10.
  CHECK(run->plan.origin.position("mesh.tensor") == Position{11, 10});
}
