#include "validate/framework.hpp"

#include <array>

namespace orrery {
namespace {

constexpr AttentionKernel flash = AttentionKernel::flash;
constexpr AttentionKernel unfused = AttentionKernel::unfused;
constexpr ContextAlgorithm ring = ContextAlgorithm::ring;
constexpr WeightGradients placeholders = WeightGradients::placeholders;
constexpr CrossEntropy plain = CrossEntropy::plain;
constexpr StateLayout contiguous = StateLayout::contiguous;

/// The longest prefix that fits counts, so the order means nothing.
//  name, prefix                                        attention dropout f32    overlap states vocabulary zero sp
//  (recompute, context, weight gradients, cross-entropy, product libraries, expandable segments, states, interleaves)
constexpr std::array<Framework, 13> frameworks = {{
    {"Megatron-LM", "Megatron-LM", unfused, 0.1, false, false, false, 51200, 0, false},
    {"Megatron-LM", "Megatron-LM (2022)", unfused, 0.1, false, false, false, 51200, 0, false},
    {"Megatron-LM Core", "Megatron-LM main", flash, 0.1, true, true, true, 128256, 1, true, false, ring, placeholders,
     plain, 2, false, contiguous},
    {"Megatron-LM Core", "Megatron-LM 23e00ed0", flash, 0.0, true, false, true, 128256, 1, true, false,
     ContextAlgorithm::ulysses, placeholders, plain, 2, false, contiguous},
    {"Megatron-LM Core", "Megatron-Core", flash, 0.0, true, true, true, 131072, 1, true, false, ring, placeholders,
     plain, 2, false, contiguous},
    {"Megatron-DeepSpeed", "Megatron-DeepSpeed", unfused, 0.1, false, false, false, 50304, 1, false},
    {"Megatron-DeepSpeed", "Megatron-DeepSpeed (Feb 2022)", unfused, 0.1, false, false, false, 250880, 1, false},
    {"NeMo", "NeMo", flash, 0.0, false, true, true, 51200, 1, true, false, ring, WeightGradients::in_place,
     CrossEntropy::in_place, 0, false, StateLayout::listed, true},
    {"llm-foundry", "llm-foundry/Composer FSDP, mixed_precision=DEFAULT", flash, 0.0, true, true, false, 50368, 3,
     false},
    {"llm-foundry", "llm-foundry/Composer FSDP, mixed_precision=PURE", flash, 0.0, false, true, false, 50368, 3, false},
    {"torchtitan", "torchtitan", flash, 0.0, true, true, false, 128256, 3, true, false, ContextAlgorithm::all_gather,
     WeightGradients::in_place, CrossEntropy::eager, 1, true, StateLayout::fsdp},
    {"MaxText", "MaxText", flash, 0.0, true, true, false, 128256, 3, false, true},
    {"OneFlow", "OneFlow-GPT", unfused, 0.1, false, false, false, 51200, 0, false},
}};

}  // namespace

const Framework* framework_of(const MeasuredRun& run) {
  const Framework* best = nullptr;
  for (const Framework& f : frameworks) {
    if (run.framework.starts_with(f.prefix) && (best == nullptr || f.prefix.size() > best->prefix.size())) best = &f;
  }
  return best;
}

FrameworkMemory memory_of(const MeasuredRun& run, const Framework& framework, Bytes workspace) {
  const auto says = [&](const char* words) { return run.notes.find(words) != std::string::npos; };
  FrameworkMemory out{framework.weight_gradients,
                      framework.cross_entropy,
                      framework.product_libraries * workspace,
                      framework.states,
                      {}};
  if (says("no-gradient-accumulation-fusion")) out.weight_gradients = WeightGradients::apart;
  if (says("cross-entropy fusion") || says("cross-entropy-loss-fusion")) out.cross_entropy = CrossEntropy::fused;
  return out;
}

bool keeps_products(const MeasuredRun& run) { return run.recompute == "selective (per-op SAC)"; }

Bytes kept_products(const MeasuredRun& row, const PlannedRun& run) {
  const ModelSpec& m = run.model;
  const Mesh& mesh = run.plan.mesh;
  const std::uint64_t values = m.kv_heads * m.head_dim, attention = m.heads * m.head_dim;
  const bool compiled = row.notes.find("compile") != std::string::npos;
  const std::uint64_t width = 2 * attention + values + m.ffn + (compiled ? 0 : m.hidden);
  const std::uint64_t tokens = run.plan.microbatch_size * run.workload.sequence_length / mesh.size(Axis::context);
  return Bytes::of(static_cast<double>(tokens * (2 * width + 4 * m.heads) / mesh.size(Axis::tensor)));
}

bool is_fp8(const MeasuredRun& run) {
  for (const char* eight : {"fp8", "mxfp8", "float8", "amp_fp8"}) {
    if (run.precision.starts_with(eight)) return true;
  }
  return false;
}

}  // namespace orrery
