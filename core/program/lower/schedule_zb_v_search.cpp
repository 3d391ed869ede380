#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <tuple>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/schedule.hpp"

namespace orrery::lowering {
namespace {

using Time = std::int64_t;
constexpr Time never = std::numeric_limits<Time>::max();

/// Choices of one try.
struct Taste {
  bool forward_first = false;  ///< before input gradients
  bool low_forward = false;    ///< when two forwards could run, prefer the one of chunk 0
  bool low_backward = false;
  bool keeps_room = false;  ///< chunk 0 leaves room for one chunk that comes back up
  Time patience = 0;        ///< how long a weight gradient may delay an action that is known to come
};

/// Makes an order by running it. The rank that can do something first does what its taste prefers; weight gradients
/// fill the gaps.
class Run {
 public:
  Run(const PipelineShape& shape, const Taste& taste)
      : shape_(shape),
        taste_(taste),
        map_{shape.ranks, 2, StagePlacement::v},
        forward_(std::size_t{map_.stages()} * shape.microbatches, never),
        backward_(forward_),
        ranks_(shape.ranks),
        next_(shape.ranks),
        orders_(shape.ranks) {
    for (auto& order : orders_) order.reserve(6 * std::size_t{shape.microbatches});
  }

  [[nodiscard]] std::optional<Orders> orders() {
    for (std::uint32_t r = 0; r < shape_.ranks; ++r) next_[r] = earliest(r);
    for (std::size_t left = 6 * std::size_t{shape_.ranks} * shape_.microbatches; left > 0;) {
      const auto soonest = std::min_element(next_.begin(), next_.end());
      if (*soonest == never) return std::nullopt;  // every rank waits for memory
      const auto rank = static_cast<std::uint32_t>(soonest - next_.begin());
      left -= step(rank, *soonest) ? 1 : 0;
      // What a rank does next depends on its own actions and on what its neighbours hand over.
      const std::uint32_t last = std::min(rank + 1, shape_.ranks - 1);
      for (std::uint32_t r = rank > 0 ? rank - 1 : 0; r <= last; ++r) next_[r] = earliest(r);
    }
    return std::move(orders_);
  }

 private:
  struct RankState {
    Time free = 0;
    std::uint32_t forwards[2] = {}, backwards[2] = {};
    std::uint32_t in_flight = 0;
    std::deque<std::pair<std::uint32_t, std::uint32_t>> waiting;  ///< chunk, microbatch
  };

  [[nodiscard]] Time& at(std::vector<Time>& ends, std::uint32_t stage, std::uint32_t m) {
    return ends[std::size_t{stage} * shape_.microbatches + m];
  }
  /// When the output of stage `of` reaches the rank.
  [[nodiscard]] Time arrival(std::vector<Time>& ends, std::uint32_t of, std::uint32_t m, std::uint32_t rank) {
    const Time end = at(ends, of, m);
    return end == never || map_.rank(of) == rank ? end : end + Time{shape_.times.message};
  }
  [[nodiscard]] Time forward_ready(std::uint32_t r, std::uint32_t c) {
    const RankState& s = ranks_[r];
    const std::uint32_t m = s.forwards[c];
    // At most 2 p chunks are in flight. One whose weight gradient waits counts as a half, and two more such chunks fit.
    const std::uint32_t limit = 2 * shape_.ranks - (c == 0 && taste_.keeps_room ? 1 : 0);
    if (m == shape_.microbatches || s.in_flight >= limit ||
        2 * (s.in_flight + 1) + s.waiting.size() > 4 * std::size_t{shape_.ranks} + 4) {
      return never;
    }
    const std::uint32_t stage = map_.stage(r, c);
    return stage == 0 ? 0 : arrival(forward_, stage - 1, m, r);
  }
  [[nodiscard]] Time backward_ready(std::uint32_t r, std::uint32_t c) {
    const std::uint32_t m = ranks_[r].backwards[c];
    if (m == shape_.microbatches) return never;
    const std::uint32_t stage = map_.stage(r, c);
    const Time own = at(forward_, stage, m);
    if (own == never || stage + 1 == map_.stages()) return own;
    return std::max(own, arrival(backward_, stage + 1, m, r));
  }
  [[nodiscard]] Time earliest(std::uint32_t r) {
    const RankState& s = ranks_[r];
    Time t = s.waiting.empty() ? never : s.free;
    for (std::uint32_t c = 0; c < 2; ++c) {
      for (const Time ready : {forward_ready(r, c), backward_ready(r, c)}) {
        if (ready != never) t = std::min(t, std::max(ready, s.free));
      }
    }
    return t;
  }

