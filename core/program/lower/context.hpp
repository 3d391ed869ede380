#pragma once

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"

namespace orrery::lowering {

/// Persistent buffers of one module ("embedding", "layer", "head").
struct Module {
  bool present = false;
  std::uint32_t table = 0;  ///< index into Program::parameter_tables
  BufferId weights{};
  BufferId gradients{};
  BufferId masters{};   ///< only with has_master_weights
  BufferId moments[2]{};  ///< optimizer_moments of them
};

struct Scalars {
  BufferId steps{}, loss_scale{}, loss{}, count{}, norm{}, factor{};
};

/// What all passes of one lowering share: the input, sizes that follow from
/// it, and the declarations made so far.
struct Context {
  Context(const ModelSpec& model, const Workload& workload, const Plan& plan, Program& program);

  const ModelSpec& model;
  const Workload& workload;
  const Plan& plan;
  Program& program;

  // Sizes on one rank.
  std::uint32_t tensor, data, stages;
  std::uint32_t sequences;        ///< of one microbatch
  std::uint64_t tokens;           ///< of one microbatch
  std::uint64_t rows;             ///< tokens of the residual stream: tokens, or tokens / tensor with sequence parallel
  std::uint32_t heads, kv_heads;  ///< local
  std::uint64_t qkv_width, context_width, ffn, vocabulary;  ///< local
  bool sequence_parallel;
  bool shard_states;   ///< ZeRO-1 over more than one replica
  bool clip, scaled;   ///< global-norm clipping; fp16 loss scale
  bool factor;         ///< updates take a factor

  DType act, grad, state, logits;

  GroupId tensor_group{}, data_group{}, pipeline_group{}, norm_group{}, tied_group{};
  Module embedding, layer, head;
  Scalars scalar;

  BufferId declare(Buffer buffer);
  /// A buffer of a microbatch's tokens: shape {positions, sequences, features}.
  BufferId activation(std::string name, Role role, Scope scope, DType dtype, ShardDim feature, bool sharded_rows);
  /// A kernel with this workload's arithmetic type.
  [[nodiscard]] Kernel kernel(KernelKind kind, Pass pass, std::uint64_t rows, std::uint64_t columns,
                              std::uint64_t depth = 0) const;
  /// The local elements of a parameter, as an operand of the module's weights or gradients.
  struct Parameter {
    std::uint64_t offset, count;
  };
  [[nodiscard]] Parameter parameter(const Module&, std::string_view slice) const;
};

/// Where the LM head's matrix lives: the head module, or the embedding's when
/// tied on one stage.
struct HeadMatrix {
  const Module* module;
  const char* slice;
};
[[nodiscard]] HeadMatrix head_matrix(const Context&);

/// Declares parameter tables, persistent buffers and scalars.
void declare_parameters(Context&);

}  // namespace orrery::lowering
