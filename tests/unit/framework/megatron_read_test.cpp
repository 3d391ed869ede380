#include "framework/megatron_core/read.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

using Kind = LaunchNote::Kind;

const std::string model_args =
    "MODEL_ARGS:\n"
    "  --num-layers: 16\n"
    "  --hidden-size: 1024\n"
    "  --num-attention-heads: 16\n"
    "  --seq-length: 1024\n"
    "  --max-position-embeddings: 1024\n"
    "  --micro-batch-size: 2\n"
    "  --global-batch-size: 64\n"
    "  --vocab-size: 1000\n"
    "  --bf16: true\n"
    "  --fp16: false\n";

Launched args(const std::string& more, std::optional<std::uint32_t> gpus = 8) {
  LaunchInputs options;
  options.gpus = gpus;
  return launched(model_args + more, "model_config.yaml", options);
}

}  // namespace

TEST_CASE("A test's arguments are a model, a batch and Megatron-LM's defaults", "[framework][megatron]") {
  const Launched l = args("  --tensor-model-parallel-size: 2\n  --log-interval: 1\nTEST_TYPE: regular\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const PlannedRun& r = l.run->run;
  CHECK(l.run->own_model);
  CHECK(r.model.layers == 16);
  CHECK(r.model.ffn == 4096);         // 4 h
  CHECK(r.model.vocabulary == 1024);  // 1000 in multiples of 128 x 2
  CHECK(r.plan.mesh.size(Axis::tensor) == 2);
  CHECK(r.plan.mesh.size(Axis::data) == 4);
  CHECK(r.workload.hidden_dropout == 0.1);
  CHECK(r.workload.attention_dropout == 0.1);
  CHECK(r.workload.clip_norm == 1.0);
  CHECK(r.workload.optimizer.beta2 == 0.999);
  CHECK(r.plan.overlap_gradients == false);
  CHECK(r.plan.attention == AttentionKernel::flash);
  CHECK(l.said("MODEL_ARGS.--log-interval", Kind::without_effect));
  CHECK(l.said("MODEL_ARGS.--fp16", Kind::without_effect));
  CHECK(l.said("MODEL_ARGS.--bf16", Kind::taken));
  CHECK_FALSE(l.run->has(Kind::not_expressible));
}

TEST_CASE("Gated layers without a width get two thirds of four", "[framework][megatron]") {
  const Launched l = args("  --swiglu: true\n");
  REQUIRE(l.run);
  CHECK(l.run->run.model.ffn == 2688);  // 1024 x 8 / 3 = 2730.7, and 42 x 64 below it
}

TEST_CASE("Virtual stages become chunks, and blocks of recomputed layers those of each chunk",
          "[framework][megatron]") {
  const Launched l = args(
      "  --pipeline-model-parallel-size: 4\n  --num-layers-per-virtual-pipeline-stage: 2\n"
      "  --recompute-granularity: full\n  --recompute-method: block\n  --recompute-num-layers: 1\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const Plan& p = l.run->run.plan;
  CHECK(p.schedule == ScheduleName::interleaved);
  CHECK(p.chunks == 2);  // 16 layers over 4 x 2
  CHECK(p.stage_layers == std::vector<std::uint32_t>(8, 2));
  CHECK(p.recompute_layers == std::vector<std::uint32_t>(8, 1));
}

TEST_CASE("Modules of layers are recomputed as Megatron-LM does", "[framework][megatron]") {
  const std::string selective = "  --recompute-granularity: selective\n  --recompute-modules: ";
  const Launched dense = args(selective + "\"[layernorm mlp moe_act]\"\n");
  INFO(render(dense.diagnostics));
  REQUIRE(dense.run);
  CHECK(dense.run->run.plan.recompute == Recompute::selective);
  CHECK(dense.run->run.plan.recompute_modules == set_of(RecomputeModule::mlp));  // norms are fused, experts not there
  CHECK_FALSE(dense.refuses("MODEL_ARGS.--recompute-modules"));

  const Launched core = args(selective + "\"[core_attn]\"\n");
  REQUIRE(core.run);
  CHECK(core.run->run.plan.recompute == Recompute::none);  // the flash kernel keeps no scores
  const Launched unknown = args(selective + "\"[mlp gdn_norm_out]\"\n");
  REQUIRE(unknown.run);
  CHECK(unknown.run->run.plan.recompute_modules == set_of(RecomputeModule::mlp));
  CHECK(unknown.refuses("MODEL_ARGS.--recompute-modules"));

  const std::string experts = "  --num-experts: 8\n  --moe-router-topk: 2\n  --moe-token-dispatcher-type: alltoall\n";
  const Launched mixture = args(experts + selective + "\"[mlp moe_act]\"\n");
  INFO(render(mixture.diagnostics));
  REQUIRE(mixture.run);
  CHECK(mixture.run->run.plan.recompute_modules == set_of(RecomputeModule::moe_act));  // no layer is dense
  const Launched old = args(experts + "  --moe-layer-recompute: true\n");
  REQUIRE(old.run);
  CHECK(old.run->run.plan.recompute == Recompute::selective);
  CHECK(old.run->run.plan.recompute_modules == set_of(RecomputeModule::moe));
  const Launched norms = args(experts + selective + "\"[layernorm]\"\n");
  REQUIRE(norms.run);
  CHECK(norms.run->run.plan.recompute_modules == set_of(RecomputeModule::layernorm));
  CHECK(norms.refuses("MODEL_ARGS.--recompute-modules"));  // the norm in front of attention is kept there
}

TEST_CASE("Layouts count the layers of stages", "[framework][megatron]") {
  CHECK(megatron_layout("Et*2|(tt|)*2m,L") == std::vector<std::string>{"Ett", "tt", "tt", "mL"});
  CHECK(megatron_layout("Et|(t*3|)*2L") == std::vector<std::string>{"Et", "ttt", "ttt", "L"});
  CHECK_FALSE(megatron_layout("Ex|L"));
  CHECK_FALSE(megatron_layout("(t*99999)*99999"));
  const Launched l =
      args("  --pipeline-model-parallel-size: 4\n  --pipeline-model-parallel-layout: Ettt|t*5|t*5|tttL\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.stage_layers == std::vector<std::uint32_t>{3, 5, 5, 3});
  // A stage may have the head alone, but not the first layers' stage the head.
  const Launched head = args("  --pipeline-model-parallel-size: 2\n  --pipeline-model-parallel-layout: Et*16|L\n");
  INFO(render(head.diagnostics));
  REQUIRE(head.run);
  CHECK_FALSE(head.run->has(Kind::not_expressible));
  CHECK(head.run->run.plan.stage_layers == std::vector<std::uint32_t>{16, 0});
  const Launched early = args("  --pipeline-model-parallel-size: 2\n  --pipeline-model-parallel-layout: Et*8L|t*8\n");
  REQUIRE(early.run);
  CHECK(early.run->has(Kind::not_expressible));
}

TEST_CASE("Uneven stages give the rest to the others", "[framework][megatron]") {
  const Launched l = args(
      "  --pipeline-model-parallel-size: 4\n  --decoder-first-pipeline-num-layers: 3\n"
      "  --decoder-last-pipeline-num-layers: 1\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.stage_layers == std::vector<std::uint32_t>{3, 6, 6, 1});  // 12 left for two
  const Launched counted = args(
      "  --pipeline-model-parallel-size: 2\n  --num-layers: 15\n"
      "  --account-for-embedding-in-pipeline-split: true\n");
  REQUIRE(counted.run);
  CHECK(counted.run->run.plan.stage_layers == std::vector<std::uint32_t>{7, 8});  // 16 with the embedding
  // The loss counts as a layer of the last stage.
  const Launched ends = args(
      "  --pipeline-model-parallel-size: 4\n  --num-layers: 7\n  --num-layers-per-virtual-pipeline-stage: 2\n"
      "  --account-for-loss-in-pipeline-split: true\n");
  INFO(render(ends.diagnostics));
  REQUIRE(ends.run);
  CHECK(ends.run->run.plan.stage_layers == std::vector<std::uint32_t>{2, 2, 2, 1});
  // 16 with both, one in each virtual stage: the ends have none.
  const Launched bare = args(
      "  --pipeline-model-parallel-size: 4\n  --num-layers: 14\n  --num-layers-per-virtual-pipeline-stage: 1\n"
      "  --account-for-embedding-in-pipeline-split: true\n  --account-for-loss-in-pipeline-split: true\n");
  INFO(render(bare.diagnostics));
  REQUIRE(bare.run);
  CHECK_FALSE(bare.run->has(Kind::not_expressible));
  std::vector<std::uint32_t> ones(16, 1);
  ones.front() = ones.back() = 0;
  CHECK(bare.run->run.plan.stage_layers == ones);
}

TEST_CASE("Experts lie on ranks with other sequences, and are cut as the other layers", "[framework][megatron]") {
  const std::string experts =
      "  --num-experts: 8\n  --moe-layer-freq: ([0]*1+[1]*15)\n  --disable-bias-linear: true\n"
      "  --moe-token-dispatcher-type: alltoall\n  --expert-model-parallel-size: 4\n";
  const Launched l = args(experts);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK_FALSE(l.run->has(Kind::not_expressible));
  CHECK(l.run->run.model.mixture->first_dense == 1);
  CHECK(l.run->run.model.mixture->per_token == 2);  // the default
  CHECK(l.run->run.plan.mesh.size(Axis::expert) == 4);
  CHECK(l.run->run.plan.mesh.size(Axis::data) == 2);
  CHECK(l.run->run.plan.expert_dispatch == ExpertDispatch::all_to_all);
  const Launched narrow = args(experts +
                               "  --tensor-model-parallel-size: 2\n  --sequence-parallel: true\n"
                               "  --expert-tensor-parallel-size: 1\n");
  INFO(render(narrow.diagnostics));
  REQUIRE(narrow.run);
  CHECK_FALSE(narrow.run->has(Kind::not_expressible));
  CHECK(narrow.run->run.plan.expert_folding == ExpertFolding::tensor);
  CHECK(narrow.run->run.plan.mesh.size(Axis::expert) == 2);  // of 4, tensor ranks are the inner 2
  CHECK(narrow.run->run.plan.mesh.size(Axis::data) == 2);
}

TEST_CASE("Ranks gather all tokens for experts where the dispatcher is allgather, as it is by default",
          "[framework][megatron]") {
  const std::string experts = "  --num-experts: 8\n  --disable-bias-linear: true\n";
  for (const std::string dispatcher : {"", "  --moe-token-dispatcher-type: allgather\n"}) {
    const Launched l = args(experts + dispatcher + "  --expert-model-parallel-size: 4\n");
    INFO(dispatcher << render(l.diagnostics));
    REQUIRE(l.run);
    CHECK_FALSE(l.run->has(Kind::not_expressible));
    CHECK(l.run->run.plan.expert_dispatch == ExpertDispatch::all_gather);
  }
  const Launched alone = args(experts + "  --moe-token-dispatcher-type: allgather\n");
  REQUIRE(alone.run);
  CHECK(alone.run->run.plan.expert_dispatch == ExpertDispatch::all_to_all);  // no other rank has experts
}

TEST_CASE("Ranks with other experts are tensor ranks first, then context ranks, then those with other sequences",
          "[framework][megatron]") {
  const auto with = [](const std::string& sizes) {
    return args(
        "  --num-experts: 8\n  --disable-bias-linear: true\n  --moe-token-dispatcher-type: alltoall\n"
        "  --attention-dropout: 0.0\n  --sequence-parallel: true\n" +
        sizes);
  };
  const auto sizes = [](int tensor, int context, int experts, int cut) {
    return "  --tensor-model-parallel-size: " + std::to_string(tensor) +
           "\n  --context-parallel-size: " + std::to_string(context) +
           "\n  --expert-model-parallel-size: " + std::to_string(experts) +
           "\n  --expert-tensor-parallel-size: " + std::to_string(cut) + "\n";
  };
  struct Case {
    int tensor, context, experts, cut;
    ExpertFolding folding;
    std::uint32_t expert;
  };
  for (const Case& c :
       {Case{2, 1, 2, 1, ExpertFolding::tensor, 1}, Case{2, 2, 4, 1, ExpertFolding::context_and_tensor, 1},
        Case{2, 2, 8, 1, ExpertFolding::context_and_tensor, 2}, Case{2, 2, 2, 2, ExpertFolding::context, 1},
        Case{1, 2, 4, 1, ExpertFolding::context, 2}, Case{2, 2, 2, 1, ExpertFolding::tensor, 1},
        Case{2, 1, 4, 2, ExpertFolding::none, 4}}) {
    const Launched l = with(sizes(c.tensor, c.context, c.experts, c.cut));
    CAPTURE(c.tensor, c.context, c.experts, c.cut);
    INFO(render(l.diagnostics));
    REQUIRE(l.run);
    CHECK_FALSE(l.run->has(Kind::not_expressible));
    CHECK(l.run->run.plan.expert_folding == c.folding);
    CHECK(l.run->run.plan.mesh.size(Axis::expert) == c.expert);
  }
  // A part of an axis, and experts cut by some of the tensor ranks.
  CHECK(with(sizes(4, 1, 2, 1)).said("MODEL_ARGS.--expert-tensor-parallel-size", Kind::not_expressible));
  CHECK(with(sizes(4, 1, 2, 2)).said("MODEL_ARGS.--expert-tensor-parallel-size", Kind::not_expressible));
  CHECK(with(sizes(1, 4, 2, 1)).said("MODEL_ARGS.--expert-model-parallel-size", Kind::not_expressible));
}

TEST_CASE("Lists of layers are read as far as they are written", "[framework][megatron]") {
  CHECK(megatron_mixture_layers("2", 4) == std::vector<bool>{true, false, true, false});
  CHECK(megatron_mixture_layers("([0]*1+[1,0]*1+[1])", 4) == std::vector<bool>{false, true, false, true});
  CHECK_FALSE(megatron_mixture_layers("[1]*3", 4));
  CHECK_FALSE(megatron_mixture_layers("[1]*99999999999", 4));
  CHECK_FALSE(megatron_mixture_layers("0", 4));
}

TEST_CASE("Runs that plans do not have are named at their flag", "[framework][megatron]") {
  const auto refused = [](const std::string& more, std::uint32_t line) {
    const Launched l = args(more);
    INFO(more + render(l.diagnostics));
    CHECK_FALSE(l.run);
    REQUIRE(l.diagnostics.size() == 1);
    CHECK(l.diagnostics.list()[0].position.line == line);
  };
  refused("  --hybrid-layer-pattern: M*M-\n", 12);
  refused("  --perform-rl-step: true\n", 12);
  refused("  --tokenizer-type: BertWordPieceCase\n", 12);
  refused("MODE: inference\n", 12);
  refused("  --no-such-flag: 1\n", 12);
  refused("  --num-layers-per-virtual-pipeline-stage: 3\n", 12);  // 16 layers
}

TEST_CASE("A script's variables that matter are asked for by name", "[framework][megatron]") {
  const std::string script =
      "#!/bin/bash\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 \\\n"
      "  --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 8 --bf16 $MORE \\\n"
      "  --tensor-model-parallel-size $TP --data-path $DATA --vocab-size 256\n";
  const Launched open = launched(script, "train.sh");
  CHECK_FALSE(open.run);
  REQUIRE(open.diagnostics.size() >= 1);
  CHECK(open.diagnostics.list()[0].message.find("depends on TP") != std::string::npos);
  LaunchInputs options;
  options.set["TP"] = "2";
  const Launched given = launched(script, "train.sh", options);
  INFO(render(given.diagnostics));
  REQUIRE(given.run);
  CHECK(given.run->run.plan.mesh.size(Axis::tensor) == 2);
  CHECK(given.run->run.plan.mesh.size(Axis::data) == 4);
}

TEST_CASE("Overrides of Megatron-Bridge and NeMo are flags under dotted names", "[framework][megatron]") {
  const Launched l = launched(
      "torchrun --nproc_per_node 8 run_recipe.py --recipe llama3_8b_pretrain_config mixed_precision=bf16_mixed \\\n"
      "  model.tensor_model_parallel_size=4 train.global_batch_size=128 train.micro_batch_size=1 \\\n"
      "  dataset.seq_length=8192 ddp.overlap_grad_reduce=false checkpoint.save=/tmp/x\n",
      "run.sh");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->format == "overrides of Megatron-Bridge");
  CHECK(l.run->run.model_reference == "llama-3-8b");
  CHECK(l.run->run.plan.mesh.size(Axis::tensor) == 4);
  CHECK(l.run->run.plan.mesh.size(Axis::data) == 2);
  CHECK(l.run->run.plan.zero_stage == 1);  // as recipes have it
  CHECK(l.run->run.plan.overlap_gradients == false);
  CHECK(l.run->run.workload.hidden_dropout == 0.0);
  const Launched nemo = launched(
      "MODEL_ARGS:\n  trainer.num_nodes: 1\n  trainer.devices: 8\n"
      "  trainer.strategy.tensor_model_parallel_size: 2\n  data.global_batch_size: 16\n  data.micro_batch_size: 1\n"
      "  data.seq_length: 2048\n  trainer.max_steps: 5\n",
      "model_config.yaml", with_model("llama-3-8b"));
  INFO(render(nemo.diagnostics));
  REQUIRE(nemo.run);
  CHECK(nemo.run->run.plan.mesh.size(Axis::data) == 4);
  CHECK(nemo.run->run.workload.sequence_length == 2048);
  // Megatron-LM's own default is allgather; recipes of mixtures have alltoall.
  const Launched mixture = launched(
      "torchrun --nproc_per_node 8 run.py model.expert_model_parallel_size=4 train.global_batch_size=16 \\\n"
      "  train.micro_batch_size=1 dataset.seq_length=4096\n",
      "run.sh", with_model("mixtral-8x7b"));
  INFO(render(mixture.diagnostics));
  REQUIRE(mixture.run);
  CHECK_FALSE(mixture.run->has(Kind::not_expressible));
  CHECK(mixture.said("model.moe_token_dispatcher_type", Kind::assumed));
  CHECK(mixture.run->run.plan.mesh.size(Axis::expert) == 4);
}

TEST_CASE("A model that stands elsewhere takes no shape from the flags", "[framework][megatron]") {
  const Launched l = launched(
      "--use-checkpoint-args\n--tensor-model-parallel-size 2\n--swiglu\n--norm-epsilon 1e-6\n--seq-length 4096\n"
      "--micro-batch-size 1\n--global-batch-size 16\n--bf16\n",
      "flags", with_model("llama-3-8b", 8));
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.model.norm_epsilon == 1e-5);  // Llama-3's own
  CHECK(l.said("--norm-epsilon", Kind::without_effect));
}

TEST_CASE("Assignments to a configuration are the fields that they set", "[framework][megatron]") {
  LaunchFile file;
  file.syntax = LaunchSyntax::python;
  const auto add = [&](const char* key, LaunchValue::Kind kind, const char* text) {
    LaunchValue v;
    v.key = key;
    v.kind = kind;
    v.text = text;
    v.position = {static_cast<std::uint32_t>(file.values.size() + 1), 1};
    file.values.push_back(v);
  };
  add("cfg.model.tensor_model_parallel_size", LaunchValue::Kind::number, "2");
  add("cfg.model.virtual_pipeline_model_parallel_size", LaunchValue::Kind::none, "");
  add("cfg.train.global_batch_size", LaunchValue::Kind::number, "16");
  add("cfg.model.sequence_parallel", LaunchValue::Kind::flag, "true");
  add("cfg.mixed_precision", LaunchValue::Kind::text, "bf16_with_fp8_current_scaling_mixed");
  REQUIRE(is_bridge_python(file));
  Diagnostics d;
  const Library library = test::shipped_library();
  const LaunchInputs options = with_model("llama-3-8b", 8);
  LaunchReading r(file, options, library, d);
  read_bridge_python(r);
  const auto run = r.finish("megatron-core", "settings");
  INFO(render(d));
  REQUIRE(run);
  CHECK(run->run.plan.mesh.size(Axis::tensor) == 2);
  CHECK(run->run.plan.sequence_parallel);
  CHECK(run->run.workload.precision == Precision::fp8);
  CHECK(run->run.workload.global_batch == 16);
}

TEST_CASE("Sizes beside an unnamed recipe are no model", "[framework][megatron]") {
  const Launched l = launched(
      "MODEL_ARGS:\n  trainer.devices: 8\n  trainer.strategy.expert_model_parallel_size: 4\n"
      "  model.config.num_layers: 12\n  model.config.hidden_size: 768\n  model.config.num_attention_heads: 16\n",
      "model_config.yaml");
  CHECK_FALSE(l.run);
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].message == "the model stands in a recipe that the file does not name");
}

