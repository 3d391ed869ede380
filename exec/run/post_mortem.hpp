#pragma once

#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/program/program.hpp"
#include "exec/run/launch.hpp"
#include "exec/run/recorder.hpp"

namespace orrery {

// Texts about a process that failed.
[[nodiscard]] std::string killed_text(Rank, int signal);
[[nodiscard]] std::string left_text(Rank, int status);
[[nodiscard]] std::string gone_text(Rank, int process);
/// Whether a process of this host has ended, whether or not its parent has collected it.
[[nodiscard]] bool process_is_gone(int process);
/// Asks the system for the state of the process, to say why it is silent.
[[nodiscard]] std::string silent_text(Rank, Seconds limit, int process);

/// For a run in which ranks have waited too long: the rank that they wait for, directly or through others, and that
/// waits for nobody itself; where all wait, the first that gave up.
[[nodiscard]] RankFailure stalled_rank(const std::vector<Recording>&);

/// The failure, the op in which its rank was, and a line for every rank: step, op with group, the rank that it waits
/// for, and the last ops that it completed.
[[nodiscard]] std::string post_mortem_text(const Program&, const RankFailure&, const std::vector<Recording>&);

/// A line of the above: "rank 2: step 1, in op 118 (...), waits for rank 3; completed op 117 (...), 116, 115".
[[nodiscard]] std::string recording_text(const Program&, const Recording&);

}  // namespace orrery
