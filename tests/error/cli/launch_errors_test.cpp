#include <catch2/catch.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/error/cli/refused.hpp"

// Launch files of other programs that are wrong, and wrong words about right ones: the status, and the exact text that
// a person sees.

using namespace orrery::test;

namespace {

const std::string config = R"({
  "train_micro_batch_size_per_gpu": 1,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 1}
})";

const std::string script =
    "TP=2\ntorchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --micro-batch-size 1 "
    "--seq-length 128 --bf16\n";

const std::string plan =
    "schema = 1\nmodel = \"llama-3-8b\"\ncluster = \"dgx-h100\"\ngpus = 16\n[workload]\nbatch = 16\nsequence = 4096\n"
    "[mesh]\norder = [\"pipeline\", \"data\"]\npipeline = 2\ndata = 8\n[plan]\nmicrobatch_size = 1\n";

}  // namespace

TEST_CASE("launch.model: a file that names no model", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ds.json");
  write(file, config);
  for (const char* verb : {"import ", "estimate ", "check ", "show plan ", "export --to deepspeed "}) {
    CHECK(refused(verb + file) == file +
                                      ": error: the file does not say which model it trains [launch.model]\n"
                                      "  Give a name or a config.json with --model.\n");
  }
  CHECK(refused("import " + file + " --model llama-9b") ==
        "error: no model is named \"llama-9b\" [library.unknown-model]\n"
        "  Nearest names: llama-7b, llama-13b, llama-2-7b, llama-3-8b.\n");
}

TEST_CASE("launch.unknown-key and launch.value: at the key's line", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ds.json");
  write(file, "{\n  \"zero_optimization\": {\"stage\": 7},\n  \"zebra\": 1\n}\n");
  CHECK(refused("import " + file + " --model llama-3-8b") ==
        file + ":2:34: error: ZeRO has no such stage [launch.value]\n" +
            "    2 |   \"zero_optimization\": {\"stage\": 7},\n      |                                  ^\n"
            "  stage is 7; it is from 0 to 3.\n" +
            file + ":3:12: error: unknown key zebra [launch.unknown-key]\n" +
            "    3 |   \"zebra\": 1\n      |            ^\n  Nothing is known of its effect on a step.\n");
}

TEST_CASE("launch.kind, launch.syntax and import.kind: files that are no launch files", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ds.json");
  write(file, config);
  CHECK(refused("import " + file + " --as torchtitan-toml --model llama-3-8b") ==
        file + ": error: torchtitan-toml is TOML, and this file is YAML or JSON [launch.kind]\n");
  CHECK(refused("import " + file + " --as megatron-script --model llama-3-8b") ==
        file +
            ": error: megatron-script is a shell script or a command line, and this file is YAML or JSON "
            "[launch.kind]\n");
  const std::string other = folder.file("other.yaml");
  write(other, "a: 1\nb: 2\n");
  const std::string kinds =
      "accelerate-yaml, peft-json, axolotl-yaml, colossal-ai-python, deepspeed-json, llama-factory-yaml, "
      "llama-factory-v1-yaml, megatron-script, megatron-args, megatron-bridge, megatron-bridge-python, nanotron-yaml, "
      "torchtitan-toml, "
      "torchtitan-flags, torchtune-yaml.\n";
  CHECK(refused("import " + other) ==
        "error: " + other + ": the kind of this file cannot be recognised [import.kind]\n" +
            "  Name it with --as: nccl-topology, nvidia-smi, slurm, astra-sim, dot, simai, nccl-graph, nccl-log, " +
            kinds);
  CHECK(refused("estimate " + other) ==
        other + ": error: no framework here writes such files [launch.kind]\n" + "  Name the kind with --as: " + kinds);
  write(folder.file("plan.toml"), plan);
  CHECK(refused("import " + folder.file("plan.toml")) ==
        "error: " + folder.file("plan.toml") + " is a plan, which needs no import [import.kind]\n" +
            "  import takes launch files of other programs, and descriptions of networks.\n");
  write(other, "zero_optimization: [1, 2\nstage: 3\n");
  for (const char* verb : {"import ", "estimate "}) {
    CHECK(refused(verb + other).find(" error: not valid YAML: ") != std::string::npos);
    CHECK(refused(verb + other).find(" [launch.syntax]\n") != std::string::npos);
  }
  CHECK(refused("import " + folder.file("none.sh")) ==
        folder.file("none.sh") + ": error: there is no such file [file.open]\n");
  std::filesystem::create_directories(folder.file("folder.yaml"));
  CHECK(refused("import " + folder.file("folder.yaml")) ==
        folder.file("folder.yaml") + ": error: this is a folder, not a file [file.open]\n");
}

