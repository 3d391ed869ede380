#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/validate/runs.hpp"
#include "validate/expressed_run.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

using Layers = std::vector<std::uint32_t>;

std::string reason(const MeasuredRun& run) {
  const ExpressedRun e = express(run, shipped_library());
  CHECK_FALSE(e.run);
  return e.reason;
}

}  // namespace

TEST_CASE("a whole row becomes the plan that it states", "[unit][validate]") {
  const ExpressedRun e = express(dense_run(), shipped_library());
  CHECK(e.reason.empty());
  CHECK(e.filled.empty());
  REQUIRE(e.run);
  const ModelSpec& m = e.run->model;
  CHECK(m.layers == 48);
  CHECK(m.head_dim == 96);  // 6144 / 64
  CHECK(m.activation == Activation::gelu);
  CHECK(m.tied_embeddings);
  const Plan& p = e.run->plan;
  CHECK(p.mesh.axes == std::vector<MeshAxis>{{Axis::pipeline, 2}, {Axis::tensor, 4}});
  CHECK(p.microbatch_size == 2);
  CHECK(p.schedule == ScheduleName::one_f_one_b);
  CHECK(*p.stage_layers == Layers{24, 24});
  CHECK(p.recompute == Recompute::full);
  CHECK(p.zero_stage == 0);
  CHECK_FALSE(p.sequence_parallel);
  CHECK(p.attention == AttentionKernel::unfused);  // Megatron-LM of 2022
  const Workload& w = e.run->workload;
  CHECK(w.global_batch == 8);
  CHECK(w.precision == Precision::fp16);
  CHECK(gradient_dtype(w) == DType::f16);
  CHECK(w.hidden_dropout == 0.1);
}

TEST_CASE("empty cells follow the framework's rule, and are named", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.framework = "NeMo 24.12";
  run.gpu = "H100-SXM";
  run.precision = "bf16";
  run.activation = "swiglu";
  run.gbs = 32;
  run.gpus = 16;
  run.dp = 2;
  run.vocab = {};
  run.kv_heads = {};
  run.sp = "";
  run.zero = "";
  run.recompute = "";
  const ExpressedRun e = express(run, shipped_library());
  CHECK(e.reason.empty());
  REQUIRE(e.run);
  CHECK(e.filled == std::vector<std::string>{"inter_net", "kv_heads", "vocab", "zero", "sp", "recompute"});
  CHECK(e.run->plan.sequence_parallel);
  CHECK(e.run->plan.zero_stage == 1);
  CHECK(e.run->plan.recompute == Recompute::none);
  CHECK(e.run->model.kv_heads == 64);
  CHECK(e.run->model.norm == Norm::rms_norm);
  CHECK_FALSE(e.run->model.tied_embeddings);
}

TEST_CASE("virtual stages are interleaved, sharding groups become replicas", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.vp = 3;
  const ExpressedRun interleaved = express(run, shipped_library());
  REQUIRE(interleaved.run);
  CHECK(interleaved.run->plan.schedule == ScheduleName::interleaved);
  CHECK(interleaved.run->plan.chunks == 3);

  run = dense_run();
  run.framework = "torchtitan 9dec370";
  run.precision = "bf16";
  run.tp = 1;
  run.pp = 1;
  run.dp = 8;
  run.gbs = 16;
  run.zero = "FSDP2 (ZeRO-3) degree 4";
  run.recompute = "selective (per-op SAC)";
  const ExpressedRun sharded = express(run, shipped_library());
  CHECK(sharded.reason.empty());
  REQUIRE(sharded.run);
  CHECK(sharded.run->plan.mesh.axes == std::vector<MeshAxis>{{Axis::replica, 2}, {Axis::data, 4}});
  CHECK(sharded.run->plan.zero_stage == 3);
  CHECK(*sharded.run->plan.recompute_layers == Layers{24});
}

// Among NeMo's rows that state their chunks 46 of 49 interleave where there is a pipeline, and those of the releases
// that left some out mostly have one layer a chunk. Megatron-LM's table of 2021 states its chunks.
TEST_CASE("chunks that are not published are one layer each in NeMo, one for all elsewhere", "[unit][validate]") {
  MeasuredRun run = dense_run();  // 48 layers, 2 stages, 4 microbatches
  run.vp = {};
  CHECK(express(run, shipped_library()).run->plan.chunks == 1);
  run.framework = "NeMo 24.07";
  run.precision = "bf16";
  const ExpressedRun e = express(run, shipped_library());
  REQUIRE(e.run);
  CHECK(e.run->plan.chunks == 24);
  CHECK(e.run->plan.schedule == ScheduleName::interleaved);
  CHECK(*e.run->plan.stage_layers == Layers(48, 1));
  CHECK(std::count(e.filled.begin(), e.filled.end(), "vp") == 1);
  run.layers = 47;  // do not divide
  CHECK(express(run, shipped_library()).run->plan.chunks == 1);
  run.layers = 48;
  run.gbs = 6;  // three microbatches, which interleaving takes by twos
  CHECK(express(run, shipped_library()).run->plan.chunks == 1);
}

