#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "tests/error/cli/refused.hpp"

// Wrong command lines: the status, and the exact text that a person sees.

using namespace orrery::test;

namespace {

const std::string tiny = "plan --model tiny-gpt --cluster local-cpu --gpus 4 --batch 16 --seq 128 --precision fp32 ";

}  // namespace

TEST_CASE("cli.verb: a verb that is none", "[error]") {
  CHECK(refused("plam") == "error: orrery has no verb \"plam\" [cli.verb]\n  Nearest: plan, place.\n");
}

TEST_CASE("cli.arguments: what the command line lacks or cannot read", "[error]") {
  CHECK(refused("") ==
        "error: a verb is missing [cli.arguments]\n"
        "  Known: plan, sweep, estimate, simulate, forecast, serve, jobs, place, run, compare, report, explain, "
        "calibrate, "
        "show, "
        "check, study, validate, import, export, checkpoint, manual, completion.\n"
        "  orrery --help lists what is accepted.\n");
  CHECK(refused("estimate") ==
        "error: orrery estimate needs PLAN [cli.arguments]\n  orrery estimate --help lists what is accepted.\n");
  CHECK(refused("plan --model tiny-gpt") ==
        "error: orrery plan needs --cluster, --batch and --seq [cli.arguments]\n"
        "  orrery plan --help lists what is accepted.\n");
  CHECK(refused("plan --model tiny-gpt --cluster local-cpu --seq 128 --batch -1") ==
        "error: --batch: \"-1\" is not a whole number from 1 to 16777216 [cli.arguments]\n"
        "  orrery plan --help lists what is accepted.\n");
  CHECK(refused("plan --model tiny-gpt --cluster local-cpu --seq 128 --batch 1e3") ==
        "error: --batch: \"1e3\" is not a whole number from 1 to 16777216 [cli.arguments]\n"
        "  orrery plan --help lists what is accepted.\n");
}

TEST_CASE("cli.arguments: flags and choices that are not known, and the nearest that are", "[error]") {
  const std::string help = "  orrery plan --help lists what is accepted.\n";
  CHECK(refused("plan --modle x") ==
        "error: orrery plan has no flag --modle [cli.arguments]\n  Did you mean --model?\n" + help);
  CHECK(refused("plan --clip_norm=1") ==
        "error: orrery plan has no flag --clip_norm [cli.arguments]\n  Did you mean --clip-norm?\n" + help);
  CHECK(refused("plan -x") == "error: orrery plan has no flag -x [cli.arguments]\n" + help);
  CHECK(refused("plan --precision bf15") ==
        "error: --precision: \"bf15\" is not known [cli.arguments]\n  Known: fp64, fp32, bf16, fp16, fp8.\n" + help);
  CHECK(refused("plan --dropout much") == "error: --dropout: \"much\" is not a number [cli.arguments]\n" + help);
  CHECK(refused("plan --gpus -1") ==
        "error: --gpus: \"-1\" is not a whole number from 1 to 1048576 [cli.arguments]\n" + help);
}

TEST_CASE("cli.output: nothing is written over the input, or twice", "[error]") {
  const TemporaryFolder folder;
  const std::string plan = folder.file("p.toml");
  const std::string text =
      "schema = 1\nmodel = \"tiny-gpt\"\ncluster = \"local-cpu\"\ngpus = 1\n[workload]\nbatch = 4\nsequence = 64\n"
      "precision = \"fp32\"\n[plan]\nmicrobatch_size = 1\n";
  write(plan, text);
  for (const char* verb : {"estimate ", "simulate ", "run --steps 1 "}) {
    CAPTURE(verb);
    CHECK(refused(verb + plan + " -o " + plan) ==
          "error: the output would overwrite the input " + plan + " [cli.output]\n");
  }
  const std::string both = folder.file("x.json");
  CHECK(refused("simulate " + plan + " -o " + both + " --trace " + both) ==
        "error: two outputs would be written to " + both + " [cli.output]\n");
  CHECK(!std::filesystem::exists(both));
}