TEST_CASE("launch.set: what --set cannot give", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("train.sh");
  write(file, script);
  const std::string command = "import " + file + " --model llama-3-8b --set ";
  CHECK(refused(command + "TP") ==
        "error: --set TP has no value [launch.set]\n  It takes NAME=VALUE: --set sequence=4096.\n");
  for (const char* name : {"TPP", "sequence"}) {
    CHECK(refused(command + name + "=4") ==
          "error: nothing in the file is open for --set " + std::string(name) +
              " [launch.set]\n  It gives variables of a script, and sequence, batch, mbs where a file does not.\n");
  }
  CHECK(refused(command + "batch=many") == "error: --set batch=many is no whole number [launch.set]\n");
  write(file, "torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size $TP --micro-batch-size 1\n");
  CHECK(refused("import " + file + " --model llama-3-8b")
            .find("error: --tensor-model-parallel-size depends on TP, which the file does not say [launch.value]\n") !=
        std::string::npos);
  CHECK(refused("import " + file + " --model llama-3-8b").find("\n  Give it: --set TP=VALUE.\n") != std::string::npos);
}

TEST_CASE("launch.gpus: GPUs that the sizes do not divide", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("train.sh");
  write(file, script);
  CHECK(refused("import " + file + " --model llama-3-8b --gpus 9") ==
        "error: 9 GPUs are no multiple of the file's sizes [launch.gpus]\n"
        "  tensor 2 x pipeline 1 x context 1 x replica 1 x expert 1 is 2.\n");
}

TEST_CASE("launch.not-expressible: verbs that need a plan say what has none, and where", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ds.json");
  write(file, R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
  "optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-4}}})");
  const Ran ran = run(ORRERY_PROGRAM, "import " + file + " --model llama-3-8b --gpus 8");
  CHECK(ran.status == 1);
  CHECK(ran.out.find("\nnot expressible in a plan:\n  line 2: optimizer.type OneBitAdam: ") != std::string::npos);
  const std::string said = refused("estimate " + file + " --model llama-3-8b --cluster dgx-h100 --gpus 8");
  CHECK(said.starts_with("error: a plan cannot say all of " + file + " [launch.not-expressible]\n  Line 2: "));
  CHECK(said.ends_with("\n  --nearest takes the nearest plan.\n"));
  CHECK(refused("check " + file + " --model llama-3-8b").starts_with(file + ":2:"));
}

TEST_CASE("cli.flags: flags of networks and of launch files do not mix", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("ds.json"), topology = folder.file("topology.conf");
  write(file, config);
  write(topology, "SwitchName=s0 Nodes=n[0-1]\n");
  CHECK(refused("import " + file + " --model llama-3-8b --gpu h100") ==
        "error: --gpu goes only with a description of a network [cli.flags]\n  " + file +
            " is a launch file; --gpus and --cluster say what it runs on.\n");
  CHECK(refused("import " + topology + " --nearest") == "error: --nearest goes only with a launch file [cli.flags]\n");
  write(folder.file("plan.toml"), plan);
  CHECK(refused("estimate " + folder.file("plan.toml") + " --model llama-3-8b") ==
        "error: --model and --set go only with a launch file or a plan in one line [cli.flags]\n  " +
            folder.file("plan.toml") + " is a plan file, which names its model.\n");
  CHECK(refused("import " + file + " --model llama-3-8b --cluster " + folder.file("plan.toml")) ==
        folder.file("plan.toml") + ": error: this is a plan, but a cluster is needed [cli.kind]\n");
}

TEST_CASE("plan.words: a plan in one line that cannot be read", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("plan.toml");
  write(file, plan);
  CHECK(refused("compare " + file + " foo=3") ==
        "error: a plan in one line has no key \"foo\" [plan.words]\n"
        "  Keys are those of plan files: tp=8 dp=2 mbs=2 zero=1 recompute=full.\n");
  CHECK(refused("compare " + file + " zero=9") ==
        "error: zero has no value \"9\" [plan.words]\n  It is 9; from 0 to 3 is allowed.\n");
  CHECK(refused("compare " + file + " tp=3") ==
        "error: 16 devices are no multiple of the sizes [plan.words]\n  They multiply to 3.\n");
  CHECK(refused("estimate tp=2 --model llama-3-8b") ==
        "error: a plan in one line needs --model and --cluster [plan.words]\n"
        "  orrery compare PLAN \"tp=8 dp=2\" changes a plan that has them.\n");
}

