#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/units.hpp"
#include "serve/step_work.hpp"

namespace orrery {

/// What a serving engine adds to the operations of a step. Factors multiply what sim/cost gives, terms are times.
enum class EngineCost : std::uint8_t {
  // Factors.
  weights,          ///< time of reading dense weights, over the device's bandwidth at its efficiency
  experts,          ///< the same of experts, whose loads are unequal
  keys,             ///< the same of keys and values, in blocks
  products,         ///< time of dense products and of attention over prompts
  expert_products,  ///< time of experts' grouped products
  unpacked,         ///< time of reading weights that are widened before they are multiplied
  // Terms.
  layer,          ///< s: of each layer: launches, norms, waits between kernels
  mixture_layer,  ///< s: of each mixture more: routing, sorting of tokens, gathering
  collective,     ///< s: latency of one all-reduce, or of the ways to experts and back, where NVLink joins the ranks
  step,           ///< s: of each step: scheduler, sampler, host
  sequence,       ///< s: of each running sequence in a step: its block table, sampling, detokenizing
  prompt_layer,   ///< s: of each layer, and of each mixture more, of a prompt's first step: launches outside a graph
  prompt,         ///< factor of a prompt's own steps in its time to first token
  burst,          ///< share of the concurrency that a prompt finds waiting before it, in the mean over a run
};
inline constexpr std::size_t engine_cost_count = static_cast<std::size_t>(EngineCost::burst) + 1;
[[nodiscard]] std::string_view name_of(EngineCost);
/// Whether the cost multiplies; otherwise it is a time in seconds that is added.
[[nodiscard]] constexpr bool is_factor(EngineCost c) { return c <= EngineCost::unpacked || c >= EngineCost::prompt; }

struct EngineCosts {
  std::array<double, engine_cost_count> values{1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0};
  [[nodiscard]] double operator[](EngineCost c) const { return values[static_cast<std::size_t>(c)]; }
  [[nodiscard]] double& operator[](EngineCost c) { return values[static_cast<std::size_t>(c)]; }
  friend bool operator==(const EngineCosts&, const EngineCosts&) = default;
};

/// Time of a step.
///
///     T = P (sum over ops max(f p, g b) + L l + M m + C c + x) + (P - 1) hop + s + B q
///
///     p, b  products and bytes of an op (ServingOp)     f, g  the engine's factors for them
///     L, M  layers and mixtures of a stage           l, m  times of each more
///     C     collectives of a stage, c their latency, x what moving their bytes takes
///     s     of each step                             q     of each of the B running sequences
///     P     stages: while one computes a microbatch the others compute other sequences', so a token waits for all
///
/// Source: roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) for each op; the terms are fitted to published
/// measurements (docs/serve-results.md). Leaves out: overlap of messages with products, and of the host with either.
[[nodiscard]] Seconds step_time(const StepWork&, const EngineCosts&);

/// The parts of step_time: reading and multiplying dense weights, experts, keys, prompts' attention, elementwise; then
/// layers' and collectives' terms, and those of the step. They sum to it.
struct StepTimeParts {
  std::array<Seconds, step_part_count> ops{};
  Seconds layers, collectives, host;
};
[[nodiscard]] StepTimeParts step_time_parts(const StepWork&, const EngineCosts&);

}  // namespace orrery
