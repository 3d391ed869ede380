#pragma once

#include <cstdint>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"

namespace orrery {

/// Bytes of the training state, as a Program's ranks hold it between two steps: weights, masters, moments with their
/// scales.
struct CheckpointSize {
  double written = 0.0;          ///< by all ranks together: equal parts once, in turn among the ranks that hold them
  double written_by_rank = 0.0;  ///< largest over ranks
  double written_by_node = 0.0;  ///< largest over nodes
  double held_by_rank = 0.0;     ///< what a rank loads; largest over ranks
  double held_by_node = 0.0;
};

/// Sums the parts over ranks and nodes of `per_node` devices; `placement` as in Plan.
///
///     rank    held = sum of parts of its buffers      written = sum of part / ranks that hold the same part
///
/// A part is the stretch of a flat buffer that lies in one segment of its table. Ranks hold the same part where they
/// differ only along axes that cut neither the segment's tensors nor the buffer. Source: exec/checkpoint writes so;
/// derived, and tested against its lists of parts. Leaves out: padding counts, the tied copy of a word table does
/// not; a few scalars are left out.
[[nodiscard]] CheckpointSize checkpoint_size(const Program&, const std::vector<std::uint32_t>& placement,
                                             std::uint32_t per_node);

}  // namespace orrery
