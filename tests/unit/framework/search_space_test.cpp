#include "framework/search_space.hpp"

#include <catch2/catch.hpp>

#include "tests/support/shipped_model.hpp"

using namespace orrery;

namespace {

SearchSpace space(const SpaceWish& wish, std::string_view program, const char* model, Diagnostics& d) {
  Workload workload;
  workload.global_batch = 8;
  workload.sequence_length = 64;
  workload.precision = Precision::bf16;
  return search_space_of(wish, program, test::shipped_model(model), workload, d);
}

std::vector<std::string> codes_of(const SpaceWish& wish, std::string_view program = "nemo") {
  Diagnostics d;
  static_cast<void>(space(wish, program, "llama-3-8b", d));
  std::vector<std::string> out;
  for (const Diagnostic& m : d.list()) out.push_back(m.code);
  return out;
}
using Codes = std::vector<std::string>;

std::string_view name_of(const SearchSpace& s) { return s.framework != nullptr ? s.framework->name : "none"; }

}  // namespace

TEST_CASE("Without a wish a search keeps to what the usual program on the device launches", "[framework]") {
  Diagnostics d;
  const SearchSpace nemo = space({}, "nemo", "llama-3-8b", d);
  CHECK(name_of(nemo) == "megatron-core");
  CHECK(nemo.assumed);
  CHECK(nemo.limits.only == abilities_of(*framework_named("megatron-core")).only);
  CHECK(name_of(space({}, "torchtitan", "llama-3-8b", d)) == "torchtitan");
  CHECK(name_of(space({}, "nanotron", "llama-3-8b", d)) == "nanotron");
  CHECK(name_of(space({}, "megatron-bridge-25.11", "llama-3-8b", d)) == "megatron-core");
  // Nothing was measured on the device: the program with most runs of all. Orrery's own executor runs any plan.
  CHECK(name_of(space({}, "any", "llama-3-8b", d)) == "megatron-core");
  const SearchSpace cores = space({}, "none", "llama-3-8b", d);
  CHECK(name_of(cores) == "none");
  CHECK(cores.limits.only.empty());
  CHECK(d.empty());
}

TEST_CASE("A model that the usual program cannot train is searched in every dimension, with the reason",
          "[framework]") {
  Diagnostics d;
  const SearchSpace bert = space({}, "nemo", "bert-base", d);
  CHECK(d.empty());
  CHECK(name_of(bert) == "none");
  CHECK(bert.limits.only.empty());
  CHECK(bert.not_usual.find("Megatron-LM") == 0);
  // Who names the program is told so instead.
  static_cast<void>(space({"megatron-core"}, "nemo", "bert-base", d));
  REQUIRE_FALSE(d.empty());
  CHECK(d.list().front().code == "export.architecture");
}

TEST_CASE("A named program, a launch that is to be written, and limits narrow the space", "[framework]") {
  Diagnostics d;
  CHECK(name_of(space({"any"}, "nemo", "llama-3-8b", d)) == "none");
  CHECK(name_of(space({"", "tensor=4"}, "nemo", "llama-3-8b", d)) == "none");
  CHECK(name_of(space({"", {}, "nanotron"}, "nemo", "llama-3-8b", d)) == "nanotron");
  const SearchSpace both = space({"torchtitan", "schedule=1f1b tensor=4"}, "nemo", "llama-3-8b", d);
  CHECK(d.empty());
  CHECK_FALSE(both.assumed);
  CHECK(both.limits.only.at("mesh.tensor") == std::vector<std::uint64_t>{4});
  CHECK(both.limits.only.at("plan.schedule").size() == 1);
}

TEST_CASE("Wishes that cannot be are mistakes", "[framework]") {
  CHECK(codes_of({"megatron"}) == Codes{"framework.name"});
  CHECK(codes_of({"axolotl"}) == Codes{"framework.name"});
  CHECK(codes_of({"", {}, "yaml"}) == Codes{"cli.export"});
  CHECK(codes_of({"", "tensor=5d"}) == Codes{"cli.only"});
  CHECK(codes_of({"nanotron", "zero=3"}) == Codes{"framework.cannot"});
}
