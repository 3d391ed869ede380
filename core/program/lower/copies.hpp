#pragma once

#include <utility>
#include <vector>

#include "core/program/lower/state.hpp"

namespace orrery::lowering {

/// A whole copy of a module's weights or gradients, relative to the layer of a block's run.
struct Copy {
  const Module* module = nullptr;
  std::int8_t shift = 0;
  friend bool operator==(const Copy&, const Copy&) = default;
};

/// A copy of gradients that begins with zeros, in the elements [low, high).
struct ClearedCopy {
  BufferId buffer{};
  std::int8_t shift = 0;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
};

/// The changes that copies make to a block.
struct CopyChange {
  std::vector<Copy> gather;        ///< before its ops, in one message
  std::vector<ClearedCopy> clear;  ///< before its ops
  std::vector<Copy> free;          ///< after their last use
  bool after_gather = false;       ///< the block reads what the last op on the gather lane gathered, so each lane waits
                                   ///< for it
  const Module* reuse = nullptr;   ///< its gradients take over the memory of its weights
};

/// The block with copies; everything else stays as it was.
[[nodiscard]] Draft with_copies(State&, const Draft&, const CopyChange&);
/// Makes the same change in place of the block.
void add_copies(State&, BlockId, const CopyChange&);
/// The same as a new block, whose name is the old one and `suffix`.
[[nodiscard]] BlockId variant_with_copies(State&, BlockId of, const char* suffix, const CopyChange&);

/// Calls visit(block id) for the blocks of layers of a kind, recomputed and not.
template <class Visit>
void for_layers(ModuleBlocks& blocks, const LayerKind& kind, Visit&& visit) {
  visit(blocks[kind].plain);
  if (blocks[kind].recomputed != no_block) visit(blocks[kind].recomputed);
}

/// Whole gradients of ZeRO-2 and 3.
void add_gradient_copies(State&);
/// Whole weights of ZeRO-3.
void add_weight_copies(State&);

}  // namespace orrery::lowering
