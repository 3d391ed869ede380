#include "framework/megatron_core/write.hpp"
#include "tests/support/tiny_model.hpp"

#include <catch2/catch.hpp>

using namespace orrery;

namespace {

// Llama-3-70B's shape on 64 GPUs.
PlannedRun run() {
  PlannedRun r;
  r.model = test::tiny_llama({.layers = 80,
                              .hidden = 8192,
                              .heads = 64,
                              .kv_heads = 8,
                              .ffn = 28672,
                              .vocabulary = 128256,
                              .positions = 8192,
                              .tied = false});
  r.model.name = "llama";
  r.model.rope_theta = 500000;
  r.workload.global_batch = 512;
  r.workload.sequence_length = 8192;
  r.workload.clip_norm = 1.0;
  Plan& p = r.plan;
  p.name = "llama-64";
  p.mesh.axes = {{Axis::pipeline, 4}, {Axis::data, 2}, {Axis::tensor, 8}};
  p.stage_layers = {{20, 20, 20, 20}};
  p.sequence_parallel = true;
  p.zero_stage = 1;
  p.gradient_bucket = Bytes::of(160e6);
  p.overlap_gradients = true;
  p.attention = AttentionKernel::flash;
  return r;
}

std::string text(const PlannedRun& r) {
  Diagnostics wrong;
  const auto flags = megatron_flags(r, wrong);
  REQUIRE(wrong.empty());
  REQUIRE(flags);
  return megatron_text(r, *flags);
}

std::string value(const PlannedRun& r, const std::string& name) {
  Diagnostics wrong;
  const auto flags = megatron_flags(r, wrong);
  REQUIRE(flags);
  for (const LaunchFlag& f : *flags) {
    if (f.name == name) return f.value.empty() ? "set" : f.value;
  }
  return "";
}

std::string refusal(const PlannedRun& r) {
  Diagnostics wrong;
  CHECK_FALSE(megatron_flags(r, wrong));
  return render(wrong);
}

}  // namespace

TEST_CASE("a plan is exported as these Megatron-LM flags", "[framework][megatron]") {
  // Buckets count gradients: 160 MB of 4-byte gradients are 40 million.
  CHECK(text(run()) == R"(# Megatron-LM flags of llama-64: 64 ranks, data parallel 2
--tensor-model-parallel-size 8 \
--pipeline-model-parallel-size 4 \
--sequence-parallel \
--use-distributed-optimizer \
--overlap-grad-reduce \
--ddp-bucket-size 40000000 \
--micro-batch-size 1 \
--global-batch-size 512 \
--seq-length 8192 \
--attention-backend flash \
--num-layers 80 \
--hidden-size 8192 \
--ffn-hidden-size 28672 \
--num-attention-heads 64 \
--kv-channels 128 \
--group-query-attention \
--num-query-groups 8 \
--max-position-embeddings 8192 \
--position-embedding-type rope \
--rotary-base 500000 \
--normalization RMSNorm \
--norm-epsilon 1e-05 \
--swiglu \
--disable-bias-linear \
--untie-embeddings-and-output-weights \
--vocab-size 128256 \
--make-vocab-size-divisible-by 1 \
--hidden-dropout 0 \
--attention-dropout 0 \
--bf16 \
--optimizer adam \
--adam-beta1 0.9 \
--adam-beta2 0.95 \
--adam-eps 1e-08 \
--lr 0.0003 \
--weight-decay 0.1 \
--clip-grad 1 \
--lr-decay-style constant \
--seed 1
)");
}

TEST_CASE("uneven stages become the narrowest flag that says them", "[framework][megatron]") {
  PlannedRun r = run();
  r.plan.stage_layers = {{19, 21, 21, 19}};
  CHECK(value(r, "--decoder-first-pipeline-num-layers") == "19");
  CHECK(value(r, "--decoder-last-pipeline-num-layers") == "19");
  CHECK(value(r, "--pipeline-model-parallel-layout").empty());
  r.plan.stage_layers = {{21, 21, 21, 17}};
  CHECK(value(r, "--decoder-first-pipeline-num-layers").empty());
  CHECK(value(r, "--decoder-last-pipeline-num-layers") == "17");
  r.plan.stage_layers = {{19, 21, 20, 20}};
  CHECK(value(r, "--decoder-first-pipeline-num-layers").empty());
  CHECK(value(r, "--pipeline-model-parallel-layout") == "Et*19|t*21|t*20|t*20L");
  CHECK(text(r).find("--pipeline-model-parallel-layout 'Et*19|t*21|t*20|t*20L' \\\n") != std::string::npos);
  r.plan.mesh.axes = {{Axis::pipeline, 2}, {Axis::data, 4}, {Axis::tensor, 8}};
  r.plan.stage_layers = {{41, 39}};
  CHECK(value(r, "--decoder-first-pipeline-num-layers") == "41");
  CHECK(value(r, "--decoder-last-pipeline-num-layers").empty());
}

