#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/unit/framework/torchtune_files.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("Optimizers keep the moments that their libraries say", "[framework][torchtune]") {
  struct Case {
    const char* component;
    OptimizerKind kind;
    DType moments;
    bool refused;
  };
  using O = OptimizerKind;
  for (const Case& c :
       {Case{"torch.optim.Adam", O::adam, DType::bf16, false}, Case{"torch.optim.SGD", O::sgd, DType::bf16, false},
        Case{"bitsandbytes.optim.AdamW", O::adam, DType::f32, false},
        Case{"bitsandbytes.optim.AdamW8bit", O::adam, DType::u8, false},
        Case{"bitsandbytes.optim.PagedAdamW", O::adam, DType::f32, false},
        Case{"bitsandbytes.optim.PagedAdamW8bit", O::adam, DType::u8, false},
        Case{"torchao.prototype.low_bit_optim.AdamW8bit", O::adam, DType::u8, false},
        Case{"torchao.optim.AdamWFp8", O::adam, DType::u8, true},
        Case{"torchao.optim.AdamW4bit", O::adam, DType::u8, true},
        Case{"torch.optim.RMSprop", O::adam, DType::bf16, true}}) {
    const Launched l = read(full + rest + "optimizer: {_component_: " + c.component + ", lr: 1e-4}\n");
    CAPTURE(c.component, render(l.diagnostics));
    REQUIRE(l.run);
    CHECK(l.run->run.workload.optimizer.kind == c.kind);
    CHECK(moment_dtype(l.run->run.workload) == c.moments);
    CHECK(l.refuses("optimizer._component_") == c.refused);
  }
  const Launched numbers = read(full + rest +
                                "optimizer: {_component_: torch.optim.AdamW, lr: 1e-4, betas: [0.8, 0.95], eps: 1e-6}\n"
                                "clip_grad_norm: 0.5\nepochs: 2\nmax_steps_per_epoch: 500\nlr_scheduler:\n"
                                "  _component_: torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup\n"
                                "  num_warmup_steps: 100\n");
  INFO(render(numbers.diagnostics));
  REQUIRE(numbers.run);
  const Workload& w = numbers.run->run.workload;
  CHECK(w.optimizer.beta1 == 0.8);
  CHECK(w.optimizer.beta2 == 0.95);
  CHECK(w.optimizer.weight_decay == 0.01);  // of torch.optim.AdamW
  CHECK(w.clip_norm == 0.5);
  CHECK(w.schedule.total_steps == 1000);
  CHECK(w.schedule.warmup_steps == 100);
  CHECK(read(full + rest + adam + "optimizer_in_bwd: False\nclip_grad_norm: null\n").run);
  CHECK(said_of("optimizer_in_bwd: True\n" + full + rest + adam, 1) ==
        "torchtune updates in the backward pass only without accumulation");
}

TEST_CASE("The loss has as many of the file's pieces as divide a sequence", "[framework][torchtune]") {
  const auto chunks = [](const std::string& loss) {
    const std::size_t at = rest.find("loss:");
    const Launched l = read(full + rest.substr(0, at) + loss + rest.substr(rest.find("dtype")) + adam);
    CAPTURE(loss, render(l.diagnostics));
    REQUIRE(l.run);
    return l.run->run.plan.loss_chunks;
  };
  CHECK(chunks("loss: {_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}\n") == 8);
  CHECK(chunks("loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss, num_output_chunks: 16}\n") == 16);
  CHECK(chunks("loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss, num_output_chunks: 12}\n") == 8);
  CHECK(chunks("loss: {_component_: torch.nn.CrossEntropyLoss}\n") == 1);
}

