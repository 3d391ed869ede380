#include "validate/program_habits.hpp"

#include <array>

#include "validate/framework_cell.hpp"
#include "validate/plan_cells.hpp"

namespace orrery {
namespace {

constexpr AttentionKernel flash = AttentionKernel::flash;
constexpr AttentionKernel unfused = AttentionKernel::unfused;
constexpr ContextAlgorithm ring = ContextAlgorithm::ring;
constexpr WeightGradients placeholders = WeightGradients::placeholders;
constexpr CrossEntropy plain = CrossEntropy::plain;
constexpr StateLayout contiguous = StateLayout::contiguous;

/// NeMo's recipes for measured speed adapt the product that makes queries, keys and values alone ("linear_qkv").
constexpr Adapters nemo_adapters{
    16, 32.0, Adapters::bit(AdaptedMatrix::q) | Adapters::bit(AdaptedMatrix::k) | Adapters::bit(AdaptedMatrix::v)};

/// By FrameworkRule.
//  name                attention dropout f32    overlap states vocabulary zero sp
//  (recompute, context, weight gradients, cross-entropy, product libraries, expandable segments, states, interleaves)
constexpr std::array<ProgramHabits, 18> all_habits = {{
    {"Megatron-LM", unfused, 0.1, false, false, false, 51200, 0, false},
    {"Megatron-LM Core", flash, 0.1, true, true, true, 128256, 1, true, false, ring, placeholders, plain, 2, false,
     contiguous},
    {"Megatron-LM Core", flash, 0.0, true, false, true, 128256, 1, true, false, ContextAlgorithm::ulysses, placeholders,
     plain, 2, false, contiguous},
    {"Megatron-LM Core", flash, 0.0, true, true, true, 131072, 1, true, false, ring, placeholders, plain, 2, false,
     contiguous},
    {"Megatron-DeepSpeed", unfused, 0.1, false, false, false, 50304, 1, false},
    {"Megatron-DeepSpeed", unfused, 0.1, false, false, false, 250880, 1, false},
    {.name = "NeMo",
     .distributed_optimizer = true,
     .zero_stage = 1,
     .sequence_parallel = true,
     .interleaves = true,
     .adapters = nemo_adapters},
    {.name = "llm-foundry",
     .gradients_in_f32 = true,
     .vocabulary = 50368,
     .zero_stage = 3,
     .selective_is_attention = false},
    {.name = "llm-foundry", .vocabulary = 50368, .zero_stage = 3, .selective_is_attention = false},
    {"torchtitan", flash, 0.0, true, true, false, 128256, 3, true, false, ContextAlgorithm::all_gather,
     WeightGradients::in_place, CrossEntropy::eager, 1, true, StateLayout::fsdp, false, false},
    {.name = "MaxText",
     .gradients_in_f32 = true,
     .vocabulary = 128256,
     .zero_stage = 3,
     .recompute = true,
     .selective_is_attention = false},
    {"OneFlow", unfused, 0.1, false, false, false, 51200, 0, false},
    {.name = "InternEvo", .distributed_optimizer = true, .vocabulary = 103168, .zero_stage = 1},
    {.name = "fms-fsdp", .vocabulary = 32000, .zero_stage = 3, .selective_is_attention = false},
    {.name = "AutoModel",
     .gradients_in_f32 = true,
     .vocabulary = 151936,
     .zero_stage = 3,
     .selective_is_attention = false},
    {.name = "Megatron-SWIFT",
     .gradients_in_f32 = true,
     .distributed_optimizer = true,
     .vocabulary = 151936,
     .zero_stage = 1,
     .sequence_parallel = true},
    {.name = "DeepSpeed", .vocabulary = 152064, .zero_stage = 2, .recompute = true, .selective_is_attention = false},
    {.name = "nanotron",
     .gradients_in_f32 = true,
     .distributed_optimizer = true,
     .vocabulary = 50257,
     .zero_stage = 1,
     .sequence_parallel = true,
     .memory_known = false},
}};
static_assert(all_habits.size() == static_cast<std::size_t>(FrameworkRule::nanotron) + 1);

}  // namespace

const ProgramHabits* habits_of(const MeasuredRun& run) {
  const std::optional<FrameworkCell> cell = read_framework(run.framework);
  return cell ? &all_habits[static_cast<std::size_t>(cell->rule)] : nullptr;
}

FrameworkMemory memory_of(const MeasuredRun& run, const ProgramHabits& framework, Bytes workspace) {
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

bool keeps_products(const MeasuredRun& run) { return read_recompute(run.recompute) == RecomputeCell::by_operation; }

Bytes kept_products(const MeasuredRun& row, const PlannedRun& run) {
  const ModelSpec& m = run.model;
  const Mesh& mesh = run.plan.mesh;
  const std::uint64_t values = m.kv_heads * m.head_dim, attention = m.heads * m.head_dim;
  const bool compiled = row.notes.find("compile") != std::string::npos;
  const std::uint64_t width = 2 * attention + values + m.ffn + (compiled ? 0 : m.hidden);
  const std::uint64_t tokens = run.plan.microbatch_size * run.workload.sequence_length / mesh.size(Axis::context);
  return Bytes::of(static_cast<double>(tokens * (2 * width + 4 * m.heads) / mesh.size(Axis::tensor)));
}

}  // namespace orrery
