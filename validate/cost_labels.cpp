#include "validate/cost_labels.hpp"

#include <algorithm>
#include <array>

#include "validate/framework_cell.hpp"
#include "validate/plan_cells.hpp"

namespace orrery {
namespace {

struct DeviceLabels {
  std::string_view calibration;
  std::array<std::string_view, 3> labels;  ///< empty ones at the end
};
constexpr std::array<DeviceLabels, 10> devices = {{{"v100", {"volta"}},
                                                   {"a100-40", {"ampere"}},
                                                   {"a100-80", {"ampere"}},
                                                   {"h100", {"hopper"}},
                                                   {"h200", {"hopper"}},
                                                   {"h100-96", {"hopper", "h100-96"}},  // 500 W, not 700
                                                   {"b200", {"blackwell", "blackwell-hgx"}},
                                                   {"b300", {"blackwell", "blackwell-hgx"}},
                                                   {"gb200", {"blackwell", "gb200"}},
                                                   {"gb300", {"blackwell", "gb300"}}}};

template <class Row>
void append(std::vector<std::string_view>& to, const Row& labels) {
  for (const std::string_view l : labels) {
    if (!l.empty() && std::find(to.begin(), to.end(), l) == to.end()) to.push_back(l);
  }
}

/// `recipe`: the key of the casts of products in fewer than sixteen bits; empty: none.
CostLabels labels(const TrainingProgram* program, std::string_view calibration, std::string_view recipe) {
  CostLabels out;
  out.devices = device_labels(calibration);
  if (program != nullptr) append(out.frameworks, program->labels);
  const bool engine = program != nullptr && program->transformer_engine;
  if (engine) out.frameworks.emplace_back("transformer-engine");
  if (!recipe.empty()) {
    out.frameworks.push_back(recipe);
    if (engine) out.frameworks.emplace_back("transformer-engine-fp8");
  }
  return out;
}

}  // namespace

const std::vector<TrainingProgram>& training_programs() {
  static const std::vector<TrainingProgram> programs{
      {"megatron-lm-2022", "Megatron-LM and Megatron-DeepSpeed of 2021 and 2022", {"unfused"}},
      {"megatron-deepspeed-2022", "the same over Omni-Path of Jean Zay", {"unfused", "megatron-deepspeed"}},
      {"megatron-core", "Megatron-LM with overlap and most fusions off", {"megatron-core"}},
      {"nemo", "NeMo before 25.09: Megatron-Core with Transformer Engine", {"nemo", "nemo-loop"}, true},
      {"nemo-mlperf", "the same in a loop without logs and waits, as for MLPerf", {"nemo"}, true, false},
      {"megatron-bridge-25.09",
       "NeMo container 25.09: a message for each choice of a token",
       {"megatron-bridge", "megatron-bridge-25.09", "nemo-loop"},
       true,
       false},
      {"megatron-bridge-25.11",
       "NeMo containers 25.11 to 26.04: a token goes once to each node",
       {"megatron-bridge", "megatron-bridge-25.09", "nemo-loop", "flex-dispatcher"},
       true},
      {"megatron-bridge-26.06",
       "NeMo containers from 26.06",
       {"megatron-bridge", "megatron-bridge-26.06", "nemo-loop", "flex-dispatcher"},
       true},
      {"mlperf-5.1",
       "NeMo 25.09 as for MLPerf v5.1: whole steps are CUDA graphs",
       {"megatron-bridge", "mlperf"},
       true,
       false},
      {"nanotron", "nanotron of 2024", {"nanotron"}},
      {"internevo", "InternEvo of 2024", {"internevo"}},
      {"torchtitan", "PyTorch with FSDP2", {"eager-fsdp", "torchtitan"}, false, true, false},
      {"llm-foundry", "Composer over PyTorch's FSDP, eager", {"eager-fsdp", "llm-foundry"}, false, true, false},
      {"automodel", "NeMo AutoModel: FSDP2, DeepEP", {"automodel", "flex-dispatcher"}, false, true, false},
      {"deepspeed", "DeepSpeed's ZeRO under a trainer, eager", {"eager-fsdp", "deepspeed"}, false, true, false}};
  return programs;
}

const TrainingProgram* training_program(std::string_view name) {
  for (const TrainingProgram& p : training_programs()) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

CostLabels labels_of(const TrainingProgram& program, std::string_view calibration, Precision precision) {
  CostLabels out = labels(&program, calibration, {});
  // Block scales are what Blackwell's tensor cores take.
  const bool blocks = std::find(out.devices.begin(), out.devices.end(), "blackwell") != out.devices.end();
  if (precision == Precision::fp8) out = labels(&program, calibration, blocks ? "fp8-blocks" : "fp8-tensors");
  return out;
}

CostLabels labels_of(const MeasuredRun& run, std::string_view calibration) {
  const std::optional<FrameworkCell> cell = read_framework(run.framework);
  const std::optional<PrecisionCell> precision = read_precision(run.precision);
  std::string_view recipe;
  if (precision && precision->precision == Precision::fp8) {
    recipe = precision->four_bits ? "nvfp4" : precision->blocks ? "fp8-blocks" : "fp8-tensors";
  }
  return labels(cell ? training_program(cell->program) : nullptr, calibration, recipe);
}

std::vector<std::string_view> device_labels(std::string_view calibration) {
  std::vector<std::string_view> out;
  for (const DeviceLabels& d : devices) {
    if (d.calibration == calibration) append(out, d.labels);
  }
  return out;
}

std::vector<std::string_view> known_device_labels() {
  std::vector<std::string_view> out;
  for (const DeviceLabels& d : devices) append(out, d.labels);
  return out;
}

std::vector<std::string_view> known_framework_labels() {
  std::vector<std::string_view> out;
  for (const TrainingProgram& p : training_programs()) append(out, p.labels);
  append(out, std::array<std::string_view, 5>{"transformer-engine", "transformer-engine-fp8", "fp8-blocks",
                                              "fp8-tensors", "nvfp4"});
  return out;
}

}  // namespace orrery
