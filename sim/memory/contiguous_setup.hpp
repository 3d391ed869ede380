#pragma once

#include <cstdint>
#include <vector>

#include "core/program/program.hpp"
#include "sim/memory/memory_player.hpp"

namespace orrery {

/// How Megatron-LM allocates weights, gradients and optimizer states.
///
/// The model's tensors are made one by one (one for each expert). Then come a buffer for all weights and one for all
/// gradients that are sharded alike. Weights move there, and the tensors that they were made in become free memory of
/// the caching allocator, cut up as it was. Then the masters of the rank's part are made, tensor by tensor from the
/// last, each through a copy in the weights' type. The first update makes the moments.
///
/// Source: Megatron-LM core, distributed/param_and_grad_buffer.py (_ParamAndGradBuffer) and
/// optimizer/distrib_optimizer.py (_build_model_and_main_param_groups); states of FusedAdam are made in step().
/// Leaves out: the padding of shards; which part of the buffer a rank has (here it has the last layers').
class ContiguousSetup {
 public:
  ContiguousSetup(const Program&, std::uint32_t rank_class);

  void setup(MemoryPlayer&);
  void first_update(MemoryPlayer&) const;

 private:
  struct Tensor {
    std::uint64_t elements = 0;
    std::uint64_t share = 1;  ///< ranks that share out its states
  };
  void read(const Buffer& weights);

  const Program& program_;
  const RankClass& ranks_;
  std::vector<Tensor> tensors_;
  std::vector<std::uint64_t> others_;  ///< bytes
  std::vector<std::uint64_t> states_;  ///< elements
  std::vector<DType> moments_;         ///< of an element
  DType weight_ = DType::bf16, gradient_ = DType::f32;
  bool masters_ = false;
};

}  // namespace orrery
