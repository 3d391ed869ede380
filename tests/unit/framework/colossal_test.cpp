#include <fmt/format.h>

#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;
using Kind = LaunchNote::Kind;

namespace {

Launched read(const std::string& text, LaunchInputs options = with_model("llama-3-8b", 8)) {
  return launched(text, "train.py", std::move(options));
}

}  // namespace

TEST_CASE("A hybrid plugin's sizes, stages and checkpoints become a plan", "[framework][colossal-ai]") {
  const Launched l = read(
      "plugin = HybridParallelPlugin(\n    tp_size=2, pp_size=2,  # degrees\n    num_microbatches=4, zero_stage=1,\n"
      "    precision=\"bf16\", num_layers_per_stage=[15, 17],\n"
      "    gradient_checkpoint_config=PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=[3, 0]))\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  const Plan& p = l.run->run.plan;
  CHECK(l.run->framework == "colossal-ai");
  CHECK(p.mesh.size(Axis::data) == 2);
  CHECK(p.mesh.axes.front().axis == Axis::data);  // dp_outside is the default
  CHECK(*p.stage_layers == std::vector<std::uint32_t>{15, 17});
  CHECK(*p.recompute_layers == std::vector<std::uint32_t>{3, 0});
  CHECK(p.overlap_gradients == false);
  CHECK(l.run->run.workload.global_batch == 8);  // 1 x 4 x 2
}

TEST_CASE("A plugin inside another call is read too", "[framework][colossal-ai]") {
  const Launched l =
      read("booster = Booster(plugin=LowLevelZeroPlugin(stage=2, precision='bf16', cpu_offload=True))\n");
  REQUIRE(l.run);
  CHECK(l.run->run.plan.zero_stage == 2);
  CHECK(l.run->run.plan.offload_states == 8U);
}

TEST_CASE("What a Python text computes is an error that --set mends", "[framework][colossal-ai]") {
  const std::string text = "plugin = HybridParallelPlugin(tp_size=args.tp, pp_size=1)\n";
  const Launched without = read(text);
  CHECK_FALSE(without.run);
  CHECK(without.diagnostics.list()[0].message.find("args.tp") != std::string::npos);
  LaunchInputs options = with_model("llama-3-8b", 8);
  options.set["args.tp"] = "4";
  const Launched with = read(text, options);
  INFO(render(with.diagnostics));
  REQUIRE(with.run);
  CHECK(with.run->run.plan.mesh.size(Axis::tensor) == 4);
}

TEST_CASE("ZB-V counts the second chunk's checkpoints from the last rank", "[framework][colossal-ai]") {
  const Launched l = read(
      "plugin = HybridParallelPlugin(tp_size=1, pp_size=2, pp_style=\"zbv\", num_model_chunks=2, microbatch_size=1,\n"
      "    scheduler_nodes=nodes, precision=\"bf16\", num_layers_per_stage=[8, 8, 8, 8],\n"
      "    gradient_checkpoint_config=PipelineGradientCheckpointConfig(num_ckpt_layers_per_stage=[1, 2, 3, 4]))\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.schedule == ScheduleName::zb_v);
  CHECK(*l.run->run.plan.recompute_layers == std::vector<std::uint32_t>{1, 2, 4, 3});
}

TEST_CASE("The modes of sequence parallelism are Megatron's, Ulysses and a ring", "[framework][colossal-ai]") {
  const auto mode = [](const char* name, int sp) {
    return read(
        fmt::format("p = HybridParallelPlugin(tp_size=2, pp_size=1, sp_size={}, precision=\"bf16\", "
                    "enable_sequence_parallelism=True, sequence_parallelism_mode=\"{}\")\n",
                    sp, name));
  };
  const Launched gather = mode("split_gather", 1), all = mode("all_to_all", 2), ring = mode("ring_attn", 2);
  REQUIRE(gather.run);
  REQUIRE(all.run);
  REQUIRE(ring.run);
  CHECK(gather.run->run.plan.sequence_parallel);
  CHECK(all.run->run.plan.context == ContextAlgorithm::ulysses);
  CHECK(ring.run->run.plan.context == ContextAlgorithm::ring);
  CHECK(ring.run->run.plan.zigzag);
  CHECK(ring.run->run.plan.mesh.axes.back().axis == Axis::tensor);
  CHECK(mode("ring", 1).said("p", Kind::taken) == false);
}

TEST_CASE("Gemini shards weights in chunks, and offloads eighths of its states", "[framework][colossal-ai]") {
  const Launched l = read("plugin = GeminiPlugin(precision=\"bf16\", offload_optim_frac=0.25, max_prefetch=1)\n");
  INFO(render(l.diagnostics));
  REQUIRE(l.run);
  CHECK(l.run->run.plan.zero_stage == 3);
  CHECK_FALSE(l.run->run.plan.parameter_chunk.has_value());  // auto
  CHECK(l.run->run.plan.offload_states == 2U);
}

TEST_CASE("An argument that no plugin has, and a second plugin, are errors at their lines",
          "[framework][colossal-ai]") {
  const Launched bad = read("p = HybridParallelPlugin(tp_size=1, pp_size=1,\n  tensor_size=2)\n");
  CHECK_FALSE(bad.run);
  REQUIRE(bad.diagnostics.size() == 1);
  CHECK(bad.diagnostics.list()[0].code == "launch.unknown-key");
  CHECK(bad.diagnostics.list()[0].position.line == 2);
  const Launched two = read("a = GeminiPlugin(precision='bf16')\nb = LowLevelZeroPlugin(stage=1)\n");
  CHECK_FALSE(two.run);
  REQUIRE(two.diagnostics.size() == 1);
  CHECK(two.diagnostics.list()[0].position.line == 2);
}
