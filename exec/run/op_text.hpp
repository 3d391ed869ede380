#pragma once

#include <string>

#include "core/program/program.hpp"
#include "exec/run/rank_runner.hpp"

namespace orrery {

/// "op 118 (all_reduce over ranks 0 1, op 7 of layer.forward, layer 3, microbatch 0)":
/// op `id` of the rank's step list, or of its setup list.
[[nodiscard]] std::string op_text(const Program&, Rank, bool setup, std::uint32_t id);

/// The op that the rank is in; "no op" between lists.
[[nodiscard]] std::string current_op(const Program&, Rank, const Progress&);

/// "rank 2: step 1, in op 118 (...); completed op 117 (...)".
[[nodiscard]] std::string describe_rank(const Program&, Rank, const Progress&);

}  // namespace orrery
