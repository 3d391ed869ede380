#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/kernels/cuda/cudnn/attention_shape.hpp"

namespace orrery::cudnn {

/// cuDNN's handle; the library must be loaded (library.hpp).
using Handle = void*;

/// What plans are made for: the device of a handle, or one that is described in cuDNN's own JSON and need not be there.
struct PlanTarget {
  Handle handle = nullptr;
  std::string described{};
  int capability = 0;  ///< 90: Hopper
};

/// cuDNN's graph of one call of attention, and the plan that its heuristics put first: no plan is timed, so that a run
/// repeats bit for bit. The backward pass is cuDNN's deterministic one.
///
/// attention_plan.cpp is the only source that includes NVIDIA's header-only cudnn-frontend, which takes a minute to
/// compile.
class AttentionPlan {
 public:
  /// Throws Error with cuDNN's words where it has no plan.
  AttentionPlan(const AttentionShape&, const PlanTarget&);
  ~AttentionPlan();
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  [[nodiscard]] std::uint64_t workspace_bytes() const;
  /// cuDNN's name of the plan: its engine and how that is set.
  [[nodiscard]] std::string name() const;
  /// What cuDNN keeps of the plan, to be loaded again.
  [[nodiscard]] std::vector<std::uint8_t> serialized() const;
  /// The graph that cuDNN was asked for, in JSON: tensors with sizes and strides, and the operation's settings.
  [[nodiscard]] std::string graph_text() const;
  /// Does all calls of the shape, one after another, in the handle's stream.
  void run(Handle, const AttentionOperands&, void* workspace) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace orrery::cudnn