TEST_CASE("torchtune's recomputation and offload are what the recipes do with them", "[framework][torchtune]") {
  const std::string none = full + rest.substr(0, rest.find("enable_activation")) + adam;
  const Launched half = read(none + "ac_mode: selective\nac_option: 2\n");
  INFO(render(half.diagnostics));
  REQUIRE(half.run);
  CHECK(half.run->run.plan.recompute == Recompute::full);
  CHECK(half.run->run.plan.recompute_layers == std::vector<std::uint32_t>{16});  // of 32
  const Launched all = read(none + "ac_mode: full\n");
  REQUIRE(all.run);
  CHECK(all.run->run.plan.recompute == Recompute::full);
  CHECK_FALSE(all.run->run.plan.recompute_layers);
  // With both keys the recipe does neither.
  const Launched both = read(full + rest + adam + "ac_mode: full\n");
  REQUIRE(both.run);
  CHECK(both.run->run.plan.recompute == Recompute::none);

  const Launched off = read(full + rest + adam + "enable_activation_offloading: True\n", 1);
  INFO(render(off.diagnostics));
  REQUIRE(off.run);
  CHECK(off.run->run.plan.offload_activations == 8U);
  CHECK(said_of("enable_activation_offloading: True\n" + none, 1) ==
        "torchtune offloads activations only where it recomputes layers");
  const Launched host = read(full + rest + adam + "fsdp_cpu_offload: True\n");
  INFO(render(host.diagnostics));
  REQUIRE(host.run);
  CHECK(host.run->run.plan.offload_states == 8U);
  CHECK(host.refuses("fsdp_cpu_offload"));
  const Launched alone = read(full + rest + adam + "fsdp_cpu_offload: True\n", 1);
  REQUIRE(alone.run);
  CHECK(alone.said("fsdp_cpu_offload", LaunchNote::Kind::without_effect));
}

TEST_CASE("What plans do not have of a torchtune file is refused at its key", "[framework][torchtune]") {
  struct Case {
    std::string text;
    const char* key;
  };
  const std::string once = "gradient_accumulation_steps: 1\n";
  for (const Case& c :
       {Case{adapters("lora_llama3_1_8b", "  use_dora: True\n") + rest, "model.use_dora"},
        Case{adapters("lora_llama3_1_8b", "  lora_dropout: 0.1\n") + rest, "model.lora_dropout"},
        Case{adapters("lora_llama3_1_8b", "  apply_lora_to_output: True\n") + rest, "model.apply_lora_to_output"},
        Case{adapters() + rest + "enable_activation_offloading: True\n", "enable_activation_offloading"},
        Case{adapters() + rest + "fsdp_cpu_offload: True\n", "fsdp_cpu_offload"},
        Case{full + rest + once + "optimizer_in_bwd: True\n", "optimizer_in_bwd"},
        Case{full + rest +
                 "quantizer: {_component_: torchtune.training.quantization.Int8DynActInt4WeightQATQuantizer, "
                 "groupsize: 256}\n",
             "quantizer._component_"}}) {
    std::string text = c.text;
    if (text.find(once) != std::string::npos) text.erase(text.find("gradient_accumulation_steps: 4\n"), 31);
    const Launched l = read(text + adam);
    CAPTURE(c.key, render(l.diagnostics));
    REQUIRE(l.run);  // the nearest
    CHECK(l.refuses(c.key));
  }
}

TEST_CASE("Recipes that plans do not have end in one diagnosis at their line", "[framework][torchtune]") {
  const std::string without_loss = rest.substr(0, rest.find("loss:")) + rest.substr(rest.find("dtype")) + adam;
  CHECK(said_of("loss: {_component_: torchtune.rlhf.loss.DPOLoss, beta: 0.1}\n" + adapters() + without_loss, 1) ==
        "training by DPOLoss is not in plans yet");
  CHECK(said_of("kd_loss: {_component_: torchtune.modules.loss.ForwardKLLoss}\n" + adapters() + rest + adam, 1)
            .starts_with("distillation is not in plans yet"));
  CHECK(said_of(full + "policy_model:\n  _component_: torchtune.models.llama2.llama2\n" + rest + adam, 3)
            .starts_with("training by rewards is not in plans yet"));
  CHECK(said_of("model: {_component_: torchtune.models.llama3_2_vision.llama3_2_vision_11b}\n" + rest + adam, 1) ==
        "torchtune.models.llama3_2_vision.llama3_2_vision_11b builds a model of images and text, which plans do not "
        "have");
  CHECK(said_of(full + "tasks: [mmlu]\n" + rest, 2) == "this file trains nothing");
  CHECK(said_of("early_exit_loss: {scale: 1.0}\n" + full + rest + adam, 1) ==
        "losses of inner layers are not in plans yet");
  CHECK(said_of("model: {_component_: torchtune.models.code_llama2.code_llama2_13b}\n" + rest + adam, 1) ==
        "no shipped model is torchtune.models.code_llama2.code_llama2_13b");
}