TEST_CASE("cli.adapters: matrices of adapters that are none, or without a rank", "[error]") {
  CHECK(refused(tiny + "--adapter-matrices q") ==
        "error: --adapter-matrices needs --adapters [cli.adapters]\n  --adapters is the rank: 8, 16, 64.\n");
  CHECK(refused(tiny + "--adapters 4 --adapter-matrices q,head") ==
        "error: --adapter-matrices: \"head\" is no matrix that takes an adapter [cli.adapters]\n"
        "  The matrices are q, k, v, o, gate, up and down; all stands for all of them.\n");
  CHECK(refused(tiny + "--base nf4") ==
        "error: --base needs --adapters [cli.adapters]\n  Weights that are trained are not kept in few bits.\n");
  CHECK(refused(tiny + "--adapters 4 --base int8 --double-quantization") ==
        "error: --double-quantization needs --base nf4 [cli.adapters]\n"
        "  Only the scales of nf4 are quantized again.\n");
}

TEST_CASE("cli.clip-norm: what it may be", "[error]") {
  CHECK(refused(tiny + "--clip-norm -1") ==
        "error: --clip-norm is out of range [cli.clip-norm]\n"
        "  It is -1; above 0 and at most 1e9, or 0 for no clipping, is allowed.\n");
}

TEST_CASE("cli.flags: flags of show that do not go together", "[error]") {
  CHECK(refused("show device h100 --dot") ==
        "error: a device cannot be drawn [cli.flags]\n  --dot draws a model, cluster, fabric, plan or program.\n");
  CHECK(refused("show model --dot") ==
        "error: --dot needs something to draw [cli.flags]\n  orrery show model X --dot\n");
  CHECK(refused("show program demo-2x2x2 --order") == "error: --order goes with show plan PLAN only [cli.flags]\n");
  CHECK(refused("show plan demo-2x2x2 --order --dot") ==
        "error: --order does not go with --dot or --json [cli.flags]\n");
  CHECK(refused("show model gpt2-124m --rank 1") == "error: --rank goes with show program only [cli.flags]\n");
  CHECK(refused("show program demo-2x2x2 --rank 1 --dot") ==
        "error: --rank and --dot do not go together [cli.flags]\n"
        "  A Program is drawn block by block, not rank by rank.\n");
  CHECK(refused("show model gpt2-124m -o model.svg") ==
        "error: model.svg would not be a picture without --dot [cli.flags]\n  --dot draws a model, cluster, fabric, "
        "plan or program.\n");
  const Ran both = run(ORRERY_PROGRAM, "show model gpt2-124m --dot --json");
  CHECK(both.status == 2);
  CHECK(both.err == "error: --dot and --json do not go together [cli.flags]\n  A graph is text for Graphviz.\n");
}

TEST_CASE("with --json mistakes are JSON on standard output, and text on standard error", "[error]") {
  const Ran flag = run(ORRERY_PROGRAM, "plan --modle x --json");
  CHECK(flag.status == 2);
  CHECK(flag.err.find("error: orrery plan has no flag --modle [cli.arguments]") == 0);
  const auto wrong = nlohmann::json::parse(flag.out);
  REQUIRE(wrong["errors"].size() == 1);
  CHECK(wrong["errors"][0]["file"].is_null());
  CHECK(wrong["errors"][0]["line"].is_null());
  CHECK(wrong["errors"][0]["code"] == "cli.arguments");
  CHECK(wrong["errors"][0]["message"] == "orrery plan has no flag --modle");
  CHECK(wrong["errors"][0]["details"][0] == "Did you mean --model?");

  const TemporaryFolder folder;
  write(folder.file("m.toml"), "schema = 1\n[model]\nnam = 1\n");
  for (const char* verb : {"check ", "show model "}) {
    CAPTURE(verb);
    const Ran file = run(ORRERY_PROGRAM, verb + folder.file("m.toml") + " --json");
    CHECK(file.status == 2);
    CHECK(file.err.find(folder.file("m.toml") + ":") == 0);
    const auto errors = nlohmann::json::parse(file.out)["errors"];
    REQUIRE(errors.size() >= 2);
    CHECK(errors.back()["file"] == folder.file("m.toml"));
    CHECK(errors.back()["line"] == 3);
    CHECK(errors.back()["column"] == 1);
    CHECK(errors.back()["code"] == "file.unknown-key");
  }
  // A workload that the other program does not train is refused before a plan is searched for.
  const Ran kept = run(ORRERY_PROGRAM,
                       "plan --model tiny-gpt --cluster local-cpu --gpus 1 --batch 4 --seq 64 "
                       "--precision fp64 --export megatron --json");
  CHECK(kept.status == 2);
  const auto found = nlohmann::json::parse(kept.out);
  REQUIRE(found["errors"].size() == 1);
  CHECK(found["errors"][0]["code"] == "export.precision");
  CHECK_FALSE(found.contains("plans"));
}

