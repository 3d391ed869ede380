#pragma once

#include "core/base/units.hpp"
#include "serve/engine_costs.hpp"
#include "serve/serving_memory.hpp"
#include "serve/step_work.hpp"

namespace orrery {

/// How an engine makes steps of requests.
struct BatchRule {
  std::uint32_t tokens = 8192;     ///< most tokens of a step of an attention group; longer prompts are cut
  std::uint32_t sequences = 1024;  ///< most running sequences of an attention group
  bool reserves = true;            ///< room for a whole sequence is kept from its start; else blocks as they fill
  friend bool operator==(const BatchRule&, const BatchRule&) = default;
};

/// Requests of equal lengths of which `concurrency` are always under way on a replica.
struct ServingLoad {
  double input = 0.0;   ///< tokens of a prompt
  double output = 0.0;  ///< tokens that are made of it
  double concurrency = 1.0;
  double prefix_hit = 0.0;  ///< share of a prompt whose keys other requests have left
  double draft = 0.0;       ///< tokens that a draft model proposes for each step; 0: none
  double acceptance = 0.0;  ///< chance that a proposed token is taken
  double draft_cost = 0.0;  ///< time of one proposal over a step's
};

/// Tokens that a step with drafts gives a sequence in the mean, (1 - a^(g + 1)) / (1 - a): the run of g proposals that
/// are taken, and one more. Source: Leviathan, Kalman and Matias, "Fast inference from transformers via speculative
/// decoding", ICML 2023, equation 1. Leaves out: that chances differ from token to token.
[[nodiscard]] double tokens_of_step(double draft, double acceptance);

/// The steps that a load makes, before an engine's factors: found once, priced often.
struct LoadWork {
  ServingLoad load;
  StepWork decode;       ///< a step without prompts
  StepWork half;         ///< the same of half as many sequences
  StepWork plain;        ///< of one token each: `decode` without drafts
  StepWork mixed;        ///< a step with a chunk of a prompt on each attention group; alone where outputs are one token
  double chunks = 1.0;   ///< steps that a prompt takes
  double running = 1.0;  ///< sequences under way on the replica
  double groups = 1.0;   ///< attention groups
  double fit = 1.0;      ///< sequences that memory and limits allow
};
/// Empty memory (nothing fits) counts as room for one sequence; `fits()` of the memory tells.
[[nodiscard]] LoadWork load_work(const StepPricer&, const ModelSpec&, const ServingPlan&, const ServingMemory&,
                                 const BatchRule&, const ServingLoad&);

/// What requests meet.
struct ServingTimes {
  Seconds ttft;                    ///< from a request to its first token, in the mean
  Seconds tpot;                    ///< from token to token after it; 0 where requests make one token, which have none
  Seconds decode_step;             ///< a step without prompts; 0 as well
  double prompt_share = 0.0;       ///< of the time, that prompts add to steps
  double tokens_per_second = 0.0;  ///< output tokens of the replica
  double running = 0.0;
  bool saturated = false;  ///< requests wait because memory or limits hold fewer than are under way
};

/// Times under a steady load.
///
///     TPOT = t(D) + (o TPOT / E) k (m - t)          TTFT = W + Q      E = W + (n - 1) TPOT
///     W = r + t / 2 + f k m (1 + u / (2 (1 - u))) + b o k (m - t)      o = (B - 1) / (G P)
///     with drafts t(D) is (t' + g e t) / tokens_of_step, t' of steps of g + 1 tokens each and e the draft's cost
///     D = 1 + (B / (G P) - 1) (n - 1) TPOT / E      Q = (c - B) E / B, where c > B      throughput = B n / E
///
///     t, m  a step without and with a chunk of a prompt     k  chunks of a prompt     n  output tokens
///     c     concurrency                B  sequences under way, min(c, fit)
///     D     sequences of a microbatch of a group that decode beside a request, itself included
///     G, P  attention groups, stages   u  share of the time that prompts add
///     r, f, b  the engine's costs of a first step, of prompts, of bursts
///
/// In steady state a new prompt comes in for each sequence that ends: B TPOT / E a step. A request's own prompt is done
/// before its first token, so it meets those of the B - 1 others; alone, TPOT is t. Prompts follow each other through
/// the stages of a pipeline: one delays others by a P-th of what it takes, which its own TTFT has whole. A prompt waits
/// for half of the step under way; for prompts before it as in a queue of one server with equal service times; and,
/// since clients begin together and fall into step, for a share b of the others. t(D) lies on the line through t(B) and
/// t(B / 2). Both equations are iterated until they hold. Requests of one token have no TPOT, and no step decodes:
///
///     E = max(r + f k m, B k m / (G P))      TTFT = E + Q      P  stages, each of which has a prompt at once
///
/// Source: Little, "A proof for the queuing formula L = lambda W", Operations Research 9(3), 1961 (D, Q, throughput);
/// the wait u / (2 (1 - u)) is Pollaczek's and Khinchine's for M/D/1 (Kleinrock, "Queueing systems", volume 1, 1975).
/// Leaves out: lengths that differ, preemption: `simulate_batching` has them.
[[nodiscard]] ServingTimes serving_times(const LoadWork&, const EngineCosts&);

/// What the first step of a request adds for each of `layers`, mixtures counted twice: launches that no graph holds.
[[nodiscard]] Seconds first_step(double layers, const EngineCosts&);

/// A pool of workers that compute prompts and one of workers that decode, between which keys travel.
struct PoolWork {
  LoadWork prompts;  ///< of one worker; its load's concurrency is the prompts that it computes at once
  LoadWork decode;   ///< of one worker; its load's concurrency is what all requests would make of it
  double prompt_workers = 1.0, decode_workers = 1.0;
  Seconds transfer;  ///< of a prompt's keys
};

/// Times under a steady load on two pools.
///
///     TTFT = W + Q    W = r + f k m + x + t    rate = min(p G / (k m), c / (W + (n - 1) t(D)))
///     D = rate (n - 1) t(D) / d                Q = c / rate - W - (n - 1) t(D)
///
///     m  a step of the pool of prompts, of G groups on each of p workers     x  the transfer     d  decoding workers
///     D  sequences that decode on one of them                                the rest as in serving_times
///
/// Where prompts are the narrower pool, requests wait for it, and fewer decode than are under way.
/// Source: Little, 1961; Zhong et al., "DistServe", OSDI 2024 (the two pools). Leaves out: contention of transfers.
[[nodiscard]] ServingTimes pool_times(const PoolWork&, const EngineCosts&);

}  // namespace orrery
