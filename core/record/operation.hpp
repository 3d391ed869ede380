#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/program/program.hpp"

namespace orrery {

/// The kind of an operation as reports and comparisons list it. Every kernel kind is one; so is each kind of collective
/// on each set of pipeline, data and tensor, on each other axis alone, and on several axes with others among them; so
/// are exchanges and copies. A dense number below operation_count, so that sums over a Program need no maps (and no
/// room for all 2^9 sets).
enum class Operation : std::uint8_t {};

inline constexpr std::size_t collective_kind_count = static_cast<std::size_t>(Collective::Kind::barrier) + 1;
inline constexpr std::size_t axis_set_count = 8 + (axis_count - 3) + 1;
inline constexpr std::size_t operation_count = kernel_kind_count + collective_kind_count * axis_set_count + 2;

inline constexpr Operation exchange_operation{static_cast<std::uint8_t>(operation_count - 2)};
inline constexpr Operation copy_operation{static_cast<std::uint8_t>(operation_count - 1)};

/// Kind of a Compute, Collective, Exchange or Copy.  Alloc and Free take no time
/// and have none: requires is_timed(op).
[[nodiscard]] Operation operation_of(const Program&, const Block&, const Op&);

/// Whether the op occupies a lane (all but Alloc and Free).
[[nodiscard]] bool is_timed(const Op&);
[[nodiscard]] bool is_communication(Operation);
/// The same for a name, as reports list operations.
[[nodiscard]] bool is_communication(std::string_view name);

/// "gemm", "all_reduce tensor", "all_reduce pipeline+data", "all_reduce several axes", "exchange", "copy".
[[nodiscard]] std::string name_of(Operation);

}  // namespace orrery