TEST_CASE("library: names that are not known", "[error]") {
  CHECK(refused("plan --model GPT-3 --cluster dgx-a100 --batch 8 --seq 128")
            .find("error: no model is named \"GPT-3\" [library.unknown-model]\n  Nearest names: gpt3-175b") == 0);
  CHECK(refused("show device H10") ==
        "error: no device is named \"H10\" [library.unknown-device]\n  Nearest names: a10, h100, h100-96, h20.\n");
  CHECK(refused("estimate demo2x2x2") ==
        "error: no plan is named \"demo2x2x2\" [library.unknown-plan]\n  Nearest names: demo-2x2x2.\n");
  CHECK(refused("show model llama-3-70") ==
        "error: no model is named \"llama-3-70\" [library.unknown-model]\n"
        "  Nearest names: llama-3-70b, llama-2-70b, llama-2-7b, llama-3-8b.\n");
  CHECK(refused("estimate nosuch").find("error: no plan is named \"nosuch\" [library.unknown-plan]\n") == 0);
}

TEST_CASE("workload.range, workload.dropout: flags are checked like files", "[error]") {
  CHECK(refused("plan --model tiny-gpt --cluster local-cpu --batch 0 --seq 128") ==
        "error: batch is out of range [workload.range]\n  It is 0; from 1 to 16777216 is allowed.\n");
  CHECK(refused(tiny + "--dropout nan") ==
        "error: hidden_dropout must be from 0 to below 1 [workload.dropout]\n  It is nan.\n"
        "error: attention_dropout must be from 0 to below 1 [workload.dropout]\n  It is nan.\n");
}

TEST_CASE("workload.sequence: longer than the model's positions", "[error]") {
  CHECK(refused("plan --model tiny-gpt --cluster local-cpu --batch 16 --seq 1000") ==
        "error: tiny-gpt has 256 positions [workload.sequence]\n  --seq is 1000.\n");
}

TEST_CASE("plan.precision: a device without that precision", "[error]") {
  CHECK(refused("plan --model llama-3-8b --cluster dgx-1v --batch 8 --seq 8192") ==
        "error: V100 does not compute in bf16 [plan.precision]\n  It computes in fp64, fp32, fp16.\n");
}

TEST_CASE("cli.objective, cli.export, cli.top, cli.threads: choices of plan", "[error]") {
  CHECK(refused(tiny + "--objective cost") ==
        "error: local-cpu has no price [cli.objective]\n"
        "  Write price_per_gpu_hour into a cluster file of your own, or minimize step-time.\n");
  CHECK(refused(tiny + "--export other --top 0 --threads 5000") ==
        "error: --top is out of range [cli.top]\n  It is 0; from 1 to 10000 is allowed.\n"
        "error: --threads is out of range [cli.threads]\n  It is 5000; from 0 to 4096 is allowed.\n"
        "error: there is no export to \"other\" [cli.export]\n  Known: accelerate, colossal-ai, deepspeed, megatron, "
        "megatron-bridge, "
        "nanotron, torchtitan.\n");
}

TEST_CASE("cli.memory-margin: no size, or all of a device", "[error]") {
  CHECK(refused("plan --model gpt2-124m --cluster dgx-h100 --batch 8 --seq 128 --memory-margin 4") ==
        "error: --memory-margin is not a size [cli.memory-margin]\n  It is 4: the unit is missing; write for "
        "example \"80 GiB\".\n");
  CHECK(refused("plan --model gpt2-124m --cluster dgx-h100 --batch 8 --seq 128 --memory-margin 80GiB") ==
        "error: --memory-margin is out of range [cli.memory-margin]\n"
        "  It is 80 GiB; from 0 B to below the 81559 MiB of a device is allowed.\n");
}

TEST_CASE("cli.study, cli.flags: a study that is none, a drawing of none", "[error]") {
  CHECK(refused("study tensor-scalin") ==
        "error: there is no study \"tensor-scalin\" [cli.study]\n  Nearest: tensor-scaling, tensor-speedup.\n");
  CHECK(refused("study --svg x.svg") ==
        "error: --svg draws one study [cli.flags]\n  orrery study NAME --svg FILE; orrery study lists the names.\n");
}

