#pragma once

#include <cstdint>
#include <vector>

namespace orrery {

/// How far below the balanced share the sizes of the first and the last stage may go.
inline constexpr std::uint32_t split_reach = 8;

/// Stage splits of `layers` over `stages`, uneven in the first and the last stage. With q = layers / stages (rounded
/// down) and r the rest, first and last each hold from max(1, q - reach) to q + min(1, r) layers. The stages between
/// share the remainder as equally as possible, larger shares first. Every such split in which each stage holds at least
/// one layer is listed. The splits ascend in (first, last). With two stages, the first holds from max(1, q - reach) to
/// q + r + reach and the last the remainder, at least 1. Requires 1 <= stages <= layers.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> uneven_stages(std::uint64_t layers, std::uint32_t stages,
                                                                    std::uint32_t reach);

}  // namespace orrery