TEST_CASE("Flags of older releases are those that they became, or a mistake that names it", "[framework][megatron]") {
  const Launched sharded = args("  --use-custom-fsdp: true\n  --data-parallel-sharding-strategy: optim_grads\n");
  INFO(render(sharded.diagnostics));
  REQUIRE(sharded.run);
  CHECK(sharded.run->run.plan.zero_stage == 2);
  const Launched eighth = args("  --fp8-hybrid: true\n");
  REQUIRE(eighth.run);
  CHECK(eighth.run->run.workload.precision == Precision::fp8);
  CHECK(render(args("  --batch-size: 4\n").diagnostics)
            .find("the flag has been --micro-batch-size since 2021 [launch.value]") != std::string::npos);
}

TEST_CASE("A switch for the constants of rotary angles changes no step", "[framework][megatron]") {
  const Launched l = args("  --enable-gpt-oss: true\n");
  REQUIRE(l.run);
  CHECK(l.said("MODEL_ARGS.--enable-gpt-oss", Kind::without_effect));
  CHECK(l.run->run.plan == args("").run->run.plan);
}

TEST_CASE("Both halves of precision are a mistake, and not an unknown key", "[framework][megatron]") {
  LaunchInputs options;
  options.gpus = 8;
  std::string both = model_args;
  both.replace(both.find("--fp16: false"), 13, "--fp16: true");
  const std::string told = render(launched(both, "model_config.yaml", options).diagnostics);
  CHECK(told.find("--bf16 and --fp16 contradict each other [launch.value]") != std::string::npos);
  CHECK(told.find("unknown") == std::string::npos);
}

