#include <catch2/catch.hpp>

#include "tests/unit/validate/runs.hpp"
#include "validate/framework_cell.hpp"
#include "validate/measured_memory.hpp"
#include "validate/plan_cells.hpp"
#include "validate/run_cluster.hpp"
#include "validate/trained_weights.hpp"

// A cell is understood fully or not at all, because text behind known words may change what they mean.

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

std::string program(const char* cell) {
  const auto read = read_framework(cell);
  return read ? std::string(read->program) : "not understood";
}
std::string sharding(const char* cell) {
  const auto read = read_sharding(cell);
  if (!read) return "not understood";
  switch (read->kind) {
    case ShardingCell::Kind::unstated: return "unstated";
    case ShardingCell::Kind::plain: return "plain";
    case ShardingCell::Kind::stage: break;
  }
  return std::to_string(read->stage) + (read->group > 0 ? " of " + std::to_string(read->group) : "");
}

}  // namespace

TEST_CASE("a framework is its name and its release, not what a cell begins with", "[unit][validate]") {
  CHECK(program("NeMo 24.07") == "nemo");
  CHECK(program("NeMo 25.04.rc2") == "nemo");
  CHECK(program("NeMo Megatron 23.08") == "nemo");
  CHECK(program("NeMo 25.02/25.04 (dgxc v25.04.02)") == "nemo");
  CHECK(program("NeMo") == "nemo");
  CHECK(program("NeMo 25.09") == "megatron-bridge-25.09");
  CHECK(program("NeMo 25.09 (MLPerf v5.1)") == "mlperf-5.1");
  CHECK(program("NeMo 24.04 (MLPerf v4.0)") == "nemo-mlperf");
  CHECK(program("NeMo container 25.11 (dgxc v25.12)") == "megatron-bridge-25.11");
  CHECK(program("NeMo container 26.04.01 (Megatron-Bridge/Core)") == "megatron-bridge-25.11");
  CHECK(program("NeMo container 26.06.01 (Megatron-Bridge/Core)") == "megatron-bridge-26.06");
  CHECK(program("Megatron-LM (2022)") == "megatron-lm-2022");
  CHECK(program("Megatron-LM 6985e589 (sc21 README), pytorch:20.12-py3, DDP-impl torch") == "megatron-lm-2022");
  CHECK(program("Megatron-LM main @d98e8a64dd") == "megatron-core");
  CHECK(program("Megatron-LM 23e00ed0, torch 2.10.0a0 nv26.01, TE 2.11.0+c188b533") == "megatron-core");
  CHECK(program("Megatron-Core r0.8.0") == "megatron-core");
  CHECK(program("Megatron-Core (examples/llama)") == "nemo");
  CHECK(program("Megatron-SWIFT") == "nemo");
  CHECK(program("InternEvo 2024-03") == "internevo");
  CHECK(program("fms-fsdp (PyTorch FSDP, compile)") == "torchtitan");
  CHECK(program("AutoModel (PyTorch FSDP2 + TE)") == "automodel");
  CHECK(program("DeepSpeed ZeRO-2 (ms-swift)") == "deepspeed");
  CHECK(program("nanotron 2024-07") == "nanotron");
  CHECK(program("Megatron-DeepSpeed (Feb 2022)") == "megatron-deepspeed-2022");
  CHECK(program("torchtitan 820504e torch 38410cf9 (2025-06)") == "torchtitan");
  CHECK(program("torchtitan 0.0.2 / torch 2.7.0a0") == "torchtitan");
  CHECK(program("llm-foundry/Composer FSDP, mixed_precision=PURE") == "llm-foundry");
  CHECK(program("MaxText 25.01 (JAX)").empty());  // priced by what all programs have in common
  for (const char* other : {"",
                            "NeMo AutoModel (JAX)",
                            "DeepSpeed (Ulysses)",
                            "InternEvo (2D)",
                            "NeMo-RL",
                            "NeMo RL 25.07",
                            "NeMo-Aligner 0.5",
                            "NeMoX",
                            "NeMo 2.0",
                            "NeMo 25.04/25.09",
                            "NeMo container",
                            "NeMo 24.07 (FSDP)",
                            "Megatron-LM",
                            "Megatron-LM 2025",
                            "Megatron-LM deadbeef0",
                            "Megatron-LM main (ROCm)",
                            "Megatron-LM-DeepSpeed",
                            "torchtitan + FlexAttention",
                            "llm-foundry",
                            "MaxText (TPU)",
                            "Megatron-DeepSpeed (2024)"}) {
    CAPTURE(other);
    CHECK(program(other) == "not understood");
  }
}

