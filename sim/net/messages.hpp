#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/cost/cost_model.hpp"
#include "sim/net/fabric.hpp"

namespace orrery {

/// One message of a collective between two members of its group.  It starts
/// when its sender and its receiver have ended all their messages of lower
/// steps; members that do not meet do not wait for each other.
struct CollectiveMessage {
  std::uint32_t step = 0;
  std::uint32_t from = 0, to = 0;  ///< members, 0 to p - 1
  Bytes payload;
  friend bool operator==(const CollectiveMessage&, const CollectiveMessage&) = default;
};
using Messages = std::vector<CollectiveMessage>;

// Collectives over p members as messages.  `payload` is what every member has
// before (all-reduce, reduce-scatter, broadcast, all-to-all) or after
// (all-gather); docs/formulas.md has the times on links of one kind.

/// p - 1 steps to the next member, payload / p each.
[[nodiscard]] Messages ring_reduce_scatter_messages(std::uint32_t p, Bytes payload);
[[nodiscard]] Messages ring_all_gather_messages(std::uint32_t p, Bytes payload);
[[nodiscard]] Messages ring_all_reduce_messages(std::uint32_t p, Bytes payload);
/// Pairs at distance 1, 2, 4, ... exchange everything.  Requires p to be a power of two.
[[nodiscard]] Messages recursive_doubling_messages(std::uint32_t p, Bytes payload);
/// Reduce-scatter by halves, then all-gather by doubles.  Requires p to be a power of two.
[[nodiscard]] Messages halving_doubling_messages(std::uint32_t p, Bytes payload);
/// From member 0, whoever has it sends it on.
[[nodiscard]] Messages binomial_broadcast_messages(std::uint32_t p, Bytes payload);
/// The same backwards: to member 0.
[[nodiscard]] Messages binomial_reduce_messages(std::uint32_t p, Bytes payload);
/// Along the members one after another, in so many pieces.
[[nodiscard]] Messages pipelined_broadcast_messages(std::uint32_t p, Bytes payload, std::uint32_t pieces);
/// Step s: every member sends payload / p to the one s + 1 further on.
[[nodiscard]] Messages pairwise_all_to_all_messages(std::uint32_t p, Bytes payload);
/// All-reduce over p / inner groups of `inner` neighbours: reduce-scatter inside,
/// rings between members of one place in their groups, all-gather inside.
/// Requires that inner divides p.
[[nodiscard]] Messages hierarchical_all_reduce_messages(std::uint32_t p, std::uint32_t inner, Bytes payload);

/// A collective and the GPUs that are its members.
struct Job {
  std::vector<std::uint32_t> gpus;
  Messages messages;
};

/// What came of jobs that started together.
struct JobTimes {
  std::vector<Picoseconds> ends;  ///< of every job
  std::vector<Bytes> carried;     ///< of every link
};

/// Sends all messages of all jobs over the fabric.
[[nodiscard]] JobTimes run_jobs(const Fabric&, const std::vector<Job>&, PathRule, std::uint64_t seed);

/// Times of one all-reduce by every algorithm that its group allows, at one payload.
struct AllReduceTimes {
  struct Entry {
    std::string algorithm;
    Picoseconds time = 0;
  };
  Bytes payload;
  std::vector<Entry> entries;  ///< ring, recursive doubling, halving and doubling, hierarchical
};

/// All-reduce over `gpus`, the fabric to itself, at each payload: which
/// algorithm is fastest at which size.  Recursive ones where the group has a
/// power of two, hierarchical where whole nodes of several GPUs follow each other in it.
[[nodiscard]] std::vector<AllReduceTimes> compare_all_reduces(const Fabric&, const std::vector<std::uint32_t>& gpus,
                                                              const std::vector<Bytes>& payloads, PathRule);
/// A table of them, the fastest of each row with a star.
[[nodiscard]] std::string crossover_text(const std::vector<AllReduceTimes>&);

}  // namespace orrery
