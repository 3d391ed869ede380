#include <catch2/catch.hpp>

#include "tests/error/cli/refused.hpp"

// Files of the wrong kind, broken JSON, and words of the command line that the
// parser must not answer in its own way: the status, and the exact text.

using namespace orrery::test;

namespace {

const std::string models = std::string(ORRERY_SOURCE_DIR) + "/models/";

}  // namespace

TEST_CASE("cli.kind: a file of another kind is one mistake", "[error]") {
  const std::string model = models + "model/llama-3-8b.toml";
  const std::string cluster = models + "cluster/dgx-h100.toml";
  for (const char* verb : {"estimate ", "simulate ", "run ", "explain ", "show plan ", "show program "}) {
    CHECK(refused(verb + model) == model + ": error: this is a model, but a plan is needed [cli.kind]\n");
  }
  CHECK(refused("plan --cluster dgx-h100 --batch 8 --seq 128 --model " + cluster) ==
        cluster + ": error: this is a cluster, but a model or a Hugging Face config is needed [cli.kind]\n");
  CHECK(refused("plan --model llama-3-8b --batch 8 --seq 128 --cluster " + model) ==
        model + ": error: this is a model, but a cluster is needed [cli.kind]\n");
  CHECK(refused("estimate demo-2x2x2 --calibration " + model) ==
        model + ": error: this is a model, but a calibration is needed [cli.kind]\n");
  const TemporaryFolder folder;
  const std::string report = folder.file("r.json");
  CHECK(run(ORRERY_PROGRAM, "estimate demo-2x2x2 -o " + report).status == 0);
  CHECK(refused("estimate " + report) == report + ": error: this is a report, but a plan is needed [cli.kind]\n");
  write(folder.file("a.json"), "{\"a\": 1}");
  CHECK(refused("plan --cluster dgx-h100 --batch 8 --seq 128 --model " + folder.file("a.json")) ==
        folder.file("a.json") +
            ": error: this is JSON of an unknown kind, but a model or a Hugging Face config is needed [cli.kind]\n");
  for (const char* text : {"{\"a\": 1}", "[1, 2]"}) {
    write(folder.file("a.json"), text);
    CHECK(refused("check " + folder.file("a.json")) ==
          folder.file("a.json") +
              ": error: this is not a file that Orrery knows [cli.kind]\n"
              "  A JSON file of Orrery is a report or a trace; a Hugging Face config.json names its model_type.\n");
  }
}

TEST_CASE("file.syntax: JSON that is broken is said to be that, with the place", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("x.json");
  write(file, "{\"model_type\": \"llama\",\n  \"hidden_size\": }\n");
  const std::string text = file +
                           ":2:18: error: this is not JSON [file.syntax]\n    2 |   \"hidden_size\": }\n"
                           "      |                  ^\n";
  CHECK(refused("check " + file) == text);
  CHECK(refused("estimate " + file) == text);
  CHECK(refused("plan --cluster dgx-h100 --batch 8 --seq 128 --model " + file) == text);
}

TEST_CASE("a key that stands twice in JSON is a mistake, with the place of the second", "[error]") {
  const TemporaryFolder folder;
  const std::string config = folder.file("config.json");
  write(config, "{\"model_type\": \"llama\",\n  \"a\\\"b\": {\"x\": 1},\n  \"a\\\"b\": 2}\n");
  CHECK(refused("check " + config) == config +
                                          ":3:3: error: the key \"a\"b\" stands twice in this object [file.syntax]\n"
                                          "    3 |   \"a\\\"b\": 2}\n      |   ^\n");
  const std::string report = folder.file("r.json");
  CHECK(run(ORRERY_PROGRAM, "estimate demo-2x2x2 -o " + report).status == 0);
  std::string text = contents(report);
  text.insert(text.find("  \"gpus\""), "  \"gpus\": 9,\n");
  write(report, text);
  CHECK(refused("compare " + report + " " + report)
            .starts_with(report + ":7:3: error: the key \"gpus\" stands twice in this object [report.json]\n"
                                  "    7 |   \"gpus\": 8,\n      |   ^\n"));
  const std::string trace = folder.file("t.json");
  CHECK(run(ORRERY_PROGRAM, "simulate cpu-one-rank --trace " + trace).status == 0);
  text = contents(trace);
  text.insert(text.find("\"lanes\""), "\"plan\":\"\",");
  write(trace, text);
  CHECK(refused("check " + trace).find("error: the key \"plan\" stands twice in this object [trace.json]\n") !=
        std::string::npos);
}

TEST_CASE("cli.arguments: what stands twice, lacks its value or is too much", "[error]") {
  const std::string help = "  orrery plan --help lists what is accepted.\n";
  CHECK(refused("plan --model") == "error: --model needs a value [cli.arguments]\n" + help);
  CHECK(refused("plan --model --seq 8") == "error: --model needs a value [cli.arguments]\n" + help);
  CHECK(refused("plan --model a --model=b") == "error: --model is given twice [cli.arguments]\n" + help);
  CHECK(refused("plan --space=yes") == "error: --space takes no value, but \"yes\" was given [cli.arguments]\n" + help);
  CHECK(refused("plan x") == "error: \"x\" is one argument too many [cli.arguments]\n" + help);
  CHECK(refused("check a b c") ==
        "error: \"b\" is one argument too many [cli.arguments]\n  orrery check takes FILE.\n"
        "  orrery check --help lists what is accepted.\n");
  CHECK(refused("--bogus") ==
        "error: orrery has no flag --bogus [cli.arguments]\n  orrery --help lists what is accepted.\n");
}

TEST_CASE("cli.flags: names of drawings that say another kind", "[error]") {
  CHECK(refused("study mlp-sharding --svg x.png") ==
        "error: --svg draws an .svg file, and x.png is not one [cli.flags]\n");
  CHECK(refused("show model gpt2-124m --dot -o x.jpg") ==
        "error: x.jpg does not end in a known kind of drawing [cli.flags]\n"
        "  A name that ends in .svg, .png or .pdf is drawn by Graphviz; .dot and .gv hold the graph as text.\n");
  CHECK(!std::filesystem::exists("x.png"));
}

TEST_CASE("cli.compare: reports and traces of different plans", "[error]") {
  const TemporaryFolder folder;
  const auto made = [&](const std::string& verb, const std::string& flag, const std::string& name) {
    CHECK(run(ORRERY_PROGRAM, verb + " " + flag + " " + folder.file(name)).status == 0);
    return folder.file(name);
  };
  const std::string a = made("estimate demo-2x2x2", "-o", "a.json");
  const std::string b = made("estimate cpu-one-rank", "-o", "b.json");
  CHECK(refused("compare " + a + " " + b) ==
        "error: the two reports do not belong to the same plan [cli.compare]\n"
        "  one belongs to the plan demo-2x2x2, the other to cpu-one-rank.\n"
        "  8 devices on one side, 1 on the other.\n"
        "  orrery compare A.toml B.toml sets two plans side by side.\n");
  const std::string s = made("simulate demo-2x2x2", "--trace", "s.json");
  const std::string t = made("simulate cpu-one-rank", "--trace", "t.json");
  CHECK(refused("compare " + s + " " + t)
            .find("error: the two traces do not belong to the same plan [cli.compare]\n  rank 0 has ") == 0);
}
