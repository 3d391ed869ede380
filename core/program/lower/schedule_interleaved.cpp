#include <algorithm>

#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {

Orders schedule_interleaved(const PipelineShape& shape) {
  const std::uint32_t p = shape.ranks, v = shape.chunks, m = shape.microbatches;
  const std::uint32_t actions = m * v;  // of each direction
  // The k-th forward and the k-th backward of every rank: rounds of p microbatches, chunk after chunk.
  const auto microbatch = [&](std::uint32_t k) { return p * (k / (p * v)) + k % p; };
  const auto chunk = [&](std::uint32_t k) { return k % (p * v) / p; };
  Orders orders(p);
  for (std::uint32_t rank = 0; rank < p; ++rank) {
    const std::uint32_t ahead = std::min(actions, 2 * (p - 1 - rank) + (v - 1) * p);
    std::vector<Action>& order = orders[rank];
    order.reserve(2 * std::size_t{actions});
    const auto forward = [&](std::uint32_t k) { order.push_back({Phase::forward, chunk(k), microbatch(k)}); };
    for (std::uint32_t k = 0; k < ahead; ++k) forward(k);
    for (std::uint32_t k = 0; k < actions; ++k) {
      if (ahead + k < actions) forward(ahead + k);
      order.push_back({Phase::backward, v - 1 - chunk(k), microbatch(k)});
    }
  }
  return orders;
}

}  // namespace orrery::lowering