  bool run_forward(std::uint32_t r, Time now) {
    for (const std::uint32_t c : {taste_.low_forward ? 0U : 1U, taste_.low_forward ? 1U : 0U}) {
      if (forward_ready(r, c) > now) continue;
      RankState& s = ranks_[r];
      const std::uint32_t m = s.forwards[c]++;
      s.free = at(forward_, map_.stage(r, c), m) = now + shape_.times.forward;
      ++s.in_flight;
      orders_[r].push_back({Phase::forward, c, m});
      return true;
    }
    return false;
  }
  bool run_backward(std::uint32_t r, Time now) {
    for (const std::uint32_t c : {taste_.low_backward ? 0U : 1U, taste_.low_backward ? 1U : 0U}) {
      if (backward_ready(r, c) > now) continue;
      RankState& s = ranks_[r];
      const std::uint32_t m = s.backwards[c]++;
      s.free = at(backward_, map_.stage(r, c), m) = now + shape_.times.input_gradient;
      --s.in_flight;
      s.waiting.emplace_back(c, m);
      orders_[r].push_back({Phase::backward, c, m});
      return true;
    }
    return false;
  }

  /// Whether the rank did something; else it waits for what comes next.
  bool step(std::uint32_t r, Time now) {
    if (taste_.forward_first ? run_forward(r, now) || run_backward(r, now)
                             : run_backward(r, now) || run_forward(r, now)) {
      return true;
    }
    RankState& s = ranks_[r];
    Time next = never;
    for (std::uint32_t c = 0; c < 2; ++c) next = std::min({next, forward_ready(r, c), backward_ready(r, c)});
    if (next != never && now + shape_.times.weight_gradient > next + taste_.patience) {
      s.free = next;
      return false;
    }
    orders_[r].push_back({Phase::weight, s.waiting.front().first, s.waiting.front().second});
    s.waiting.pop_front();
    s.free = now + shape_.times.weight_gradient;
    return true;
  }

  const PipelineShape& shape_;
  Taste taste_;
  StageMap map_;
  std::vector<Time> forward_, backward_;  ///< ends, by stage and microbatch
  std::vector<RankState> ranks_;
  std::vector<Time> next_;  ///< when each rank can act again
  Orders orders_;
};

}  // namespace

OrderTimes times_of(const Orders& orders, const PipelineShape& shape, const StageMap& map) {
  const ActionTimes& t = shape.times;
  std::vector<Time> forward(std::size_t{map.stages()} * shape.microbatches, never), backward(forward);
  std::vector<std::size_t> at(orders.size());
  std::vector<Time> free(orders.size()), first(orders.size(), never);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::uint32_t r = 0; r < orders.size(); ++r) {
      for (; at[r] < orders[r].size(); ++at[r], moved = true) {
        const Action& a = orders[r][at[r]];
        const std::uint32_t stage = map.stage(r, a.chunk);
        const auto arrival = [&](const std::vector<Time>& ends, std::uint32_t of) {
          const Time end = ends[std::size_t{of} * shape.microbatches + a.microbatch];
          return end == never || map.rank(of) == r ? end : end + Time{t.message};
        };
        Time ready = 0, takes = t.weight_gradient;
        if (a.phase == Phase::forward) {
          takes = t.forward;
          if (stage > 0) ready = arrival(forward, stage - 1);
        } else if (a.phase == Phase::backward) {
          takes = t.input_gradient;
          if (stage + 1 < map.stages()) ready = arrival(backward, stage + 1);
        }
        if (ready == never) break;
        const Time start = std::max(ready, free[r]);
        if (first[r] == never) first[r] = start;
        free[r] = start + takes;
        const std::size_t where = std::size_t{stage} * shape.microbatches + a.microbatch;
        if (a.phase == Phase::forward) forward[where] = free[r];
        if (a.phase == Phase::backward) backward[where] = free[r];
      }
    }
  }
  OrderTimes out;
  for (std::size_t r = 0; r < orders.size(); ++r) {
    if (orders[r].empty()) continue;
    out.makespan = std::max(out.makespan, free[r]);
    out.span = std::max(out.span, free[r] - first[r]);
  }
  return out;
}

Orders search_zb_v(const PipelineShape& shape, Orders best) {
  const StageMap map{shape.ranks, 2, StagePlacement::v};
  const ActionTimes& t = shape.times;
  const auto better = [](const OrderTimes& a, const OrderTimes& b) {
    return std::tie(a.span, a.makespan) < std::tie(b.span, b.makespan);
  };
  OrderTimes least = times_of(best, shape, map);
  const Time work = 2 * Time{shape.microbatches} * (Time{t.forward} + t.input_gradient + t.weight_gradient);
  for (unsigned taste = 0; taste < 16; ++taste) {
    for (const Time quarters : {0, 1, 2, 4}) {
      if (least.span == work) return best;  // nobody waits: no order is shorter
      const Taste tried{(taste & 1) != 0, (taste & 2) != 0, (taste & 4) != 0, (taste & 8) != 0,
                        quarters * t.weight_gradient / 4};
      std::optional<Orders> orders = Run(shape, tried).orders();
      if (!orders) continue;
      const OrderTimes times = times_of(*orders, shape, map);
      if (!better(times, least)) continue;
      least = times;
      best = *std::move(orders);
    }
  }
  return best;
}

}  // namespace orrery::lowering
