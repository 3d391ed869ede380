#pragma once

#include <string>

#include "core/program/program.hpp"
#include "exec/run/progress.hpp"

namespace orrery {

/// "op 118 (all_reduce over ranks 0 1, op 7 of layer.forward, layer 3, microbatch 0)":
/// op `id` of the rank's step list, or of its setup list.
[[nodiscard]] std::string op_text(const Program&, Rank, bool setup, std::uint32_t id);

/// "rank 2: step 1, in op 118 (...); completed op 117 (...)"; where lanes run
/// side by side, how far the list is issued and a line for each lane.
[[nodiscard]] std::string describe_rank(const Program&, Rank, const RankProgress&);

}  // namespace orrery