TEST_CASE("cli.data: a data folder that is none", "[error]") {
  CHECK(refused("show model --data /nowhere") == "error: --data /nowhere is not a folder [cli.data]\n");
}

TEST_CASE("cli.software: programs that are not known, or not for such devices", "[error]") {
  CHECK(refused("estimate llama-3-70b-8-dgx-h100 --software megatron") ==
        "error: --software megatron is not known [cli.software]\n"
        "  Known: auto, none, megatron-lm-2022, megatron-deepspeed-2022, megatron-core, nemo, nemo-mlperf, "
        "megatron-bridge-25.09, megatron-bridge-25.11, megatron-bridge-26.06, mlperf-5.1, nanotron, internevo, "
        "torchtitan, llm-foundry, automodel, deepspeed.\n");
  CHECK(refused("simulate demo-2x2x2 --software nemo") ==
        "error: --software nemo is for GPUs, but the cluster's devices are CPU cores [cli.software]\n"
        "  Measured constants already hold the costs of the software that ran; use --software none.\n");
}

TEST_CASE("cli.calibration: constants of another device", "[error]") {
  const std::string file = std::string(ORRERY_SOURCE_DIR) + "/models/calibration/a100-80.toml";
  CHECK(refused("estimate llama-3-70b-8-dgx-h100 --calibration " + file) ==
        "error: the calibration is for another device (" + file +
            ") [cli.calibration]\n  It is for a100-80; the cluster has H100.\n");
}

TEST_CASE("cli.kind: what cannot be shown or recognised", "[error]") {
  CHECK(refused("show elephant") ==
        "error: \"elephant\" cannot be shown [cli.kind]\n  Known: model, models, cluster, device, fabric, plan, "
        "program, framework, frameworks.\n");
  const TemporaryFolder folder;
  write(folder.file("empty"), "");
  CHECK(refused("check " + folder.file("empty")) ==
        folder.file("empty") +
            ": error: this is not a file that Orrery knows [cli.kind]\n"
            "  A TOML file of Orrery has a table [model], [workload], "
            "[device], [cluster], [reliability], [fabric], [plan], [sweep] or [[step]] (a lesson), or is a "
            "calibration.\n");
}

TEST_CASE("file.open: a device has no end", "[error]") {
  CHECK(refused("check /dev/zero") == "/dev/zero: error: this is a device, not a file [file.open]\n");
}

TEST_CASE("a given cluster takes the place of the plan's", "[error]") {
  CHECK(refused("estimate llama-3-70b-8-dgx-h100 --cluster no-such").find("[library.unknown-cluster]") !=
        std::string::npos);
  const auto on = [](const std::string& cluster) {
    return run(ORRERY_PROGRAM, "estimate llama-3-70b-8-dgx-h100 --json" + cluster).out;
  };
  CHECK(on(" --cluster dgx-b200") != on(""));
  CHECK(on(" --cluster dgx-h100") == on(""));
}

TEST_CASE("cli.explain: only plans of one model and cluster differ by decisions", "[error]") {
  CHECK(refused("explain demo-2x2x2 llama-3-70b-8-dgx-h100") ==
        "error: the plans differ in model, workload or cluster [cli.explain]\n  model: tiny-gpt | llama-3-70b\n"
        "  cluster: local-cpu of 8 cpu-core | dgx-h100 of 64 H100\n"
        "  --cluster and "
        "--gpus put both on one cluster; orrery compare sets such plans side by side.\n");
}

TEST_CASE("cli.pass: a pass that lowering does not have", "[error]") {
  const std::string passes =
      "  In order: place, schedule, recomputation, sharding_collectives, pipeline_transfers, "
      "parameter_gathers_and_gradient_reductions, optimizer, lifetimes, parameter_copies, host_copies, lanes.\n";
  CHECK(refused("show program demo-2x2x2 --after optimiser") ==
        "error: lowering has no pass \"optimiser\" [cli.pass]\n  Did you mean optimizer?\n" + passes);
  CHECK(refused("show program demo-2x2x2 --after zzz") == "error: lowering has no pass \"zzz\" [cli.pass]\n" + passes);
  CHECK(refused("show plan demo-2x2x2 --after lanes") == "error: --after goes with show program only [cli.flags]\n");
}

TEST_CASE("cli.rank: a rank that the plan does not have", "[error]") {
  CHECK(refused("show program demo-2x2x2 --rank 8") ==
        "error: --rank is out of range [cli.rank]\n  It is 8; the plan has ranks 0 to 7.\n");
}

