#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"

namespace orrery {

/// A schedule written down: what every pipeline rank computes, in order.
///
/// As text, the notation of the field: a line per rank, on it actions STAGE KIND
/// MICROBATCH with KIND one of
///
///     F  forward                    B  backward, all of it
///     I  backward, input gradient   W  backward, weight gradient
///
///     orrery-order 1
///     # 1F1B of two ranks and two microbatches
///     0F0 0F1 0B0 0B1
///     1F0 1B0 1F1 1B1
///
/// Stages are virtual ones, in model order.  Which of them stand in a line says
/// how they lie on ranks: a loop, a V, or each stage on two ranks, one of which runs
/// the first half of the microbatches and the opposite one the second.  Where an I or W occurs anywhere, a B
/// means its I and right after it its W.
struct ComputeOrder {
  StagePlacement placement = StagePlacement::loop;
  std::uint32_t chunks = 1, microbatches = 1;  ///< chunks as in a plan: 1 where every stage is on two ranks
  std::vector<std::vector<OrderedAction>> ranks;
  friend bool operator==(const ComputeOrder&, const ComputeOrder&) = default;
};

inline constexpr std::uint64_t order_schema = 1;

/// Reads such a text; `file` is the name shown in messages, empty for one that
/// is no file.  What is returned runs: each microbatch goes forward once through
/// every stage, later backward once, and where backward is split its weight
/// gradients later still; and no rank waits for one that waits for it, whatever
/// actions cost.  Otherwise empty, and every mistake is in the diagnostics with
/// its place.  Codes: order.*
[[nodiscard]] std::optional<ComputeOrder> read_order(std::string text, const std::string& file, Diagnostics&);

/// Text that reads back equal.
[[nodiscard]] std::string write_order(const ComputeOrder&);
/// Its lines alone, one for each rank.
[[nodiscard]] std::vector<std::string> order_lines(const ComputeOrder&);

/// What is wrong with an order that was never text, as read_order says it.
[[nodiscard]] Diagnostics mistakes_of(const ComputeOrder&);

}  // namespace orrery
