#include "sim/bound/pass_walk.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/program/lower/pipeline_transfers.hpp"

namespace orrery {

using lowering::Action;
using lowering::Phase;

namespace {

constexpr Picoseconds unknown = -1;

}  // namespace

ReceiveOrders receive_orders(const lowering::Orders& orders, const StageMap& map, std::uint32_t microbatches) {
  const lowering::Orders lists = lowering::with_transfers(orders, map, microbatches);
  ReceiveOrders out(2 * std::size_t{map.ranks});
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    for (const Action& a : lists[r]) {
      if (a.phase != Phase::receive_hidden && a.phase != Phase::receive_gradient) continue;
      const std::size_t kind = a.phase == Phase::receive_hidden ? 0 : 1;
      out[2 * std::size_t{r} + kind].push_back(map.stage(r, a.chunk) * microbatches + a.microbatch);
    }
  }
  return out;
}

bool PassWalk::meets(const ReceiveOrders& receives, Lanes& from, std::size_t kind, const Message& message) {
  Lanes& to = lanes_[2 * std::size_t{message.to_rank} + kind];
  const std::vector<std::uint32_t>& order = receives[2 * std::size_t{message.to_rank} + kind];
  if (to.received == order.size() || order[to.received] != message.pass) return false;
  ++to.received;
  from.sent_at = to.received_at = std::max({message.ready, from.sent_at, to.received_at}) + message.time;
  come_[kind][message.pass] = to.received_at;
  return true;
}

bool PassWalk::send_waiting(const ReceiveOrders& receives, Lanes& from, std::size_t kind) {
  const std::size_t before = from.sent;
  while (from.sent < from.waiting.size() && meets(receives, from, kind, from.waiting[from.sent])) ++from.sent;
  const bool moved = from.sent != before;
  if (from.sent == from.waiting.size()) from.waiting.clear(), from.sent = 0;
  return moved;
}

const std::vector<Picoseconds>& PassWalk::ends(const lowering::Orders& orders, const ReceiveOrders& receives,
                                               const StageMap& map, const std::vector<StageTimes>& stages,
                                               std::uint32_t microbatches) {
  const std::uint32_t count = map.stages(), last = count - 1;
  const std::size_t m = microbatches;
  now_.assign(map.ranks, 0);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    for (std::uint32_t c = 0; c < map.chunks; ++c) now_[r] += stages[map.stage(r, c)].clear;
  }
  at_.assign(map.ranks, 0);
  // By stage and microbatch.
  for (std::vector<Picoseconds>& come : come_) come.assign(count * m, unknown);
  for (std::size_t k = 0; k < m; ++k) come_[0][k] = come_[1][last * m + k] = 0;
  lanes_.resize(2 * std::size_t{map.ranks});
  for (Lanes& lanes : lanes_) {
    lanes.waiting.clear();
    lanes.sent = lanes.received = 0;
    lanes.sent_at = lanes.received_at = 0;
  }
  ways_.assign(std::size_t{map.ranks} * map.chunks * 2, {});
  weight_.assign(std::size_t{map.ranks} * map.chunks, 0);
  for (std::uint32_t r = 0; r < map.ranks; ++r) {
    for (std::uint32_t c = 0; c < map.chunks; ++c) {
      const std::uint32_t s = map.stage(r, c), pipe = map.pipe(c);
      const StageTimes& t = stages[s];
      const std::size_t at = std::size_t{r} * map.chunks + c;
      weight_[at] = t.weight;
      Way& up = ways_[2 * at];
      up.time = t.forward;
      up.between = t.before_forward;
      up.message = t.send_hidden;
      up.ends = s == last;
      up.to = s + 1;
      Way& down = ways_[2 * at + 1];
      down.time = t.backward;
      down.between = t.before_backward;
      down.message = s > 0 ? stages[s - 1].send_gradient : 0;
      down.ends = s == 0;
      down.to = s - 1;
      for (Way* way : {&up, &down}) {
        way->stage = s;
        if (!way->ends) way->to_rank = map.rank(way->to, pipe);
      }
    }
  }
  // Up and down the ranks, as activations and gradients go.
  bool moved = true;
  for (bool up = true; moved || !up; up = !up) {
    if (up) moved = false;
    for (std::uint32_t i = 0; i < map.ranks; ++i) {
      const std::uint32_t r = up ? i : map.ranks - 1 - i;
      for (const std::size_t kind : {std::size_t{0}, std::size_t{1}}) {
        Lanes& lanes = lanes_[2 * std::size_t{r} + kind];
        if (!lanes.waiting.empty()) moved = send_waiting(receives, lanes, kind) || moved;
      }
      const std::vector<Action>& order = orders[r];
      const std::size_t first = std::size_t{r} * map.chunks;
      std::size_t at = at_[r];
      Picoseconds now = now_[r];
      for (; at < order.size(); ++at) {
        const Action& a = order[at];
        if (a.phase == Phase::weight) {
          now += weight_[first + a.chunk];
          continue;
        }
        const std::size_t kind = a.phase == Phase::forward ? 0 : 1;
        Way& way = ways_[2 * (first + a.chunk) + kind];
        const Picoseconds ready = come_[kind][way.stage * m + a.microbatch];
        if (ready == unknown) break;
        // What stands in front of a chunk's first pass of its kind may have run ahead.
        now = std::max(now + (way.begun ? way.between : 0), ready) + way.time;
        way.begun = true;
        if (way.ends) continue;
        const std::size_t next = way.to * m + a.microbatch;
        if (way.to_rank == r) {
          come_[kind][next] = now;
        } else {
          Lanes& lanes = lanes_[2 * std::size_t{r} + kind];
          const Message message{static_cast<std::uint32_t>(next), way.to_rank, now, way.message};
          if (!lanes.waiting.empty() || !meets(receives, lanes, kind, message)) lanes.waiting.push_back(message);
        }
      }
      moved = moved || at != at_[r];
      at_[r] = at;
      now_[r] = now;
    }
  }
  for (std::uint32_t r = 0; r < map.ranks; ++r) ORRERY_ASSERT(at_[r] == orders[r].size(), r, at_[r]);
  return now_;
}

std::uint64_t walked_peak(const std::vector<Action>& order, const std::vector<PassMemory>& chunks, std::uint64_t held) {
  std::int64_t live = 0, peak = 0;
  // Backward passes that are left of chunks whose weights are kept, and whether these are there.
  const bool keeps = std::any_of(chunks.begin(), chunks.end(), [](const PassMemory& c) { return c.kept_weights > 0; });
  std::vector<std::uint32_t> left;
  std::vector<bool> there;
  if (keeps) {
    left.assign(chunks.size(), 0);
    there.assign(chunks.size(), false);
    for (const Action& a : order) left[a.chunk] += a.phase == Phase::backward ? 1 : 0;
  }
  for (const Action& a : order) {
    const PassMemory& pass = chunks[a.chunk];
    const MemoryChange& change = a.phase == Phase::forward    ? pass.forward
                                 : a.phase == Phase::backward ? pass.backward
                                                              : pass.weight;
    peak = std::max(peak, live + change.peak);
    live += change.net;
    if (!keeps) continue;
    if (a.phase == Phase::forward && !there[a.chunk]) {
      there[a.chunk] = true;
      live += pass.kept_weights;
      peak = std::max(peak, live);
    } else if (a.phase == Phase::backward && --left[a.chunk] == 0) {
      live -= pass.kept_weights;
    }
  }
  return held + static_cast<std::uint64_t>(peak);
}

}  // namespace orrery