TEST_CASE("Sizes of layers that the model does not have change nothing", "[framework][megatron]") {
  for (const char* flag : {"--mamba-state-dim", "--linear-key-head-dim", "--dsa-indexer-topk",
                           "--mhc-sinkhorn-iterations", "--retro-num-neighbors", "--classes-fraction"}) {
    CAPTURE(flag);
    const Launched l = args(std::string("  ") + flag + ": 4\n");
    REQUIRE(l.run);
    CHECK(l.said(std::string("MODEL_ARGS.") + flag, Kind::without_effect));
    CHECK(l.run->run.plan == args("").run->run.plan);
    CHECK(parameter_count(l.run->run.model) == parameter_count(args("").run->run.model));
  }
}

TEST_CASE("A model without a length is told what is missing, and takes the one that is given",
          "[framework][megatron]") {
  const std::string text =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 --hidden-size 1024 --num-attention-heads 16 "
      "--micro-batch-size 1 --global-batch-size 8 --vocab-size 1000 --bf16\n";
  CHECK(render(launched(text, "train.sh").diagnostics)
            .find("train.sh:1:58: error: neither --seq-length nor --max-position-embeddings is given [launch.value]") !=
        std::string::npos);
  LaunchInputs options;
  options.set["sequence"] = "2048";
  const Launched l = launched(text, "train.sh", options);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.model.max_positions == 2048);
  CHECK(l.run->run.workload.sequence_length == 2048);
}
