#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "core/spec/library.hpp"
#include "tests/support/tiny_model.hpp"

using namespace orrery;

namespace {

const std::filesystem::path source = ORRERY_SOURCE_DIR;
const std::filesystem::path folder = source / "tests/error/core-plan";

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

// Bad plans stand beside their messages: NAME.toml and NAME.txt.
std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".toml") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Diagnostics read(const std::string& name) {
  const std::filesystem::path file = folder / (name + ".toml");
  Diagnostics found;
  // No shipped data is used: the plans name files in given/.
  const auto run = read_plan(text_of(file), file.string(), Library(folder / "none"), std::nullopt, found);
  CHECK(!run.has_value());
  return found;
}

// A diagnostic of a plan whose model and workload were never in a file.
std::string in_memory(const ModelSpec& model, const Workload& workload, const Plan& plan) {
  Diagnostics found;
  check(plan, model, workload, nullptr, found);
  return render(found);
}

ModelSpec tiny() {
  ModelSpec m = test::tiny_gpt();
  m.name = "tiny";
  return m;
}

Workload small() {
  Workload w;
  w.global_batch = 4;
  w.sequence_length = 8;
  return w;
}

}  // namespace

TEST_CASE("Every bad plan file gives exactly the message beside it") {
  const std::vector<std::string> all = cases();
  REQUIRE(all.size() > 40);
  for (const std::string& name : all) {
    CAPTURE(name);
    std::string shown = render(read(name));
    const std::string prefix = folder.string() + "/";
    for (auto at = shown.find(prefix); at != std::string::npos; at = shown.find(prefix)) shown.erase(at, prefix.size());
    CHECK(shown == text_of(folder / (name + ".txt")));
  }
}

TEST_CASE("Every code of the plan rules has a test and stands in docs/diagnostics.md") {
  const std::string code = text_of(source / "core/plan/plan_check.cpp") +
                           text_of(source / "core/plan/context_check.cpp") +
                           text_of(source / "core/plan/grid_check.cpp") + text_of(source / "core/plan/plan_file.cpp");
  const std::string orders =
      text_of(source / "core/plan/order_check.cpp") + text_of(source / "core/plan/compute_order.cpp");
  // These are tested below, in memory: a file cannot state them, because its numbers are refused first.
  std::set<std::string> tested = {"plan.size", "plan.mesh-size", "plan.microbatch-size", "plan.zero-stage",
                                  "plan.prefetch"};
  for (const std::string& name : cases()) {
    const Diagnostics found = read(name);
    for (const Diagnostic& d : found.list()) tested.insert(d.code);
  }
  // In the source a code stands as error("key", "code", ... or "plan.code".
  std::set<std::string> known;
  for (const std::string& opening : {std::string("error(\""), std::string("error(key, \"")}) {
    for (auto at = code.find(opening); at != std::string::npos; at = code.find(opening, at + 1)) {
      std::size_t from = at + opening.size();
      if (opening.ends_with("(\"")) {  // skip the key
        from = code.find('"', from);
        from = code.find('"', from + 1) + 1;
      }
      std::string found = code.substr(from, code.find('"', from) - from);
      if (!found.starts_with("plan.")) found = "plan." + found;
      known.insert(found);
    }
  }
  REQUIRE(known.size() >= 25);
  // In those places a code stands by itself: "plan.order-ranks", "order.action".
  for (const std::string& opening : {std::string("\"plan.order-"), std::string("\"order.")}) {
    for (auto at = orders.find(opening); at != std::string::npos; at = orders.find(opening, at + 1)) {
      known.insert(orders.substr(at + 1, orders.find('"', at + 1) - at - 1));
    }
  }
  REQUIRE(known.count("plan.order-microbatches") + known.count("order.deadlock") == 2);
  const std::string documented = text_of(source / "docs/diagnostics.md");
  for (const std::string& one : known) {
    CAPTURE(one);
    CHECK(tested.count(one) == 1);
    CHECK(documented.find("`" + one + "`") != std::string::npos);
  }
}

TEST_CASE("Sizes that no file can hold are refused in memory, too") {
  ModelSpec model = tiny();
  model.kv_heads = 0;
  Workload workload = small();
  workload.sequence_length = std::uint64_t{1} << 40;
  CHECK(in_memory(model, workload, Plan{}) ==
        "error: kv_heads is out of range [plan.size]\n"
        "  kv_heads is 0; it must be from 1 to 1048576.\n"
        "error: sequence is out of range [plan.size]\n"
        "  sequence is 1099511627776; it must be from 1 to 4294967296.\n");
}

