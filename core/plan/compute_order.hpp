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
/// As text it has the notation of the field: a line per rank, with actions STAGE KIND MICROBATCH, where KIND is one of
///
///     F  forward                    B  backward, all of it
///     I  backward, input gradient   W  backward, weight gradient
///
///     orrery-order 1
///     # 1F1B of two ranks and two microbatches
///     0F0 0F1 0B0 0B1
///     1F0 1B0 1F1 1B1
///
/// Stages are virtual ones, in model order. The stages that stand in one line say how stages lie on ranks: in a loop,
/// in a V, or each stage on two ranks, one of which runs the first half of the microbatches and the opposite one the
/// second half. Where an I or W occurs anywhere, a B means I followed at once by W.
struct ComputeOrder {
  StagePlacement placement = StagePlacement::loop;
  std::uint32_t chunks = 1, microbatches = 1;  ///< chunks as in a plan: 1 where every stage is on two ranks
  std::vector<std::vector<OrderedAction>> ranks;
  friend bool operator==(const ComputeOrder&, const ComputeOrder&) = default;
};

inline constexpr std::uint64_t order_schema = 1;

/// Reads such a text; `file` is the name shown in messages, empty where the text is in no file. An order that is
/// returned can run: each microbatch goes forward once through every stage, later backward once, and where backward is
/// split its weight gradients come later still. No two ranks wait for each other, whatever actions cost. The result is
/// empty otherwise, and the diagnostics hold every mistake with its place. Codes: order.*
[[nodiscard]] std::optional<ComputeOrder> read_order(std::string text, const std::string& file, Diagnostics&);

/// Text that reads back equal.
[[nodiscard]] std::string write_order(const ComputeOrder&);
/// The lines of the order alone, one for each rank.
[[nodiscard]] std::vector<std::string> order_lines(const ComputeOrder&);

/// Finds the mistakes of an order that was never text, in the words of read_order.
[[nodiscard]] Diagnostics mistakes_of(const ComputeOrder&);

}  // namespace orrery
