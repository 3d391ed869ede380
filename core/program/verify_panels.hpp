#pragma once

#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

/// Of the latest region that the view touches.
[[nodiscard]] Blocks blocks_of(Regions&, const OpRun&, const View&);

/// Whoever does not go on adding to a sum over blocks needs all of them.
void blocks_are_there(Regions&, const OpRun&, const View&);

/// What a product over blocks is: one with two panels sums over their common
/// dimension, so they must be the same block's; one with a single panel is a
/// term that a reduce takes to that block's place.
[[nodiscard]] Blocks product_of_blocks(Regions&, const OpRun&, const Kernel&);

/// The sum goes to the root: the place of that member's block.
[[nodiscard]] Blocks blocks_by_root(Regions&, const OpRun&, const Collective&, const View& from, const View& to);

}  // namespace orrery::verifying
