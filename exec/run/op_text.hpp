#pragma once

#include <string>

#include "core/program/program.hpp"
#include "exec/run/progress.hpp"

namespace orrery {

/// The text of op `id` in the rank's step list, or in its setup list: "op 118 (all_reduce over ranks 0 1, op 7 of
/// layer.forward, layer 3, microbatch 0)".
[[nodiscard]] std::string op_text(const Program&, Rank, bool setup, std::uint32_t id);

/// The text "rank 2: step 1, in op 118 (...); completed op 117 (...)"; where lanes run side by side, it says how far
/// the list is issued and has a line for each lane.
[[nodiscard]] std::string describe_rank(const Program&, Rank, const RankProgress&);

}  // namespace orrery
