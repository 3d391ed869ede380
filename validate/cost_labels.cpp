#include "validate/cost_labels.hpp"

#include <algorithm>
#include <array>

#include "validate/framework.hpp"

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

struct FrameworkLabels {
  std::string_view prefix;  ///< of the framework cell; the longest counts
  std::array<std::string_view, 3> labels;
  bool transformer_engine = false;
};
/// Generations: programs that share their kernels and how they launch them.
constexpr std::array<FrameworkLabels, 11> frameworks = {
    {{"Megatron-LM", {"unfused"}},
     {"Megatron-DeepSpeed", {"unfused"}},
     {"Megatron-DeepSpeed (Feb 2022)", {"unfused", "megatron-deepspeed"}},
     {"Megatron-LM main", {"megatron-core"}},
     {"Megatron-LM 23e00ed0", {"megatron-core"}},
     {"Megatron-Core", {"megatron-core"}},
     {"NeMo", {"nemo"}, true},
     {"NeMo container", {"megatron-bridge", "megatron-bridge-25.09"}, true},
     {"NeMo container 26.06", {"megatron-bridge", "megatron-bridge-26.06"}, true},
     {"NeMo container 26.08", {"megatron-bridge", "megatron-bridge-26.06"}, true},
     {"torchtitan", {"eager-fsdp", "torchtitan"}}}};
constexpr std::array<std::string_view, 2> foundry = {"eager-fsdp", "llm-foundry"};

template <class Row>
void append(std::vector<std::string_view>& to, const Row& labels) {
  for (const std::string_view l : labels) {
    if (!l.empty() && std::find(to.begin(), to.end(), l) == to.end()) to.push_back(l);
  }
}

}  // namespace

CostLabels labels_of(const MeasuredRun& run, std::string_view calibration) {
  CostLabels out;
  for (const DeviceLabels& d : devices) {
    if (d.calibration == calibration) append(out.devices, d.labels);
  }
  const FrameworkLabels* best = nullptr;
  for (const FrameworkLabels& f : frameworks) {
    if (run.framework.starts_with(f.prefix) && (best == nullptr || f.prefix.size() > best->prefix.size())) best = &f;
  }
  if (best != nullptr) append(out.frameworks, best->labels);
  if (run.framework.starts_with("llm-foundry")) append(out.frameworks, foundry);
  const bool engine = best != nullptr && best->transformer_engine;
  if (engine) out.frameworks.emplace_back("transformer-engine");
  if (is_fp8(run)) {
    out.frameworks.emplace_back(run.precision.find("mx") != std::string::npos ? "fp8-blocks" : "fp8-tensors");
    if (engine) out.frameworks.emplace_back("transformer-engine-fp8");
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
  for (const FrameworkLabels& f : frameworks) append(out, f.labels);
  append(out, foundry);
  append(out,
         std::array<std::string_view, 4>{"transformer-engine", "transformer-engine-fp8", "fp8-blocks", "fp8-tensors"});
  return out;
}

}  // namespace orrery