TEST_CASE("cli.stragglers: more slow ranks than the plan has", "[error]") {
  CHECK(refused("simulate demo-2x2x2 --stragglers 9") ==
        "error: --stragglers asks for 9 of 8 ranks [cli.stragglers]\n");
}

TEST_CASE("cli.ranks, cli.records, cli.heartbeat: processes that cannot be started so", "[error]") {
  CHECK(refused("run demo-2x2x2 --ranks 4") == "error: --ranks is 4, but the plan has 8 ranks [cli.ranks]\n");
  CHECK(refused("run demo-2x2x2 --ranks 8 --backend mpi") ==
        "error: --ranks starts processes, but mpirun or srun starts those of --backend mpi [cli.ranks]\n");
  CHECK(refused("run demo-2x2x2 --ranks 8 --records /no/folder") ==
        "error: --records: /no/folder is not a folder [cli.records]\n");
  CHECK(refused("run demo-2x2x2 --ranks 8 --heartbeat 0.01") ==
        "error: --heartbeat is 0.01; it must be from 0.1 to 1000000 [cli.heartbeat]\n");
}

TEST_CASE("cli.supervise: runs that cannot survive", "[error]") {
  const std::string supervised = "run demo-2x2x2 --checkpoint /tmp/orrery-none --supervise ";
  CHECK(refused("run demo-2x2x2 --supervise") ==
        "error: --supervise needs a folder to go on from: --checkpoint DIR [cli.supervise]\n");
  const std::string elsewhere =
      "error: --supervise watches processes that are started here [cli.supervise]\n"
      "  These are the ranks of --ranks N. mpirun, srun and torchrun watch their own; after a failure they, or a "
      "script, "
      "start the job again with --resume.\n";
  CHECK(refused(supervised + "--backend mpi") == elsewhere);
  CHECK(refused(supervised + "--backend cuda") == elsewhere);
  CHECK(refused(supervised + "--tries 0") == "error: --tries is 0; it must be from 1 to 1000000 [cli.supervise]\n");
  CHECK(refused(supervised + "--mean-time-between-failures 3") ==
        "error: --mean-time-between-failures: the unit is missing; write for example \"5 us\" [cli.supervise]\n"
        "  It is a time with its unit: \"90 s\", \"2 h\", \"5 d\".\n");
  CHECK(refused(supervised + "--mean-time-between-failures '0 s'") ==
        "error: --mean-time-between-failures is 0 s; it must be above 0 and at most 1e10 s [cli.supervise]\n");
  CHECK(refused("run demo-2x2x2 --mean-time-between-failures '3 h'") ==
        "error: --mean-time-between-failures is for --supervise [cli.supervise]\n");
  CHECK(refused("run demo-2x2x2 --restart fewer") == "error: --restart is for --supervise [cli.supervise]\n");
  CHECK(refused(supervised + "--measure-groups groups.csv").find("[cli.measure-groups]") != std::string::npos);
}

TEST_CASE("cli.adapt: runs whose plan stays", "[error]") {
  CHECK(refused("run demo-2x2x2 --adapt 0.15 --backend mpi") ==
        "error: --adapt: it is for ranks on the host, with --backend threads or processes [cli.adapt]\n");
  CHECK(refused("run demo-2x2x2 --adapt 0.15 --backend cuda --share-gpu") ==
        "error: --adapt: it is for ranks on the host, with --backend threads or processes [cli.adapt]\n");
  CHECK(refused("run demo-2x2x2 --slow-links '1 MB/s' --backend mpi") ==
        "error: --slow-links: it is for ranks on the host, with --backend threads or processes [cli.adapt]\n");
  CHECK(refused("run demo-2x2x2 --adapt 0.15 --checkpoint /tmp/orrery-none --supervise") ==
        "error: --adapt: a supervised run keeps its plan [cli.adapt]\n");
  CHECK(refused("run cpu-one-rank --adapt 0.15") ==
        "error: --adapt: the plan has one rank, so there is no other way to divide the work [cli.adapt]\n");
  CHECK(refused("run demo-2x2x2 --adapt much") == "error: --adapt: \"much\" is no number [cli.amount]\n");
  CHECK(refused("run demo-2x2x2 --adapt 0") ==
        "error: --adapt is out of range [cli.amount]\n  It is 0; from 0.01 to 0.99 is allowed.\n");
  CHECK(refused("run demo-2x2x2 --adapt 1") ==
        "error: --adapt is out of range [cli.amount]\n  It is 1; from 0.01 to 0.99 is allowed.\n");
  CHECK(refused("run demo-2x2x2 --slow-links 20") ==
        "error: --slow-links: the unit is missing; write for example \"3.35 TB/s\" [cli.adapt]\n"
        "  It is a rate with its unit: \"20 MB/s\".\n");
  CHECK(refused("run demo-2x2x2 --slow-links '1 B/s'") ==
        "error: --slow-links is 1 B/s; it must be from 1 kB/s to 1000 TB/s [cli.adapt]\n");
  CHECK(refused("run demo-2x2x2 --slow-from 3") == "error: --slow-from is for --slow-links [cli.adapt]\n");
}

