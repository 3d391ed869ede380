#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// Puts the ops of some modules of a layer into its backward blocks once more.
///
/// A module's ops, and the seams between them, come in front of the first op or seam of the backward pass that reads
/// what they made and what was dropped. They come in the order of the forward pass. What they read themselves is made
/// first, if it was dropped too. A gathered copy that nobody keeps is gathered again.
///
/// A module that is checkpointed (core_attn, mlp, moe, shared_experts) makes all of its ops again, down to its result.
/// Whoever else reads that result finds the one of the forward pass. A module whose results are dropped (layernorm,
/// moe_act, mla_up_proj) makes them again for all. Source: NVIDIA/Megatron-LM@d98e8a64,
/// megatron/core/tensor_parallel/random.py (checkpoint, CheckpointWithoutOutput) and transformer/transformer_layer.py.
class ModulesAgain {
 public:
  /// Requires that `forward` outlives this object.
  ModulesAgain(const State&, const Draft& forward, RecomputeModules);

  /// Rebuilds a backward block; blocks come in the order in which they run.
  void put_into(Draft& backward);

 private:
  /// An op, or a seam, of a draft.
  struct Item {
    bool seam = false;
    std::uint32_t at = 0;  ///< index of the op, or of the seam
    RecomputeModules parts = 0;
    std::vector<BufferId> reads, writes;  ///< what is added to is both
  };
  /// Neighbouring items of one module.
  struct Group {
    std::uint32_t first = 0, last = 0;  ///< items; `last` is one of them
    bool made = false;                  ///< again
  };
  static std::vector<Item> items_of(const Draft&);
  void find_groups(RecomputeModules);
  void add_group(RecomputeModule, std::uint32_t first, std::uint32_t last);
  /// Whether an item behind this one reads the buffer before it is made anew.
  [[nodiscard]] bool is_read_behind(std::uint32_t item, BufferId) const;
  void make_group(BlockBuilder&, std::size_t group);
  /// Appends an item of the forward pass, behind what it reads. Items from `first` on were made already.
  void make_again(BlockBuilder&, std::uint32_t item, std::uint32_t first);
  void wrote(const Item&);

  const State& s_;
  const Draft& forward_;
  std::vector<Item> items_;
  std::vector<Group> groups_;
  std::map<BufferId, std::size_t> dropped_;              ///< groups that make the buffers again
  std::map<BufferId, std::optional<BufferId>> brought_;  ///< of each written buffer: what a seam made it from
};

}  // namespace orrery::lowering