TEST_CASE("framework.name: programs that are not known, or have no search", "[error]") {
  const TemporaryFolder folder;
  const std::string search = "plan --model llama-3-8b --cluster dgx-h100 --gpus 16 --batch 16 --seq 4096 ";
  CHECK(refused(search + "--for nonsense") ==
        "error: no framework is named \"nonsense\" [framework.name]\n"
        "  Known: any, accelerate, colossal-ai, deepspeed, megatron-core, nanotron, orrery-cuda, torchtitan.\n");
  CHECK(refused(search + "--for axolotl") ==
        "error: axolotl has no search of its own [framework.name]\n"
        "  Search for a program that it uses, or that shards alike: --for accelerate, --for deepspeed, "
        "--for megatron-core, --for torchtitan.\n");
  CHECK(refused("show framework nonsense") ==
        "error: no framework is named \"nonsense\" [framework.name]\n"
        "  Known: accelerate, axolotl, colossal-ai, deepspeed, llama-factory, megatron-core, nanotron, orrery-cuda, "
        "torchtitan, torchtune.\n");
  const std::string file = folder.file("plan.toml");
  write(file, "for = \"nonsense\"\n" + plan);
  for (const char* verb : {"check ", "estimate "}) {
    CHECK(refused(verb + file) ==
          file + ":1:7: error: no framework is named \"nonsense\" [framework.name]\n    1 | for = \"nonsense\"\n" +
              "      |       ^\n  Known: any, accelerate, axolotl, colossal-ai, deepspeed, llama-factory, "
              "megatron-core, nanotron, orrery-cuda, torchtitan, torchtune.\n");
  }
}

TEST_CASE("framework.cannot: a plan for a program that does not launch it", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("plan.toml");
  write(file, "for = \"deepspeed\"\n" + plan);
  for (const char* verb : {"check ", "estimate ", "export "}) {
    CHECK(refused(verb + file)
              .starts_with(file + ":11:12: error: DeepSpeed does not launch pipeline = 2 [framework.cannot]\n"
                                  "   11 | pipeline = 2\n      |            ^\n  It launches 1.\n"));
  }
  CHECK(refused("plan --model llama-3-8b --cluster dgx-h100 --gpus 16 --batch 16 --seq 4096 --for deepspeed --only "
                "\"pipeline=2,4\"") ==
        "error: DeepSpeed does not launch pipeline = 2, 4 [framework.cannot]\n"
        "  It launches 1; --only names other values.\n");
}

TEST_CASE("cli.export and export.*: a target that is none, and one that cannot say the plan", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("plan.toml"), out = folder.file("out");
  write(file, plan);
  const std::string targets =
      "accelerate, colossal-ai, deepspeed, megatron, megatron-bridge, nanotron, torchtitan, sbatch.\n";
  CHECK(refused("export " + file) ==
        "error: the plan does not say which program launches it [cli.export]\n  Name one with --to: " + targets);
  CHECK(refused("export " + file + " --to nonsense") ==
        "error: --to: \"nonsense\" is not known [cli.arguments]\n  Known: " + targets +
            "  orrery export --help lists what is accepted.\n");
  CHECK(refused("export " + file + " --to deepspeed -o " + out)
            .find("error: DeepSpeed has no pipeline that its file can say [export.pipeline]\n") != std::string::npos);
  CHECK(!std::filesystem::exists(out));
  // A batch file runs a plan file.
  const std::string launch = folder.file("train.sh"), words = "\"tp=8 dp=2\"";
  const std::string help =
      "  orrery import FILE -o plan.toml makes a plan file of a launch file; orrery plan makes one of a model.\n";
  write(launch, script);
  CHECK(refused("export " + launch + " --to sbatch --model llama-3-8b --cluster dgx-h100 -o " + out) ==
        "error: a batch file runs a plan file, and " + launch + " is a launch file [export.plan-file]\n" + help);
  CHECK(refused("export " + words + " --to sbatch --model llama-3-8b --cluster h100:8x2 -o " + out)
            .find("error: a batch file runs a plan file, and tp=8 dp=2 is a plan in one line [export.plan-file]\n" +
                  help) != std::string::npos);
  CHECK(!std::filesystem::exists(out));
  CHECK(refused("export " + file + " --to megatron --slurm " + out) ==
        "error: a batch file starts a launch file, and there is none [export.slurm]\n  Write it with -o FILE.\n");
  CHECK(refused("export " + file + " --to sbatch -o " + out + " --slurm " + folder.file("job")) ==
        "error: --to sbatch writes a Slurm batch file already [export.slurm]\n  Leave out --slurm.\n");
  CHECK(!std::filesystem::exists(out));
  const Ran as_json = run(ORRERY_PROGRAM, "export " + file + " --to deepspeed --json");
  CHECK(as_json.status == 2);
  CHECK(nlohmann::json::parse(as_json.out)["errors"][0]["code"] == "export.pipeline");
}