TEST_CASE("cli.metrics: figures that cannot go there", "[error]") {
  CHECK(refused("run demo-2x2x2 --metrics 70000") ==
        "error: --metrics: there is no port 70000; ports are from 1 to 65535 [cli.metrics]\n"
        "  A file whose name is a number has its folder with it: ./80.\n");
  CHECK(refused("run demo-2x2x2 --csv -").find("--csv") != std::string::npos);
  CHECK(refused("run demo-2x2x2 --csv /no/folder/steps.csv", 3).find("/no/folder") != std::string::npos);
}

TEST_CASE("cli.noise-scale: gradients of one batch size alone", "[error]") {
  CHECK(refused("run cpu-one-rank --noise-scale") ==
        "error: --noise-scale: it compares gradients of data ranks, and the plan has only one [cli.noise-scale]\n");
  CHECK(refused("run demo-2x2x2 --noise-scale --backend cuda --share-gpu") ==
        "error: --noise-scale: ranks on GPUs do not measure it [cli.noise-scale]\n");
}

TEST_CASE("cli.gpu, cli.share-gpu: what goes with --backend cuda", "[error]") {
  CHECK(refused("run demo-2x2x2 --share-gpu") == "error: --share-gpu is for --backend cuda [cli.gpu]\n");
  CHECK(refused("run demo-2x2x2 --graphs on") == "error: --graphs is for --backend cuda [cli.gpu]\n");
  CHECK(refused("run demo-2x2x2 --backend mpi --gpu 1") == "error: --gpu is for --backend cuda [cli.gpu]\n");
  CHECK(refused("run demo-2x2x2 --backend cuda") ==
        "error: the plan has 8 ranks, but this is one process [cli.share-gpu]\n"
        "  With --ranks 8 each rank is a process with a GPU; torchrun, mpirun and srun start them, too.\n"
        "  With --share-gpu all of them take turns on one GPU: the same numbers, but not the times of as many GPUs.\n");
  CHECK(refused("run demo-2x2x2 --backend cuda --ranks 4") ==
        "error: --ranks is 4, but the plan has 8 ranks [cli.ranks]\n");
}

TEST_CASE("cli.job: which rank a process is, said badly", "[error]") {
  CHECK(refused("run demo-2x2x2 --rank 1 --world-size 8") == "error: --rank is for --backend cuda [cli.job]\n");
  CHECK(refused("run demo-2x2x2 --nccl here.so") == "error: --nccl is for --backend cuda [cli.job]\n");
  CHECK(refused("run demo-2x2x2 --backend cuda --rank 1") ==
        "error: --rank needs --world-size, the number of ranks [cli.job]\n");
  CHECK(refused("run demo-2x2x2 --backend cuda --share-gpu --rendezvous here:1") ==
        "error: --rendezvous is for a process of a job, but nothing says which one this is [cli.job]\n"
        "  Give --rank and --world-size, or start the job by torchrun, mpirun or srun.\n");
  CHECK(refused("run demo-2x2x2 --backend cuda --ranks 8 --rendezvous here:1") ==
        "error: --ranks starts all processes here, and --rank, --world-size, --local-rank, --rendezvous, --token-file "
        "and --no-token are for processes that a launcher starts [cli.job]\n");
  CHECK(
      refused("run demo-2x2x2 --backend cuda --rank 1 --world-size 8") ==
      "error: the flags --rank and --world-size say rank 1 of 8, but not where the ranks meet [cli.job]\n"
      "  --rendezvous HOST:PORT, with the host of rank 0 and a free port there, or --rendezvous FILE, which all hosts "
      "see.\n");
}