TEST_CASE("a sharding cell is a stage of ZeRO and the ranks that share the states", "[unit][validate]") {
  CHECK(sharding("") == "unstated");
  CHECK(sharding("none") == "0");
  CHECK(sharding("2") == "2");
  CHECK(sharding("ZeRO-1") == "1");
  CHECK(sharding("zero 3") == "3");
  CHECK(sharding("ZeRO-1 within 8 ranks") == "1 of 8");
  CHECK(sharding("DDP (FSDP=0)") == "plain");
  CHECK(sharding("distributed optimizer") == "1");
  CHECK(sharding("distributed optimizer (ZeRO-1)") == "1");
  CHECK(sharding("FSDP") == "3");
  CHECK(sharding("FSDP2") == "3");
  CHECK(sharding("FSDP FULL_SHARD (ZeRO-3)") == "3");
  CHECK(sharding("FSDP SHARD_GRAD_OP (ZeRO-2)") == "2");
  CHECK(sharding("FSDP2 (ZeRO-3) degree 8") == "3 of 8");
  CHECK(sharding("FSDP2 32") == "3 of 32");
  CHECK(sharding("FSDP sharding group 64") == "3 of 64");
  CHECK(sharding("FSDP (ZeRO-3) + DP") == "3");
  for (const char* other : {"FSDP + CPU offload", "FSDP FULL_SHARD (ZeRO-2)", "FSDP2 reshard after 2", "DDP + offload",
                            "distributed optimizer, offload", "ZeRO-4", "4", "zero", "ddp AMP", "FSDP degree"}) {
    CAPTURE(other);
    CHECK(sharding(other) == "not understood");
  }
}

TEST_CASE("recomputation and precision are what the whole cell says", "[unit][validate]") {
  CHECK(read_recompute("") == RecomputeCell::unstated);
  CHECK(read_recompute("none") == RecomputeCell::none);
  CHECK(read_recompute("full") == RecomputeCell::full);
  CHECK(read_recompute("selective") == RecomputeCell::selective);
  CHECK(read_recompute("selective (attention core)") == RecomputeCell::attention);
  CHECK(read_recompute("selective (per-op SAC)") == RecomputeCell::by_operation);
  CHECK(read_recompute("selective (remat minimal_flash)") == RecomputeCell::none);  // it keeps all products
  for (const char* other :
       {"selective + mlp", "selective (attention, 4 of 12 layers)", "selective (save_dot_with_context_except_mlp)",
        "full (4 of 12 layers)", "none?", "selective (attention core", "block"}) {
    CAPTURE(other);
    CHECK_FALSE(read_recompute(other));
  }
  const auto fp8 = [](const char* cell) {
    const auto read = read_precision(cell);
    return read && read->precision == Precision::fp8 ? read->blocks ? "blocks" : "tensors" : "no";
  };
  CHECK(read_precision("bf16")->precision == Precision::bf16);
  CHECK(read_precision("amp_bf16")->precision == Precision::bf16);
  CHECK(read_precision("fp16 (amp)")->precision == Precision::fp16);
  for (const char* cell : {"fp8", "fp8-cs", "fp8 (hybrid)", "fp8 (recipe per footnote)", "fp8 linear (Float8)",
                           "float8 rowwise", "fp8 (tensorwise, float8 all-gather)", "amp_fp8"}) {
    CAPTURE(cell);
    CHECK(fp8(cell) == std::string("tensors"));
  }
  CHECK(fp8("mxfp8") == std::string("blocks"));
  CHECK(fp8("fp8-mx") == std::string("blocks"));
  CHECK(read_precision("nvfp4")->four_bits);
  CHECK_FALSE(read_precision("mxfp8")->four_bits);
  for (const char* other : {"nvfp4 (mixed)", "bf16 + fp8 attention", "fp16/fp32", "fp8 (bf16 attention)", "bf16x3"}) {
    CAPTURE(other);
    CHECK_FALSE(read_precision(other));
  }
}

