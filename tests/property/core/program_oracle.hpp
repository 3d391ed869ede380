#pragma once

#include <string>

#include "core/program/program.hpp"

namespace orrery::test {

/// The plainest possible judge of a Program whose ids and shapes are in order. It looks at every rank, every element,
/// and every pair of ops. Returns in a word what is wrong, empty when nothing is. Slow; for tiny Programs only.
[[nodiscard]] std::string brute_force_fault(const Program&);

}  // namespace orrery::test
