#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/units.hpp"

namespace orrery {

/// One request of a trace, with what was measured of it where the trace says so.
struct ServedRequest {
  Seconds arrival;  ///< after the first of the trace
  std::uint32_t input = 1, output = 1;
  std::optional<Seconds> first_token, last_token;  ///< measured, on the clock of `arrival`
  friend bool operator==(const ServedRequest&, const ServedRequest&) = default;
};

/// Reads requests in order of their arrival: JSON lines, or CSV with a first row of names. Names of one request's
/// figures, of which the first that stands there counts:
///
///     arrival  arrival, arrival_time, arrived_at: seconds on any clock
///     input    input, input_toks, num_prefill_tokens        output  output, output_toks, num_decode_tokens
///     and in JSON lines  queued_ts, first_token_ts, last_token_ts: seconds on another clock, together
///
/// Codes: file.open, serve.trace (with the line): what is no request; an empty file.
[[nodiscard]] std::optional<std::vector<ServedRequest>> read_trace(const std::filesystem::path&, Diagnostics&);
[[nodiscard]] std::optional<std::vector<ServedRequest>> parse_trace(std::string text, std::string name, Diagnostics&);

/// Requests of equal lengths that arrive as a Poisson process: gaps are -ln(1 - u) / rate, u uniform and keyed by seed
/// and number. Source: Kleinrock, "Queueing systems", volume 1, 1975, 2.4.
[[nodiscard]] std::vector<ServedRequest> poisson_requests(std::uint32_t count, double per_second, std::uint32_t input,
                                                          std::uint32_t output, std::uint64_t seed);

}  // namespace orrery