TEST_CASE("Numbers that a file refuses are refused in plans built in memory") {
  Plan plan;
  plan.mesh.axes = {{Axis::pipeline, 2}, {Axis::data, 0}};
  CHECK(in_memory(tiny(), small(), plan) ==
        "error: the size of the mesh axis data is out of range [plan.mesh-size]\n"
        "  data is 0; it must be from 1 to 1048576.\n");
  plan.mesh.axes = {{Axis::pipeline, 2}};
  plan.microbatch_size = 0;
  plan.zero_stage = 9;
  CHECK(in_memory(tiny(), small(), plan) ==
        "error: the microbatch size is out of range [plan.microbatch-size]\n"
        "  microbatch_size is 0; it must be from 1 to 1048576.\n"
        "error: the ZeRO stage is out of range [plan.zero-stage]\n"
        "  zero_stage is 9; it must be from 0 to 3.\n");
  plan = {};
  plan.zero_stage = 3;
  plan.prefetch = 2;
  CHECK(in_memory(tiny(), small(), plan) ==
        "error: weights are gathered at most one layer ahead [plan.prefetch]\n"
        "  prefetch is 2; it must be 0 or 1.\n"
        "  Nearest valid prefetch: 1.\n");
}

TEST_CASE("A large model on many stages and microbatches passes") {
  ModelSpec model = tiny();
  model.layers = 126;
  Workload workload = small();
  workload.global_batch = 65536;
  Plan plan;
  plan.mesh.axes = {{Axis::pipeline, 64}};
  CHECK(in_memory(model, workload, plan) == "");
}

TEST_CASE("A mesh proposed for a cluster passes the check") {
  const Diagnostics found = read("world-tensor");
  REQUIRE(found.size() == 1);
  REQUIRE(found.list().front().details.back() ==
          "Nearest valid: pipeline 2 x data 1 x tensor 4; pipeline 4 x data 1 x tensor 2.");
  for (const auto& [pipeline, tensor] : {std::pair{"2", "4"}, std::pair{"4", "2"}}) {
    std::string text = text_of(folder / "world-tensor.toml");
    text.replace(text.find("pipeline = 3"), 12, std::string("pipeline = ") + pipeline);
    text.replace(text.find("tensor = 4"), 10, std::string("tensor = ") + tensor);
    Diagnostics none;
    CHECK(read_plan(text, (folder / "x.toml").string(), Library(folder / "none"), std::nullopt, none).has_value());
    CHECK(render(none) == "");
  }
}

TEST_CASE("A cluster takes its device from a path beside it") {
  Diagnostics none;
  const auto cluster = Library(folder / "none").cluster("given/own-device.toml", folder, std::nullopt, none);
  CHECK(render(none) == "");
  REQUIRE(cluster);
  CHECK(cluster->device.name == "small");
}

TEST_CASE("Offloading that is not there is refused") {
  Plan plan;
  plan.offload_states = 9;
  CHECK(in_memory(tiny(), small(), plan) ==
        "error: offload_states counts eighths, and cannot be above 8 [plan.offload-eighths]\n"
        "  offload_states is 9; it must be from 0 to 8.\n"
        "  Nearest valid: 8.\n");
  plan.offload_states = 0;
  plan.offload_activations = 10;
  CHECK(in_memory(tiny(), small(), plan) ==
        "error: offload_activations counts eighths, and cannot be above 8 [plan.offload-eighths]\n"
        "  offload_activations is 10; it must be from 0 to 8.\n"
        "  Nearest valid: 8.\n");
}

TEST_CASE("Token files: one byte more than a sequence is enough") {
  const std::string bytes = text_of(folder / "given/short.txt");
  REQUIRE(bytes.size() == 16);
  std::string text = text_of(folder / "data-short.toml");
  text.replace(text.find("sequence = 16"), 13, "sequence = 15");
  // The vocabulary of tiny is 101, and "e" is 101: only that is wrong now.
  Diagnostics found;
  CHECK_FALSE(read_plan(text, (folder / "x.toml").string(), Library(folder / "none"), std::nullopt, found));
  REQUIRE(found.size() == 1);
  CHECK(found.list().front().details.front() ==
        "Byte 4 is 101; the vocabulary is 101. A vocabulary of 256 takes every byte.");
}
