#pragma once

#include "core/program/verify_regions.hpp"

namespace orrery::verifying {

/// The blocks of the latest region that the view touches.
[[nodiscard]] Blocks blocks_of(Regions&, const OpRun&, const View&);

/// An op that does not go on adding to a sum over blocks needs all of them.
void blocks_are_there(Regions&, const OpRun&, const View&);

/// The blocks of a product. A product with two panels sums over their common dimension, so both must come from the same
/// block. A product with a single panel is a term that a reduce takes to that block's place.
[[nodiscard]] Blocks product_of_blocks(Regions&, const OpRun&, const Kernel&);

/// The sum goes to the root, so it stands at the place of that member's block.
[[nodiscard]] Blocks blocks_by_root(Regions&, const OpRun&, const Collective&, const View& from, const View& to);

}  // namespace orrery::verifying
