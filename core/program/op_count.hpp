#pragma once

#include <cstdint>
#include <span>

#include "core/program/program.hpp"

namespace orrery {

/// Ops of a list of slots, each block counted as often as it runs: what for_each_op visits.
[[nodiscard]] std::uint64_t op_count(const Program&, std::span<const Slot> slots);

}  // namespace orrery