TEST_CASE("cli.token: ranks of several hosts without a secret, and one that is none", "[error]") {
  const std::string made = "  One is made by: head -c 32 /dev/urandom | sha256sum | cut -c 1-64\n";
  const std::string run = "run demo-2x2x2 --backend cuda --rank 1 --world-size 8 --rendezvous ";
  CHECK(refused(run + "192.0.2.1:29999") ==
        "error: ranks that meet at 192.0.2.1:29999 need a token, so that no stranger joins them [cli.token]\n"
        "  Give all of them the same token, in the variable ORRERY_TOKEN or by --token-file FILE.\n" +
            made +
            "  --rendezvous FILE, in a folder that all hosts see, needs no token; with --no-token ranks meet without "
            "one.\n");
  const TemporaryFolder folder;
  const std::string file = folder.file("token");
  const std::string with_file = run + "127.0.0.1:9 --token-file " + file;
  CHECK(refused(with_file) == "error: --token-file: " + file + " cannot be read [cli.token]\n");
  write(file, "  fifteen letters \n");
  std::filesystem::permissions(file, std::filesystem::perms(0640));
  CHECK(refused(with_file) == "error: --token-file: other users have access to " + file +
                                  " (mode 0640) [cli.token]\n  chmod 600 makes it yours alone.\n");
  std::filesystem::permissions(file, std::filesystem::perms(0600));
  CHECK(refused(with_file) ==
        "error: the token in " + file + " has 15 characters; it needs 16 to 4096 [cli.token]\n" + made);
  write(file, std::string(5000, 'x'));
  CHECK(refused(with_file) ==
        "error: the token in " + file + " has 4097 characters or more; it needs 16 to 4096 [cli.token]\n" + made);
  CHECK(refused(with_file + " --no-token") == "error: --no-token and --token-file contradict each other [cli.token]\n");
  CHECK(refused("run demo-2x2x2 --no-token") == "error: --no-token is for --backend cuda [cli.job]\n");
}

TEST_CASE("cli.steps, cli.warmup, cli.noise, cli.slowdown, cli.tolerance, cli.watchdog: numbers out of range",
          "[error]") {
  CHECK(refused("run demo-2x2x2 --warmup 99999999999") ==
        "error: --warmup is 99999999999; it must be from 0 to 1000000000 [cli.warmup]\n");
  CHECK(refused("run demo-2x2x2 --steps 0") == "error: --steps is 0; it must be from 1 to 1000000000 [cli.steps]\n");
  CHECK(refused("run demo-2x2x2 --watchdog nan") ==
        "error: --watchdog is nan; it must be above 0 and at most 1000000 [cli.watchdog]\n");
  CHECK(refused("simulate demo-2x2x2 --noise -1") == "error: --noise is -1; it must be from 0 to 10 [cli.noise]\n");
  for (const char* factor : {"0.9", "nan", "1001"}) {
    CHECK(refused("simulate demo-2x2x2 --stragglers 1 --slowdown " + std::string(factor)) ==
          "error: --slowdown is " + std::string(factor) + "; it must be from 1 to 1000 [cli.slowdown]\n");
  }
  CHECK(refused("compare a.json b.json --tolerance nan") ==
        "error: a tolerance must be a number from 0 [cli.tolerance]\n");
}

TEST_CASE("cli.cluster: a plan without a cluster cannot be priced", "[error]") {
  const TemporaryFolder folder;
  write(folder.file("p.toml"),
        "schema = 1\nmodel = \"tiny-gpt\"\n[workload]\nbatch = 4\nsequence = 64\nprecision = \"fp32\"\n[plan]\n"
        "microbatch_size = 1\n");
  CHECK(refused("estimate " + folder.file("p.toml")) ==
        "error: the plan names no cluster [cli.cluster]\n"
        "  Write cluster = \"...\" into the plan; most verbs also take --cluster.\n");
  CHECK(run(ORRERY_PROGRAM, "estimate " + folder.file("p.toml") + " --cluster local-cpu").status == 0);
}

TEST_CASE("cli.compare: things of different kinds", "[error]") {
  const TemporaryFolder folder;
  CHECK(run(ORRERY_PROGRAM, "estimate demo-2x2x2 -o " + folder.file("r.json")).status == 0);
  CHECK(refused("compare demo-2x2x2 " + folder.file("r.json")) ==
        "error: a plan cannot be compared with a report [cli.compare]\n"
        "  Two traces, two reports or two plans can be compared.\n");
}

