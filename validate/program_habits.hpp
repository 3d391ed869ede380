#pragma once

#include <cstdint>
#include <string_view>

#include "core/plan/plan.hpp"
#include "core/spec/workload.hpp"
#include "sim/memory/framework_memory.hpp"
#include "validate/measured_run.hpp"

namespace orrery {

/// What a family of training programs does that a table of runs does not say, or does unless the table says otherwise.
///
/// There is one rule for a framework, never one for a row, a model or a size. Each comes from the framework's own
/// defaults and published scripts, named in docs/validate.md.
struct ProgramHabits {
  std::string_view name;  ///< of the family, as summaries group by it
  // The program's own choices.
  AttentionKernel attention = AttentionKernel::flash;
  double dropout = 0.0;                ///< of hidden states and of attention
  bool gradients_in_f32 = false;       ///< accumulated in fp32; otherwise in the type of the weights
  bool overlap_gradients = true;       ///< reduces buckets beside the last backward pass
  bool distributed_optimizer = false;  ///< with plain data parallelism it still shards the optimizer's states: ZeRO-1
  // Values for empty cells.
  std::uint64_t vocabulary = 51200;
  std::uint32_t zero_stage = 0;
  bool sequence_parallel = false;  ///< wherever there is a tensor axis
  bool recompute = false;          ///< whole layers
  /// How a context axis cuts attention; rings and gathers distribute the sequence so that a causal mask makes equal
  /// work.
  ContextAlgorithm context = ContextAlgorithm::ring;
  // What it holds in addition to the tensors of the Program, unless the row's notes say otherwise (memory_of).
  WeightGradients weight_gradients = WeightGradients::in_place;
  CrossEntropy cross_entropy = CrossEntropy::in_place;
  std::uint32_t product_libraries = 0;  ///< that keep a workspace each: PyTorch's cuBLAS, Transformer Engine's
  bool expandable_segments = false;     ///< how its launch script sets up PyTorch's allocator
  StateLayout states = StateLayout::listed;
  /// Where a row gives no chunks: whether chunks have one layer each, as far as layers and microbatches divide.
  bool interleaves = false;
  bool selective_is_attention = true;  ///< "selective" recomputation is Megatron-LM's, of the attention core
  bool memory_known = true;  ///< false: what it holds beside the Program's tensors is not modelled, and not compared
  Adapters adapters = {};    ///< of runs that train a few weights: tables give neither rank nor matrices
};

/// The rule of the row's framework cell; null where the cell is not understood (read_framework).
[[nodiscard]] const ProgramHabits* habits_of(const MeasuredRun&);
/// Memory that the run's program holds in addition to the tensors of the Program. `workspace` is the size for one
/// product library.
[[nodiscard]] FrameworkMemory memory_of(const MeasuredRun&, const ProgramHabits&, Bytes workspace);
/// Whether recomputed layers keep some results: torchtitan's choice by operation.
[[nodiscard]] bool keeps_products(const MeasuredRun&);
/// Bytes that each such layer keeps of a microbatch, in addition to its input.
///
///     2 b s / c (q + v + o + f [+ h where layers are not compiled]) / t + 4 b s a / (c t)
///
/// Every second of the products query, key, value, output, gate, up, down is computed again; the rest and attention's
/// result stay. q, v, o widths of queries, values and attention's result, f of the feed-forward layer, h of the stream,
/// a heads, b sequences of s tokens on c context and t tensor ranks. Nothing in the backward pass needs what the last
/// product made, so a compiled layer does not save it. Source: torchtitan, parallelize_llama.py (_save_list,
/// _get_custom_policy) at 9dec370.
[[nodiscard]] Bytes kept_products(const MeasuredRun&, const PlannedRun&);

}  // namespace orrery