TEST_CASE("Keys of torchtune that nobody knows are errors, and values are followed", "[framework][torchtune]") {
  const Launched l = read("enable_activation_checkpoint: True\n" + full + rest + adam);
  CHECK_FALSE(l.run);
  CHECK(render(l.diagnostics) ==
        "run.yaml:1:31: error: unknown key enable_activation_checkpoint [launch.unknown-key]\n"
        "    1 | enable_activation_checkpoint: True\n"
        "      |                               ^\n"
        "  Nothing is known of its effect on a step.\n"
        "  Did you mean enable_activation_checkpointing?\n");
  CHECK(said_of(full + "model_name: x\n" + rest + adam, 2) == "unknown key model_name");
  const Launched followed = read("sequences: 4\n" + full + "batch_size: ${gradient_accumulation_steps}\n" +
                                 rest.substr(0, rest.find("batch")) + rest.substr(rest.find("gradient_acc")) + adam);
  CHECK(followed.diagnostics.size() == 1);  // "sequences" alone is unknown
  CHECK(said_of(full + "batch_size: ${oc.env:SIZE}\n" + rest.substr(0, rest.find("batch")) +
                    rest.substr(rest.find("gradient_acc")) + adam,
                2) == "batch_size is no number");
}

// pytorch/torchtune@bd2a0fc7 README.md, "Optimization flags": the most that tensors take of Llama 3.2 3B on one A100,
// two packed sequences of 4,096 tokens, bf16, compiled. The last two rows offload activations too, which plans do not
// have beside adapters.
TEST_CASE("Imported recipes take the memory that torchtune measured", "[framework][torchtune][published]") {
  struct Case {
    std::string model;
    bool pieces, recomputed;
    double measured;  ///< GiB
    double within;
  };
  const auto beside = [](const std::string& builder) {
    std::string text = adapters(builder);
    return text.replace(text.find("llama3_1."), 9, "llama3_2.");
  };
  const std::string whole = "model: {_component_: torchtune.models.llama3_2.llama3_2_3b}\n";
  for (const Case& c : {Case{whole, false, false, 51.0, 0.08}, Case{whole, true, false, 42.9, 0.03},
                        Case{whole, true, true, 24.9, 0.06}, Case{beside("lora_llama3_2_3b"), true, true, 8.5, 0.06},
                        Case{beside("qlora_llama3_2_3b"), true, true, 4.6, 0.1}}) {
    const std::string loss = c.pieces ? "torchtune.modules.loss.CEWithChunkedOutputLoss" : "torch.nn.CrossEntropyLoss";
    const Launched l = read(c.model + adam + "loss: {_component_: " + loss +
                                "}\ntokenizer: {max_seq_len: 4096}\ndataset: {packed: True}\nbatch_size: 2\n"
                                "dtype: bf16\nenable_activation_checkpointing: " +
                                (c.recomputed ? "True\n" : "False\n"),
                            1);
    CAPTURE(c.model, c.measured, render(l.diagnostics));
    REQUIRE(l.run);
    PlannedRun run = l.run->run;
    // What a file leaves open, as one device resolves it.
    run.plan.stage_layers = std::vector<std::uint32_t>{static_cast<std::uint32_t>(run.model.layers)};
    run.plan.overlap_gradients = false;
    run.plan.gradient_bucket = Bytes::of(1e9);
    const Program program = lower(run.model, run.workload, run.plan);
    const auto peak = static_cast<double>(totals_of(program, 0).peak[static_cast<std::size_t>(Tier::device)]);
    CHECK(peak / (1024.0 * 1024.0 * 1024.0) == Approx(c.measured).epsilon(c.within));
  }
}