TEST_CASE("cli.compare: traces that are not of the given plan", "[error]") {
  const TemporaryFolder folder;
  const std::string trace = folder.file("t.json");
  CHECK(run(ORRERY_PROGRAM, "simulate demo-2x2x2 --trace " + trace).status == 0);
  CHECK(refused("compare " + trace + " " + trace + " --plan cpu-one-rank")
            .find(trace +
                  ": error: this trace does not belong to the plan cpu-one-rank [cli.compare]\n  Rank 0 has ") == 0);
  CHECK(run(ORRERY_PROGRAM, "compare " + trace + " " + trace + " --plan demo-2x2x2").status == 0);
}

TEST_CASE("report.json: a negative time is none", "[error]") {
  const TemporaryFolder folder;
  const std::string report = folder.file("r.json");
  CHECK(run(ORRERY_PROGRAM, "estimate demo-2x2x2 -o " + report).status == 0);
  std::string text = contents(report);
  text.insert(text.find(':', text.find("\"step_time_s\"")) + 2, "-");
  write(report, text);
  CHECK(refused("compare " + report + " " + report).find(report + ": error: step_time_s is negative [report.json]\n") ==
        0);
}

TEST_CASE("status 3: the world fails", "[error]") {
  const TemporaryFolder folder;
  CHECK(refused("estimate demo-2x2x2 -o " + folder.file("new/folder/r.json"), 3) ==
        "error: cannot write " + folder.file("new/folder/r.json") + ": there is no folder " +
            folder.file("new/folder") + "\n");
  CHECK(!std::filesystem::exists(folder.file("new")));
  CHECK(refused(tiny + "-o " + folder.file(""), 3).find("error: cannot write ") == 0);
  CHECK(refused("estimate demo-2x2x2 -o /proc/nowhere/r.json", 3).find("error: cannot write /proc/nowhere/r.json") ==
        0);
  const std::string large = refused("run llama-3-70b-8-dgx-h100", 3);
  CHECK(large.find("error: the ranks need ") == 0);
}

TEST_CASE("mistakes in a file are all shown, with line and column", "[error]") {
  const TemporaryFolder folder;
  const std::string file = folder.file("p.toml");
  write(file,
        "schema = 1\nmodel = \"tiny-gpt\"\ncluster = \"local-cpu\"\ngpus = 4\n[workload]\nbatch = 16\nsequenc = 128\n"
        "precision = \"fp31\"\n[plan]\nmicrobatch_size = 1\n");
  CHECK(refused("estimate " + file) ==
        file +
            ":5:1: error: the key sequence is missing from [workload] [file.missing-key]\n"
            "    5 | [workload]\n      | ^\n" +
            file +
            ":8:13: error: workload.precision is \"fp31\", which is not known [file.choice]\n"
            "    8 | precision = \"fp31\"\n      |             ^\n  Known: fp64, fp32, bf16, fp16, fp8.\n" +
            file +
            ":7:1: error: workload.sequenc is not a known key [file.unknown-key]\n"
            "    7 | sequenc = 128\n      | ^\n  Did you mean sequence?\n");
}

TEST_CASE("model.priced: run refuses what its kernels do not do", "[error]") {
  const std::string plan = std::string(ORRERY_SOURCE_DIR) + "/tests/error/cli/given/scaled.toml";
  CHECK(
      refused("run " + plan)
          .find("error: scaled is priced, but not run: kernels do not have rotary angles stretched by numbers that are "
                "not given (llama3) [model.priced]\n") != std::string::npos);
  const Ran estimate = run(ORRERY_PROGRAM, "estimate --cluster local-cpu " + plan);
  CHECK(estimate.status == 0);
  CHECK(estimate.out.find("scaled rotary angles (llama3) cost what plain ones do") != std::string::npos);
}

TEST_CASE("workload.data: every verb that reads a plan refuses its token file alike", "[error]") {
  const std::string plan = std::string(ORRERY_SOURCE_DIR) + "/tests/error/cli/given/endless.toml";
  for (const char* verb : {"check ", "estimate ", "simulate ", "run "}) {
    CHECK(refused(verb + plan) == plan +
                                      ":10:8: error: the token file is not a regular file [workload.data]\n"
                                      "   10 | data = \"/dev/zero\"\n"
                                      "      |        ^\n"
                                      "  It is looked for at /dev/zero.\n");
  }
}