TEST_CASE("the two rank orders of the target are expressed, others are refused", "[framework][megatron]") {
  PlannedRun r = run();
  CHECK(value(r, "--use-tp-pp-dp-mapping").empty());
  r.plan.mesh.axes = {{Axis::data, 2}, {Axis::pipeline, 4}, {Axis::tensor, 8}};
  CHECK(value(r, "--use-tp-pp-dp-mapping") == "set");
  r.plan.mesh.axes = {{Axis::pipeline, 4}, {Axis::tensor, 8}, {Axis::data, 2}};
  CHECK(refusal(r) ==
        "error: Megatron-LM keeps the tensor axis innermost, then context, expert and data [export.mesh-order]\n"
        "  Its orders are pipeline, replica, data, expert, context, tensor, outermost first, with pipeline first or "
        "behind data.\n");
  // An axis of size 1 has no place.
  r.plan.mesh.axes = {{Axis::pipeline, 4}, {Axis::tensor, 16}, {Axis::data, 1}};
  CHECK(value(r, "--tensor-model-parallel-size") == "16");
}

TEST_CASE("recomputation, kernels and precision have their flags", "[framework][megatron]") {
  PlannedRun r = run();
  r.plan.recompute = Recompute::full;
  CHECK(value(r, "--recompute-granularity") == "full");
  CHECK(value(r, "--recompute-num-layers") == "1");
  r.plan.stage_layers = std::vector<std::uint32_t>{4};
  r.plan.recompute_layers = std::vector<std::uint32_t>{3};
  CHECK(value(r, "--recompute-method") == "block");
  CHECK(value(r, "--recompute-num-layers") == "3");
  r.plan.recompute_layers.reset();
  r.plan.recompute = Recompute::selective;
  r.plan.attention = AttentionKernel::unfused;
  CHECK(value(r, "--recompute-granularity") == "selective");
  CHECK(value(r, "--recompute-modules") == "core_attn");
  CHECK(value(r, "--attention-backend") == "unfused");
  r.plan.recompute_modules |= set_of(RecomputeModule::mlp);
  CHECK(value(r, "--recompute-modules") == "core_attn mlp");
  r.workload.gradient_dtype = DType::bf16;
  CHECK(value(r, "--grad-reduce-in-bf16") == "set");
  r.workload.gradient_dtype.reset();
  r.workload.precision = Precision::fp16;
  CHECK(value(r, "--accumulate-allreduce-grads-in-fp32") == "set");
  CHECK(value(r, "--initial-loss-scale") == "65536");
  CHECK(value(r, "--mtp-num-layers").empty());
  r.model.prediction_modules = 2;
  CHECK(value(r, "--mtp-num-layers") == "2");
  CHECK(value(r, "--mtp-loss-scaling-factor") == "0.3");
  r.plan.overlap_gradients = false;
  CHECK(value(r, "--overlap-grad-reduce").empty());
  CHECK(value(r, "--ddp-bucket-size").empty());
}

