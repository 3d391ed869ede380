#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/program/program.hpp"
#include "sim/memory/held_memory.hpp"
#include "sim/memory/memory_player.hpp"
#include "sim/memory/step_player.hpp"

namespace orrery {

/// What a rank of ZeRO-3 holds when PyTorch's FSDP2 (`fully_shard`) runs it. These are the tensors of its list, except
/// weights and their gradients, which follow these rules.
///
/// * Only the shards in full precision stay; a gather casts its input.
/// * A layer's gather ends in a buffer of the pool of gathers, from which weights are copied into tensors of their own;
///   the buffer goes when the next gather has been copied out.  The last layer keeps its weights from the forward to
///   the backward pass.
/// * Embedding, final norm and head are the root: one unit, gathered at the start of the step and reduced at its end.
/// * Gradients of a unit are in the weights' type until they are copied into the input of its reduction, which is freed
///   when the next unit is reduced. The reduced shards, in the pool of reductions, stay until the next step begins.
/// * The first update makes the moments; every update holds the square roots of all second moments.
///
/// Source: PyTorch 2, torch/distributed/_composable/fsdp (_fsdp_collectives.py, _fsdp_param_group.py, _fsdp_state.py)
/// and torch/optim/adamw.py (foreach).  Leaves out: gathers in fp8, explicit prefetch, and layers that stay whole
/// between passes by choice.
class FsdpMemory final : public StepMemory {
 public:
  FsdpMemory(const HeldMemory&, std::uint32_t rank_class, std::uint64_t kept_products);

  void setup(MemoryPlayer&);
  void begin(MemoryPlayer&) override;
  void run(const Slot&, MemoryPlayer&) override;
  void end(MemoryPlayer&) override;
  void write_state(std::vector<std::uint64_t>&) const override;
  void first_update(MemoryPlayer&);

 private:
  enum class Part : std::uint8_t { gathered, weights, gradients, reduction, shard, kept, square_root };
  struct Tensor {
    std::uint64_t name = 0, bytes = 0;
  };
  struct Output {
    std::uint64_t bytes = 0;
    bool copied = false;  ///< into the weights
  };
  /// The use that a block makes of a layer's whole weights.
  struct Use {
    std::optional<BufferId> weights;  ///< it computes with, and lets go
    bool forward = false;
  };

  void read_tables();
  void begin_block(const Use&, std::uint32_t layer, MemoryPlayer&);
  void end_block(const Use&, std::uint32_t layer, std::uint32_t microbatch, MemoryPlayer&);
  void on_event(bool alloc, std::uint64_t name, std::uint64_t bytes, MemoryPlayer&);
  void gather(std::uint32_t unit, std::uint64_t bytes, MemoryPlayer&);
  void copied_out(std::uint32_t unit, MemoryPlayer&);
  void reduce(std::uint32_t unit, std::uint64_t bytes, std::uint64_t shard, MemoryPlayer&);
  [[nodiscard]] bool is_root(const Buffer&) const;
  [[nodiscard]] std::uint64_t weight_bytes(const Buffer& gradient) const;
  [[nodiscard]] static std::uint64_t name_of(Part, std::uint32_t unit, std::uint32_t number = 0);

  const HeldMemory& memory_;
  const Program& program_;
  const RankClass& ranks_;
  std::uint64_t kept_products_;
  std::set<BufferId> persistent_;
  std::vector<Use> uses_;  ///< of each block
  std::uint64_t root_weights_ = 0, root_gradients_ = 0, root_shards_ = 0;
  std::vector<Tensor> moments_;
  std::vector<Tensor> roots_;  ///< of second moments
  std::vector<bool> kept_;     ///< shared tensors of the training program
  // Where a step stands.
  std::map<std::uint32_t, Output> gathered_;
  std::set<std::uint32_t> whole_;
  std::map<std::uint32_t, std::vector<Tensor>> gradients_;  ///< whole ones, by unit
  std::map<std::uint32_t, std::uint64_t> shards_;           ///< bytes, by unit
  std::optional<Tensor> reduction_;                         ///< the input that waits for the next reduction
};

}  // namespace orrery