TEST_CASE("cards for PCIe are not taken for modules, nor links and networks for others", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.intra_link = "";
  const auto device = [&](const char* gpu) {
    run.gpu = gpu;
    const RunCluster c = run_cluster(run, shipped_library());
    return c.cluster ? c.cluster->device.calibration : c.reason;
  };
  CHECK(device("H100-SXM5") == "h100");
  CHECK(device("NVIDIA H100 80GB SXM") == "h100");
  CHECK(device("A100 (PCIe-connected)") == "a100-80");
  for (const char* other : {"H100-PCIe", "H100 NVL", "H100 (PCIe)", "A1000", "H800", "A100X"}) {
    CHECK(device(other) == "no device file is for the GPU \"" + std::string(other) + "\"");
  }
  run.gpu = "H100-SXM";
  const auto links = [&](const char* cell) {
    run.intra_link = cell;
    const RunCluster c = run_cluster(run, shipped_library());
    return c.cluster ? c.cluster->levels.front().bandwidth.in(gigabyte_per_second) : -1.0;
  };
  CHECK(links("NVLink4 NVSwitch") == Approx(450.0));
  CHECK(links("NVLink4 900 GB/s") == Approx(450.0));
  CHECK(links("NVLink4 400 GB/s") == Approx(200.0));  // both ways, as H800 has it
  CHECK(links("NVLink4 (8 links)") == Approx(200.0));
  CHECK(links("NVLink bridges for pairs") == -1.0);
  CHECK(run_cluster(run, shipped_library()).reason ==
        "the links \"NVLink bridges for pairs\" of a node are not understood");
  CHECK(network_share("400 Gb/s per GPU (EFA)", 8));
  CHECK_FALSE(network_share("400 Gb/s per GPU, 4:1 oversubscribed", 8));
  CHECK_FALSE(network_share("400 Gb/s per GPU (oversubscribed)", 8));
}

TEST_CASE("a peak of memory is compared with the figure that its whole kind names", "[unit][validate]") {
  MeasuredRun run = dense_run();
  run.peak_mem_gb = 2.0;
  const auto kind = [&](const char* text) {
    run.peak_mem_kind = text;
    return measured_memory(run);
  };
  CHECK(*kind("GiB max_allocated")->allocated == 2.0 * gib);
  CHECK(*kind("GB max allocated; reserved=3 GB")->allocated == 2e9);
  CHECK(*kind("GB max allocated; reserved=3 GB")->reserved == 3e9);
  CHECK(*kind("GiB max_allocated (max over ranks); reserved=29.5 GiB")->reserved == 29.5 * gib);
  CHECK(kind("GiB max_allocated (logged rank); steady allocated=1.5 GiB")->last_rank);
  CHECK_FALSE(kind("GiB max_allocated (logged rank); steady allocated=1.5 GiB")->reserved);
  CHECK(*kind("GiB max_reserved (torchtitan log)")->reserved == 2.0 * gib);
  CHECK(*kind("GiB, max across GPUs (torchtitan memory reading)")->reserved == 2.0 * gib);
  for (const char* other : {"", "max_allocated", "MiB max_allocated", "GiB nvidia-smi", "GB, max used as reported",
                            "GiB max_allocated, sum of 8 GPUs", "GiB max across GPUs"}) {
    CAPTURE(other);
    CHECK_FALSE(kind(other));
  }
}

TEST_CASE("a full fine-tune trains all weights, LoRA few, and a row of a table of both is what it is called",
          "[unit][validate]") {
  MeasuredRun run = dense_run();
  const auto trained = [&](const char* notes, const char* id = "x") {
    run.notes = notes;
    run.id = id;
    return trained_weights(run);
  };
  CHECK(trained("") == TrainedWeights::all);
  CHECK(trained("SFT; packed") == TrainedWeights::all);
  CHECK(trained("full fine-tuning, not LoRA") == TrainedWeights::all);
  CHECK(trained("no LoRA") == TrainedWeights::all);
  CHECK(trained("explorative run on Florals") == TrainedWeights::all);
  CHECK(trained("q_lora_rank 1536; kv-lora-rank 512") == TrainedWeights::all);  // latent attention's
  CHECK(trained("LoRA; rank 32") == TrainedWeights::few);
  CHECK(trained("QLoRA") == TrainedWeights::few);
  CHECK(trained("", "bridge-lora-70b") == TrainedWeights::few);
  CHECK(trained("SFT/LoRA row: FLOPs lower for LoRA", "bridge-sft-70b") == TrainedWeights::all);
  CHECK(trained("SFT/LoRA row: FLOPs lower for LoRA", "bridge-lora-70b") == TrainedWeights::few);
  CHECK(trained("SFT/LoRA row: FLOPs lower for LoRA") == TrainedWeights::unclear);
}
