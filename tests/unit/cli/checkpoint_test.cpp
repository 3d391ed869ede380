#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/program_run.hpp"

using namespace orrery::test;
using nlohmann::json;

namespace {

Ran orrery_run(const std::string& arguments) { return run(ORRERY_PROGRAM, arguments); }

/// A plan of a small model with these numbers of tensor and pipeline ranks.
std::string plan_text(int tensor, int pipeline, const std::string& more = "") {
  return "schema = 1\nname = \"small\"\nmodel = \"model.toml\"\ncluster = \"local-cpu\"\ngpus = " +
         std::to_string(tensor * pipeline) +
         "\n[workload]\nbatch = 4\nsequence = 8\nprecision = \"fp64\"\n[workload.optimizer]\nkind = \"adam\"\n"
         "learning_rate = 0.01\n[mesh]\norder = [\"pipeline\", \"tensor\"]\npipeline = " +
         std::to_string(pipeline) + "\ntensor = " + std::to_string(tensor) + "\n[plan]\nmicrobatch_size = 2\n" + more;
}

/// A folder with two plans of one model.
struct Small {
  TemporaryFolder folder;
  std::string plan = folder.file("plan.toml"), other = folder.file("other.toml"), saved = folder.file("saved");
  Small() {
    const std::string model =
        "schema = 1\n[model]\nname = \"small\"\nlayers = 2\nhidden = 16\nheads = 4\nffn = 32\nvocabulary = 30\n"
        "max_positions = 8\nnorm = \"layer_norm\"\nactivation = \"gelu\"\npositions = \"learned\"\nbias = true\n"
        "tied_embeddings = true\n";
    write(folder.file("model.toml"), model);
    write(plan, plan_text(2, 1));
    write(other, plan_text(1, 2));
  }
  [[nodiscard]] Ran train(const std::string& which, int steps, const std::string& more = "") const {
    return orrery_run("run " + which + " --warmup 0 --steps " + std::to_string(steps) + " --json " + more);
  }
};

json losses(const Ran& ran) {
  CAPTURE(ran.out, ran.err);
  REQUIRE(ran.status == 0);
  return json::parse(ran.out)["losses"];
}

}  // namespace

TEST_CASE("a run saves, goes on under its plan with the same bits, and under another with the same loss",
          "[unit][cli][checkpoint]") {
  const Small s;
  const json whole = losses(s.train(s.plan, 5));
  REQUIRE(whole.size() == 5);
  const std::string at = " --checkpoint " + s.saved;
  const Ran first = s.train(s.plan, 3, at + " --every 2");
  CHECK(losses(first) == json({whole[0], whole[1], whole[2]}));
  const json told = json::parse(first.out)["checkpoint"];
  CHECK(told["resumed_from"].is_null());
  REQUIRE(told["saved"].size() == 2);
  CHECK(told["saved"][0]["name"] == "0001-step-2");
  CHECK(told["saved"][1]["name"] == "0002-step-3");

  // Reshards by hand to the other plan, before the folder gets any further.
  const std::string resharded = s.folder.file("resharded");
  CHECK(orrery_run("checkpoint " + s.saved + " --to " + s.other + " -o " + resharded).status == 0);
  const json there = json::parse(orrery_run("checkpoint " + resharded + " --json").out);
  REQUIRE(there["checkpoints"].size() == 1);
  CHECK(there["checkpoints"][0]["step"] == 3);
  CHECK(there["checkpoints"][0]["ranks"] == 2);
  const json by_hand = losses(s.train(s.other, 1, "--resume --checkpoint " + resharded));
  // The sums are in another order, in double.
  CHECK(by_hand[0].get<double>() == Approx(whole[3].get<double>()).epsilon(1e-10));

  const Ran second = s.train(s.plan, 1, at + " --resume");
  CHECK(losses(second) == json({whole[3]}));
  CHECK(json::parse(second.out)["checkpoint"]["resumed_from"] == "0002-step-3");
  CHECK(json::parse(second.out)["checkpoint"]["first_step"] == 4);
  CHECK(losses(s.train(s.other, 1, at + " --resume"))[0].get<double>() ==
        Approx(whole[4].get<double>()).epsilon(1e-10));

  const Ran listed = orrery_run("checkpoint " + s.saved + " --json");
  CHECK(listed.status == 0);
  const json list = json::parse(listed.out)["checkpoints"];
  REQUIRE(list.size() == 2);
  CHECK(list[0]["name"] == "0004-step-5");
  CHECK(list[0]["updates"] == 5.0);
  CHECK(list[1]["name"] == "0003-step-4");
  // The model has tables of 30 and 8 rows of 16; a layer's qkv, out, up, down with biases and two norms; and the last
  // norm.
  const std::uint64_t layer = (16 * 48 + 48) + (16 * 16 + 16) + (16 * 32 + 32) + (32 * 16 + 16) + 4 * 16;
  CHECK(list[0]["states"].size() == 4);
  for (const json& state : list[0]["states"]) {
    CHECK(state["elements"] == (state["what"] == "scalar" ? 1 : 38 * 16 + 2 * layer + 2 * 16));
  }
}