TEST_CASE("what the flags cannot say is refused with the reason", "[framework][megatron]") {
  PlannedRun gpipe = run();
  gpipe.plan.schedule = ScheduleName::gpipe;
  CHECK(refusal(gpipe) ==
        "error: Megatron-LM does not run GPipe [export.schedule]\n"
        "  Its schedule with one chunk per stage is 1F1B.\n"
        "  Set schedule to 1f1b.\n");
  PlannedRun grid = run();
  grid.plan.tensor = TensorAlgorithm::two_d;
  CHECK(refusal(grid) ==
        "error: Megatron-LM has only 1D tensor parallelism [export.tensor]\n"
        "  tensor is 2d.\n"
        "  Set it to 1d, with the axis tensor.\n");
  PlannedRun placed = run();
  placed.plan.placement.assign(64, 0);
  CHECK(refusal(placed) ==
        "error: Megatron-LM has no flag for the placement of ranks [export.placement]\n"
        "  It puts rank i on device i.  Order the launcher's hosts instead, and leave the placement out.\n");
  PlannedRun ring = run();
  ring.plan.collective_algorithm = CollectiveAlgorithm::ring;
  CHECK(refusal(ring) ==
        "error: Megatron-LM has no flag for the algorithm of collectives [export.algorithm]\n"
        "  The communication library chooses it; leave the override out.\n");
  PlannedRun wide = run();
  wide.workload.precision = Precision::fp64;
  CHECK(refusal(wide) ==
        "error: Megatron-LM does not train in fp64 [export.precision]\n"
        "  Use fp32, bf16 or fp16.\n");
  PlannedRun sgd = run();
  sgd.workload.optimizer.kind = OptimizerKind::sgd;
  CHECK(refusal(sgd) ==
        "error: Megatron-LM's SGD adds weight decay to the gradient [export.optimizer]\n"
        "  weight_decay is 0.1; here it is decoupled from momentum.\n"
        "  Set weight_decay to 0, or use adam.\n"
        "error: Megatron-LM's distributed optimizer is Adam only [export.optimizer]\n"
        "  Set zero_stage to 0, or use adam.\n");
  PlannedRun lamb = run();
  lamb.workload.optimizer.kind = OptimizerKind::lamb;
  CHECK(refusal(lamb) ==
        "error: Megatron-LM has no lamb [export.optimizer]\n"
        "  Use adam, or sgd.\n");
  PlannedRun adafactor = run();
  adafactor.workload.optimizer.kind = OptimizerKind::adafactor;
  CHECK(refusal(adafactor) ==
        "error: Megatron-LM has no adafactor [export.optimizer]\n"
        "  Use adam, or sgd.\n");
  PlannedRun narrow = run();
  narrow.workload.moment_dtype = DType::bf16;
  narrow.plan.zero_stage = 0;
  CHECK(refusal(narrow) ==
        "error: Megatron-LM keeps narrow or offloaded states with Adam's distributed optimizer alone "
        "[export.optimizer]\n"
        "  Use adam and zero_stage 1, or leave out moment_dtype and offload_states.\n");
  PlannedRun codes = run();
  codes.workload.moment_dtype = DType::u8;
  codes.plan.zero_stage = 1;
  CHECK(refusal(codes) ==
        "error: Megatron-LM has no moments in codes of a byte [export.optimizer]\n"
        "  Set moment_dtype to f8, or leave it out.\n");
  PlannedRun sharded = run();
  sharded.plan.zero_stage = 3;  // with a pipeline
  CHECK(refusal(sharded).find("Megatron-FSDP gathers whole layers ahead") != std::string::npos);
  PlannedRun hybrid = run();
  hybrid.plan.zero_stage = 0;
  for (MeshAxis& a : hybrid.plan.mesh.axes) {
    if (a.axis == Axis::data) a.axis = Axis::replica;
  }
  CHECK(refusal(hybrid) ==
        "error: Megatron-LM copies what ZeRO shards, and zero_stage is 0 [export.replica]\n"
        "  Set replica to 1, and data to the product of both.\n");
  PlannedRun cut = run();
  for (MeshAxis& a : cut.plan.mesh.axes) {
    if (a.axis == Axis::data) a.axis = Axis::context;
  }
  CHECK(refusal(cut) ==
        "error: Megatron-LM gives each rank an early and a late part of a sequence [export.context]\n"
        "  Set zigzag to true.\n");
  PlannedRun some = run();
  some.plan.recompute = Recompute::selective;
  some.plan.attention = AttentionKernel::unfused;
  some.plan.stage_layers = std::vector<std::uint32_t>{20, 20, 20, 20};
  some.plan.recompute_layers = std::vector<std::uint32_t>{1, 2, 2, 2};
  CHECK(refusal(some) ==
        "error: Megatron-LM recomputes modules of all layers or none [export.recompute-layers]\n"
        "  Leave out recompute_layers.\n");
  some.plan.recompute_layers.reset();
  some.plan.recompute_modules = set_of(RecomputeModule::layernorm);
  CHECK(refusal(some) ==
        "error: Megatron-LM's norms are a part of the products behind them, and are kept [export.recompute-modules]\n"
        "  Leave layernorm out of recompute_modules.\n");
  some.plan.recompute_layers = std::vector<std::uint32_t>{1, 2, 2, 2};
  some.plan.recompute = Recompute::full;
  CHECK(refusal(some) ==
        "error: Megatron-LM recomputes the same number of layers in every stage [export.recompute-layers]\n"
        "  recompute_layers is [1, 2, 2, 2].\n"
        "  Set all entries to the same number.\n");
  PlannedRun offloaded = run();
  offloaded.plan.offload_activations = 4;
  CHECK(refusal(offloaded) ==
        "error: the export has no flags for activations in host memory [export.offload]\n"
        "  Leave out offload_activations.\n");
  offloaded.plan.offload_activations = 0;
  offloaded.plan.offload_states = 4;
  CHECK(value(offloaded, "--optimizer-offload-fraction") == "0.5");
  PlannedRun mixture = run();
  mixture.model.biases = Biases::of_layers(false);
  mixture.model.mixture.emplace().experts = 8;
  CHECK(value(mixture, "--num-experts") == "8");
  mixture.plan.sequence_parallel = false;
  CHECK(refusal(mixture) ==
        "error: Megatron-LM trains experts on tensor ranks with sequence parallelism [export.mixture]\n"
        "  Set sequence_parallel to true.\n");
  PlannedRun eight = run();
  eight.workload.precision = Precision::fp8;
  CHECK(value(eight, "--fp8-format") == "hybrid");
  sgd.workload.optimizer.weight_decay = 0.0;
  sgd.plan.zero_stage = 0;
  CHECK(value(sgd, "--optimizer") == "sgd");
}

TEST_CASE("export.architecture: a BERT", "[framework][megatron]") {
  PlannedRun r = run();
  r.model.architecture = Architecture::bert;
  CHECK(refusal(r).find("error: the export has no flags for BERT, vision transformers or models that are only "
                        "counted [export.architecture]\n  llama is none of the decoders that it knows.\n") !=
        std::string::npos);
}
