#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

constexpr const char* head = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";

Launched titan(const std::string& rest, std::uint32_t gpus = 16, const std::string& model = head) {
  return launched(model + rest, "run.toml", with_gpus(gpus));
}

const Plan& plan_of(const Launched& l) {
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  return l.run->run.plan;
}

}  // namespace

TEST_CASE("torchtitan's FSDP is ZeRO-3 over all ranks that are left", "[framework][torchtitan]") {
  const Launched l =
      titan("[training]\nlocal_batch_size = 2\nseq_len = 8192\n[parallelism]\ntensor_parallel_degree = 4\n");
  const Plan& plan = plan_of(l);
  CHECK(l.run->framework == "torchtitan");
  CHECK(l.run->run.model.name == "llama-3.1-8b");
  CHECK(plan.mesh.size(Axis::data) == 4);  // 16 / 4
  CHECK(plan.zero_stage == 3);
  CHECK(plan.reshard_after_forward);
  CHECK(plan.sequence_parallel);
  CHECK(plan.microbatch_size == 2);
  CHECK(l.run->run.workload.global_batch == 8);  // 2 on each of 4 ranks
  CHECK(l.run->run.workload.precision == Precision::bf16);
  // The default recomputes every second layer.
  CHECK(plan.recompute == Recompute::full);
  CHECK(plan.recompute_layers == std::vector<std::uint32_t>{16});
}

TEST_CASE("A pipeline of torchtitan keeps gathered weights and counts embedding and head as layers",
          "[framework][torchtitan]") {
  const Launched l = titan(
      "[training]\nlocal_batch_size = 16\n[parallelism]\npipeline_parallel_degree = 4\n"
      "pipeline_parallel_schedule = \"zbvzerobubble\"\npipeline_parallel_microbatch_size = 2\n"
      "[activation_checkpoint]\nmode = \"none\"\n");
  const Plan& plan = plan_of(l);
  CHECK(plan.schedule == ScheduleName::zb_v);
  CHECK(plan.chunks == 2);
  CHECK_FALSE(plan.reshard_after_forward);
  CHECK(plan.microbatch_size == 2);
  CHECK(l.run->run.workload.global_batch == 64);  // 16 sequences on each of 4 ranks
  // 34 over 8 stages: 5 for the first two, else 4; less one at the ends.
  CHECK(plan.stage_layers == std::vector<std::uint32_t>{4, 5, 4, 4, 4, 4, 4, 3});
}

TEST_CASE("Stages may be listed module by module, or by their first layers as in v0.1.0", "[framework][torchtitan]") {
  const char* text = "[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 2\n";
  const std::string tiny = "[model]\nname = \"llama3\"\nflavor = \"debugmodel\"\n";
  for (const char* stages : {"module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\", \"layers.1\"], "
                             "[\"layers.2\", \"layers.3\", \"layers.4\", \"layers.5\", \"norm\", \"output\"]]\n",
                             "pipeline_parallel_split_points = [\"layers.2\"]\n"}) {
    CHECK(plan_of(titan(text + std::string(stages), 4, tiny)).stage_layers == std::vector<std::uint32_t>{2, 4});
  }
  const Launched turned =
      titan(text + std::string("module_fqns_per_model_part = [[\"layers.1\"], [\"layers.0\"]]\n"), 4, tiny);
  CHECK_FALSE(turned.run);
}

TEST_CASE("Replicas alone are DDP, and tensor ranks alone train in fp32", "[framework][torchtitan]") {
  const Launched ddp = titan("[parallelism]\ndata_parallel_replicate_degree = 16\n");
  CHECK(plan_of(ddp).zero_stage == 0);
  CHECK(ddp.run->run.workload.precision == Precision::bf16);
  const Launched tp = titan("[parallelism]\ntensor_parallel_degree = 8\n", 8);
  CHECK(plan_of(tp).zero_stage == 0);
  CHECK(tp.run->run.workload.precision == Precision::fp32);
}

TEST_CASE("Expert ranks lie inside the ranks that shard", "[framework][torchtitan]") {
  const std::string mixture = "[model]\nname = \"deepseek_v3\"\nflavor = \"16B\"\n";
  const Launched l = titan("[parallelism]\nexpert_parallel_degree = 8\n", 16, mixture);
  CHECK(plan_of(l).mesh.size(Axis::expert) == 8);
  CHECK(plan_of(l).mesh.size(Axis::data) == 2);
  CHECK_FALSE(l.run->has(LaunchNote::Kind::not_expressible));
  // Context ranks come first, and before them tensor ranks, unless these cut experts.
  const Launched across = titan(
      "[parallelism]\nexpert_parallel_degree = 8\ncontext_parallel_degree = 2\n"
      "data_parallel_shard_degree = 4\n",
      8, mixture);
  CHECK(plan_of(across).mesh.size(Axis::expert) == 4);
  CHECK(plan_of(across).expert_folding == ExpertFolding::context);
  CHECK_FALSE(across.run->has(LaunchNote::Kind::not_expressible));
  const Launched whole = titan("[parallelism]\nexpert_parallel_degree = 8\ntensor_parallel_degree = 2\n", 8, mixture);
  CHECK(plan_of(whole).mesh.size(Axis::expert) == 4);
  CHECK(plan_of(whole).expert_folding == ExpertFolding::tensor);
  const Launched part = titan("[parallelism]\nexpert_parallel_degree = 2\ncontext_parallel_degree = 4\n", 8, mixture);
  CHECK(part.refuses("parallelism.expert_parallel_degree"));
  // A dense model has none.
  CHECK(titan("[parallelism]\nexpert_parallel_degree = 8\n")
            .said("parallelism.expert_parallel_degree", LaunchNote::Kind::without_effect));
}

