#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/units.hpp"
#include "core/base/work_progress.hpp"
#include "serve/request_trace.hpp"
#include "serve/serving_load.hpp"

namespace orrery {

/// What an engine is told of its batches, and what it has room for.
struct BatchingLimits {
  std::uint32_t step_tokens = 8192;  ///< max_num_batched_tokens
  std::uint32_t sequences = 256;     ///< max_num_seqs
  std::uint64_t blocks = 1;          ///< of keys and values, for each attention group
  std::uint32_t block_tokens = 16;
  std::uint32_t groups = 1;  ///< attention groups; requests go to the one with the fewest
  bool reserves = false;     ///< blocks of the whole output are taken at admission
  Seconds entry{};           ///< from a request's arrival until the engine may schedule it (first_step)
};

/// What came of one request.
struct RequestTimes {
  Seconds first_token, last_token;  ///< on the clock of its arrival
  std::uint32_t preemptions = 0;
  friend bool operator==(const RequestTimes&, const RequestTimes&) = default;
};

struct BatchingResult {
  std::vector<RequestTimes> requests;  ///< in the order of the trace
  std::uint64_t steps = 0, preemptions = 0;
  Seconds end;
  std::uint64_t most_blocks = 0;  ///< in use at once in a group
};

/// Continuous batching, one event for each step of the engine.
///
/// A step computes one token for each running sequence whose prompt is done, in order of admission, and as many tokens
/// of unfinished prompts as `step_tokens` leaves. A sequence takes a block when its tokens fill the last one; where
/// none is left the sequence admitted last gives all of its blocks back and waits, first in line, to compute all its
/// tokens again. Then, in a step without such a loss, waiting requests are admitted in order while sequences, tokens
/// and blocks for their whole prompts are left. A step that ends gives each sequence whose tokens are all computed its
/// next one. Attention groups share their steps: the busiest sets the time.
///
/// Source: the scheduler of vLLM's V1 engine as its documentation describes it (one budget of tokens, chunked prefill,
/// preemption by recomputation); Kwon et al., SOSP 2023; Yu et al., "Orca", OSDI 2022 (iteration-level scheduling).
/// Leaves out: prefixes shared between requests, priorities, swapping, the time that a token takes to its client.
///
/// `step` gives a step's time. A request that no empty engine could hold is a caller's mistake (holds()). `progress`
/// gets finished requests.
[[nodiscard]] BatchingResult simulate_batching(const std::vector<ServedRequest>&, const BatchingLimits&,
                                               const std::function<Seconds(const StepShape&)>& step,
                                               const WorkProgress& progress = {});

/// Whether an empty engine has blocks for the whole of the request.
[[nodiscard]] bool holds(const BatchingLimits&, const ServedRequest&);

/// Times of steps of one replica, found once for each number of sequences and each 64 keys, and between them on a line;
/// steps with prompts one by one. `pace` multiplies all of them: the device's own, where its datasheet says too much or
/// too little.
class StepTimes {
 public:
  StepTimes(StepPricer pricer, EngineCosts costs, double pace = 1.0);
  [[nodiscard]] Seconds operator()(const StepShape&);

 private:
  [[nodiscard]] Seconds time(const StepShape&) const;
  [[nodiscard]] double decode(std::uint32_t sequences, std::uint32_t keys_64);
  StepPricer pricer_;
  EngineCosts costs_;
  double pace_;
  std::vector<std::vector<double>> known_;  ///< seconds by sequences and keys; below 0: not yet
};

}  // namespace orrery