TEST_CASE("mixtures take the shapes of the shipped model they name", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.framework = "NeMo container 25.09";
  run.gpu = "B200-SXM";
  run.gpu_mem_gb = {};
  run.model = "Qwen3_30B_a3B";
  run.layers = 48;
  run.hidden = 2048;
  run.ffn = 768;
  run.heads = 32;
  run.kv_heads = 4;
  run.vocab = {};
  run.activation = "swiglu";
  run.precision = "mxfp8";
  run.tp = 1;
  run.pp = 1;
  run.dp = 8;
  run.ep = 8;
  run.gbs = 64;
  const ExpressedRun e = express(run, shipped_library());
  CHECK(e.reason.empty());
  REQUIRE(e.run);
  CHECK(e.run->model.head_dim == 128);  // not 2048 / 32
  REQUIRE(e.run->model.mixture);
  CHECK(e.run->model.mixture->ffn == 768);
  CHECK(e.run->plan.mesh.axes == std::vector<MeshAxis>{{Axis::expert, 8}});
  CHECK(e.run->workload.precision == Precision::fp8);
}

TEST_CASE("layers are dealt evenly, the ends last", "[unit][validate]") {
  CHECK(dealt_layers(48, 4) == Layers{12, 12, 12, 12});
  CHECK(dealt_layers(126, 8) == Layers{15, 16, 16, 16, 16, 16, 16, 15});
  CHECK(dealt_layers(61, 4) == Layers{15, 16, 15, 15});
  CHECK(dealt_layers(3, 3) == Layers{1, 1, 1});
  CHECK(dealt_layers(2, 3).empty());
  CHECK(dealt_layers(2, 0).empty());
  for (std::uint64_t stages = 1; stages <= 40; ++stages) {
    std::uint64_t sum = 0;
    for (const std::uint32_t n : dealt_layers(40, stages)) sum += n;
    CHECK(sum == 40);
  }
}

TEST_CASE("a row that says too little, or what is not modelled, says why", "[unit][validate]") {
  const auto changed = [](auto change) {
    MeasuredRun run = dense_run();
    change(run);
    return reason(run);
  };
  CHECK(changed([](MeasuredRun& r) { r.framework = ""; }) == "not published: framework");
  CHECK(changed([](MeasuredRun& r) { r.framework = "X"; }) == "there is no rule for the framework X");
  CHECK(changed([](MeasuredRun& r) {
          r.heads = {};
          r.layers = {};
        }) == "not published: layers, heads");
  CHECK(changed([](MeasuredRun& r) {
          r.mbs = {};
          r.precision = "";
        }) == "not published: mbs, precision");
  CHECK(changed([](MeasuredRun& r) { r.precision = "nvfp4 (mixed)"; }) ==
        "the precision nvfp4 (mixed) is not modelled");
  CHECK(changed([](MeasuredRun& r) { r.zero = "Gemini"; }) == "the sharding \"Gemini\" is not modelled");
  CHECK(changed([](MeasuredRun& r) { r.recompute = "some"; }) == "the recomputation \"some\" is not modelled");
  CHECK(changed([](MeasuredRun& r) { r.recompute = "selective + mlp"; }) ==
        "the recomputation \"selective + mlp\" is not modelled");
  CHECK(changed([](MeasuredRun& r) { r.framework = "NeMo-RL"; }) == "there is no rule for the framework NeMo-RL");
  CHECK(changed([](MeasuredRun& r) { r.sp = "true"; }) == "sp is \"true\", which is neither yes nor no");
  CHECK(changed([](MeasuredRun& r) { r.activation = "relu"; }) == "the activation \"relu\" is not modelled");
  CHECK(changed([](MeasuredRun& r) { r.notes = "SFT or LoRA"; }) ==
        "whether all weights are trained is not clear: \"SFT or LoRA\"");
  CHECK(changed([](MeasuredRun& r) {
          r.framework = "torchtitan 9dec370";
          r.precision = "bf16";
          r.recompute = "selective";  // torchtitan's choice is by operation or by layer
        }) == "the recomputation \"selective\" is not modelled");
  CHECK(changed([](MeasuredRun& r) { r.notes = "QLoRA"; }) ==
        "there is no rule yet for adapters beside weights in few bits, and DoRA is not modelled");
  CHECK(changed([](MeasuredRun& r) { r.dp = 2; }) == "tp 4 x pp 2 x cp 1 x dp 2 does not give the 8 GPUs");
  CHECK(changed([](MeasuredRun& r) { r.ep = 2; }) == "ep 2 does not lie inside dp 1");
  CHECK(changed([](MeasuredRun& r) { r.vp = 40; }) == "48 layers cannot be divided among 80 stages");
  CHECK(changed([](MeasuredRun& r) { r.experts = 7; }) == "no shipped model has the expert shapes of \"GPT-22B\"");
  CHECK(changed([](MeasuredRun& r) { r.heads = 100; }) ==
        "hidden 6144 is not a multiple of heads 100, and the head width is not published");
  // These go through the same check as every plan.
  CHECK(changed([](MeasuredRun& r) { r.mbs = 3; }) ==
        "the microbatch size does not divide a replica's batch: batch 8 / data 1 is 8, and 8 / 3 leaves 2.");
}
