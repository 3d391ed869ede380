#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common.hpp"
#include "cli/serve_text.hpp"

namespace orrery {

/// What `orrery serve` is asked, in the words of the command line.
struct ServeRequest {
  CommonFlags flags;
  std::string model, cluster, engine = "vllm";
  std::uint32_t input = 1024, output = 1024;
  std::optional<std::string> concurrency, rate, ttft, tpot, plan;
  std::string weights = "bf16,fp8", kv = "bf16,fp8";
  std::optional<std::string> prefix_hit, draft_cost, acceptance;
  std::optional<std::uint32_t> draft;
  std::optional<std::string> trace;       ///< a file of requests to play
  std::optional<std::uint32_t> requests;  ///< Poisson requests to play, at the rate
  std::optional<std::uint32_t> seed;      ///< of their arrivals; 1 where it is not given
  bool pools = false;                     ///< the best two pools, too
  std::uint32_t fit = 0;                  ///< requests of the trace that the device's pace is fitted to
  std::optional<std::uint32_t> kv_tokens, step_tokens, most_sequences;
};

/// The question with its files read and checked. Mistakes are an InputError (codes cli.*, serve.*, library.*).
[[nodiscard]] ServingQuestion serving_question(const ServeRequest&);

/// Plays requests on a replica of the best plan, or of the one that --plan names. `progress` gets finished requests of
/// one play, of which --fit makes some thirty; it may throw.
[[nodiscard]] PlayedTrace played_trace(const ServeRequest&, const ServingQuestion&, const ServedPlan&,
                                       const WorkProgress& progress = {});

}  // namespace orrery
