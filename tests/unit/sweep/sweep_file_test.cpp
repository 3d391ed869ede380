#include "sweep/sweep_file.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

namespace {

std::string refusal(const std::string& text) {
  Diagnostics d;
  CHECK(!parse_sweep(text, "s.toml", d));
  return render(d);
}

}  // namespace

TEST_CASE("a sweep file has values, lists, ranges, settings and cases", "[unit][sweep]") {
  Diagnostics d;
  const std::optional<SweepFile> file = parse_sweep(
      "schema = 1\n[sweep]\nname = \"n\"\nmodel = \"m\"\ngpus = [8, 16]\nsequence = [\"8k\", 4096]\n"
      "batch = \"64..256\"\nzero = [0, 1]\nsequence_parallel = [true, false]\nall = true\nonly = \"tensor=1d\"\n"
      "[[sweep.case]]\ngpus = 32\n[[sweep.case]]\nbatch = 512\nmbs = 2\n",
      "s.toml", d);
  CAPTURE(render(d));
  REQUIRE(file);
  CHECK(file->name == "n");
  CHECK(file->settings.at("all") == "true");
  CHECK(file->settings.at("only") == "tensor=1d");
  REQUIRE(file->base.size() == 6);
  CHECK(file->base[2].values == std::vector<std::string>{"8192", "4096"});
  CHECK(file->base[3].values == std::vector<std::string>{"64", "128", "256"});
  CHECK(file->base[4].key.word == "plan.zero_stage");
  const auto grids = grids_of(file->base, file->cases);
  REQUIRE(grids.size() == 2);
  CHECK(grids[0].size() == 6);  // gpus of its own
  CHECK(grids[1].size() == 7);  // batch of its own, and one more
}

TEST_CASE("mistakes in a sweep file have their place", "[unit][sweep]") {
  CHECK(refusal("[sweep]\ngpus = 8\n").find("schema") != std::string::npos);
  CHECK(refusal("schema = 1\n[sweep]\ngpu = 8\n")
            .starts_with("s.toml:3:1: error: unknown key \"gpu\" [file.unknown-key]\n"));
  CHECK(refusal("schema = 1\n[sweep]\ngpus = [8, \"x\"]\n")
            .starts_with("s.toml:3:8: error: gpus: \"x\" is not a whole number [sweep.value]\n"));
  CHECK(refusal("schema = 1\n[sweep]\nbatch = 1\ngbs = 2\n")
            .starts_with("s.toml:4:7: error: batch is given twice [sweep.value]\n"));
  CHECK(refusal("schema = 1\n[sweep]\ngpus = {a = 1}\n").find("[file.type]") != std::string::npos);
  CHECK(refusal("schema = 1\n[sweep]\ngpus = [[8]]\n")
            .starts_with("s.toml:3:9: error: a value of gpus is a text, a number, true or false [file.type]\n"));
  for (const std::string all : {"\"yes\"", "1", "[true]"}) {
    CHECK(refusal("schema = 1\n[sweep]\nall = " + all + "\n")
              .starts_with("s.toml:3:7: error: all is true or false [file.type]\n"));
  }
  CHECK(refusal("schema = 1\n[sweep]\ncase = 1\n").find("[[sweep.case]]") != std::string::npos);
  CHECK(refusal("schema = 1\n").find("the file has no [sweep]") != std::string::npos);
  CHECK(refusal("schema = 1\n[sweep]\n[grid]\n").find("unknown key \"grid\"") != std::string::npos);
}