TEST_CASE("What plans cannot say of torchtitan is refused with the nearest", "[framework][torchtitan]") {
  const std::string fp8 = "converters = [\"float8\"]\n";
  const Launched l = titan(fp8 +
                           "[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\n"
                           "[training]\nenable_cpu_offload = true\n"
                           "[activation_checkpoint]\nmode = \"memory_budget\"\nmemory_budget = 0.75\n");
  CHECK(plan_of(l).offload_states == 8U);
  CHECK(plan_of(l).recompute_layers == std::vector<std::uint32_t>{8});  // a quarter of 32
  CHECK(l.run->run.workload.precision == Precision::fp8);
  for (const char* key : {"quantize.linear.float8.enable_fsdp_float8_all_gather", "training.enable_cpu_offload",
                          "activation_checkpoint.mode"}) {
    INFO(key);
    CHECK(l.refuses(key));
  }
}

TEST_CASE("Models that plans do not have are named at their line", "[framework][torchtitan]") {
  for (const char* model : {"[model]\nname = \"flux\"\nflavor = \"flux-dev\"\n[encoder]\nt5_encoder = \"x\"\n",
                            "[model]\nname = \"llama3\"\nflavor = \"9B\"\n"}) {
    const Launched l = titan("", 8, model);
    CHECK_FALSE(l.run);
    REQUIRE(l.diagnostics.size() == 1);
    CHECK(l.diagnostics.list()[0].position.line > 1);
  }
  LaunchInputs options;
  options.model = "llama-3-8b";
  CHECK(launched("[model]\nname = \"llama3\"\nflavor = \"9B\"\n", "run.toml", options).run);
}

TEST_CASE("Unknown keys and numbers out of range are errors at their lines", "[framework][torchtitan]") {
  const Launched l = titan("[parallelism]\ntensor_parallel_degrees = 2\n");
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].code == "launch.unknown-key");
  CHECK(l.diagnostics.list()[0].position.line == 5);
  CHECK_FALSE(titan("[parallelism]\ndata_parallel_shard_degree = 0\n").run);
  CHECK_FALSE(titan("[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule = \"2F2B\"\n").run);
  CHECK_FALSE(titan("[activation_checkpoint]\nmode = \"selective\"\nselective_ac_option = \"ops\"\n").run);
}

TEST_CASE("A number that plans do not take is an error at its own line, and the only one", "[framework][torchtitan]") {
  for (const char* text : {"[optimizer]\nlr = 1e300\n", "[lr_scheduler]\nmin_lr_factor = 3\n"}) {
    const Launched l = titan(text);
    CHECK_FALSE(l.run);
    REQUIRE(l.diagnostics.size() == 1);
    CHECK(l.diagnostics.list()[0].file == "run.toml");
    CHECK(l.diagnostics.list()[0].position.line == 5);
  }
  // 16 GPUs are no multiple of 3.
  const Launched l = titan("[training]\nseq_len = 4096\n[parallelism]\ntensor_parallel_degree = 3\n");
  REQUIRE(l.diagnostics.size() == 1);
  CHECK(l.diagnostics.list()[0].code == "launch.gpus");
}

TEST_CASE("Models of the hub are known by their names, and --set gives sizes that the file leaves open",
          "[framework][torchtitan]") {
  LaunchInputs options;
  options.set = {{"sequence", "1024"}, {"mbs", "3"}};
  const Launched l = launched(
      "[model]\nname = \"transformers_modeling_backend\"\nflavor = \"full\"\n"
      "[hf_transformers]\nmodel = \"Qwen/Qwen3-4B-Base\"\n",
      "run.toml", options);
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.model.name == "qwen3-4b");
  CHECK(l.run->run.workload.sequence_length == 1024);
  CHECK(l.run->run.plan.microbatch_size == 3);
  const Launched other = launched(
      "[model]\nname = \"transformers_modeling_backend\"\nflavor = \"full\"\n"
      "[hf_transformers]\nmodel = \"x/unheard-of\"\n[training]\nsteps = 5\n",
      "run.toml");
  REQUIRE(other.diagnostics.size() == 1);
  CHECK(other.diagnostics.list()[0].code == "launch.model");
}