TEST_CASE("ranks that are processes save and go on as threads do, and the log tells of it", "[unit][cli][checkpoint]") {
  const Small s;
  const json whole = losses(s.train(s.plan, 3));
  const std::string at = " --checkpoint " + s.saved, log = s.folder.file("log");
  CHECK(losses(s.train(s.plan, 1, at + " --ranks 2")) == json({whole[0]}));
  // Processes go on from what threads saved, and the other way round.
  CHECK(losses(s.train(s.plan, 1, at + " --resume")) == json({whole[1]}));
  CHECK(losses(s.train(s.plan, 1, at + " --resume --ranks 2 --log " + log)) == json({whole[2]}));
  std::vector<json> told;
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const json event = json::parse(line);
    if (event["event"] == "recovery" || event["event"] == "checkpoint") told.push_back(event);
  }
  REQUIRE(told.size() == 2);
  CHECK(told[0]["event"] == "recovery");
  CHECK(told[0]["step"] == 2);
  CHECK(told[1]["event"] == "checkpoint");
  CHECK(told[1]["step"] == 3);
  CHECK(std::filesystem::is_directory(told[1]["path"].get<std::string>()));
}

TEST_CASE("damage is shown, and the checkpoint before is used with a warning", "[unit][cli][checkpoint]") {
  const Small s;
  const json whole = losses(s.train(s.plan, 2, "--every 1 --checkpoint " + s.saved));
  const std::string file = s.saved + "/0002-step-2/rank-00001.bin";
  std::string bytes = contents(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write(file, bytes);
  const Ran listed = orrery_run("checkpoint " + s.saved);
  CHECK(listed.status == 1);
  CHECK_THAT(listed.out, Catch::Contains("0002-step-2: damaged\n") && Catch::Contains("0001-step-1: whole"));
  const Ran again = s.train(s.plan, 1, "--resume --checkpoint " + s.saved);
  CHECK_THAT(again.err, Catch::StartsWith("warning: " + file + " is damaged: bytes 48 to ") &&
                            Catch::Contains("0001-step-1 is used instead"));
  CHECK(losses(again) == json({whole[1]}));
  // The damaged checkpoint is gone; the one that was used is kept.
  CHECK(orrery_run("checkpoint " + s.saved).status == 0);
  CHECK(std::filesystem::exists(s.saved + "/0001-step-1"));
  CHECK(std::filesystem::exists(s.saved + "/0003-step-2"));
  for (const char* name : {"/0001-step-1/manifest", "/0003-step-2/manifest"}) std::filesystem::remove(s.saved + name);
  const Ran none = s.train(s.plan, 1, "--resume --checkpoint " + s.saved);
  CHECK(none.status == 3);
  CHECK_THAT(none.err, Catch::Contains("is whole\n  ") && Catch::Contains("0001-step-1/manifest is missing"));
}

TEST_CASE("what does not go together is refused before a step is trained", "[unit][cli][checkpoint]") {
  const Small s;
  const auto refused = [&](const Ran& ran, const std::string& text) {
    CAPTURE(ran.err, text);
    CHECK(ran.status == 2);
    CHECK(ran.err.find(text) != std::string::npos);
  };
  const std::string at = "--checkpoint " + s.saved;
  refused(s.train(s.plan, 1, "--resume"), "--resume needs the folder: --checkpoint DIR [cli.checkpoint]");
  refused(s.train(s.plan, 1, "--every 2"), "--every needs a folder: --checkpoint DIR [cli.checkpoint]");
  refused(s.train(s.plan, 1, at + " --resume"), "has no checkpoint to go on from [cli.checkpoint]");
  CHECK(s.train(s.plan, 1, at).status == 0);
  refused(s.train(s.plan, 1, at), "has checkpoints already, the newest 0001-step-1 [cli.checkpoint]");
  write(s.folder.file("model.toml"), contents(s.folder.file("model.toml")) + "norm_epsilon = 0.001\n");
  refused(s.train(s.plan, 1, at + " --resume"), "the checkpoint is from another model [checkpoint.model]");
  refused(orrery_run("checkpoint " + s.saved + " --to " + s.plan), "--to and -o belong together");
  refused(orrery_run("checkpoint " + s.folder.file("nowhere")), "has no checkpoint [cli.checkpoint]");
}

TEST_CASE("a disk without room ends the run with an error and leaves nothing half done", "[unit][cli][checkpoint]") {
  const Small s;
  CHECK(s.train(s.plan, 1, "--checkpoint " + s.saved).status == 0);
  // No file may exceed 32 blocks of 512 bytes or 1 KiB; a rank's state takes some 60 KB.
  const std::string program =
      std::string("sh -c 'trap \"\" XFSZ; ulimit -f 32; exec ") + ORRERY_PROGRAM + " \"$@\"' sh";
  const Ran ran = run(program, "run " + s.plan + " --warmup 0 --steps 1 --resume --checkpoint " + s.saved);
  CHECK(ran.status == 3);
  CHECK_THAT(ran.err, Catch::Contains("no checkpoint of step 2: cannot write ") && Catch::Contains("File too large") &&
                          Catch::Contains("0001-step-1 is kept"));
  CHECK(std::distance(std::filesystem::directory_iterator(s.saved), {}) == 1);
  CHECK(orrery_run("checkpoint " + s.saved).status == 0);
}
