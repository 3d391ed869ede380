#include "planner/least_anywhere.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "sim/des/simulate.hpp"

namespace orrery {
namespace {

/// Shapes level by level, from the inside out.
class Shapes {
 public:
  Shapes(std::uint32_t members, const ClusterSpec& cluster, std::size_t most) : cluster_(cluster), most_(most) {
    shape_.members = members;
  }

  std::vector<GroupShape> all() {
    if (shape_.members == 1) return {shape_};
    if (!add_level(0, 1, shape_.members, 1)) return {};
    return std::move(found_);
  }

 private:
  /// `unit` devices hold a unit of the level below; the members are in `units` of those, at least `least` in each.
  bool add_level(std::size_t level, std::uint64_t unit, std::uint32_t units, std::uint32_t least) {
    if (level == cluster_.levels.size()) return true;
    const std::uint64_t size = unit * cluster_.levels[level].size;
    const std::uint64_t exist = cluster_.devices() / size;
    const std::uint32_t p = shape_.members;
    const auto fewest = static_cast<std::uint32_t>((p + size - 1) / size);
    const auto last = static_cast<std::uint32_t>(std::min<std::uint64_t>(units, exist));
    for (std::uint32_t u = fewest; u <= last; ++u) {
      const auto most_least = static_cast<std::uint32_t>(std::min<std::uint64_t>(p / u, size));
      for (std::uint32_t l = u == 1 ? p : least; l <= most_least; ++l) {
        shape_.level[shape_.levels++] = {u, l};
        const bool goes_on = u == 1 ? take() : add_level(level + 1, size, u, l);
        shape_.level[--shape_.levels] = {};
        if (!goes_on) return false;
      }
    }
    return true;
  }
  bool take() {
    found_.push_back(shape_);
    return found_.size() <= most_;
  }

  const ClusterSpec& cluster_;
  std::size_t most_;
  GroupShape shape_;
  std::vector<GroupShape> found_;
};

/// Prices of collectives where they lie best.
class Cheapest {
 public:
  Cheapest(const Program& program, const CostModel& costs)
      : program_(program), costs_(costs), choices_(token_choices(program)) {}

  Picoseconds price(const Block& block, const Op& op) {
    const auto& c = std::get<Collective>(op.action);
    const Group& group = program_[c.group];
    const std::uint32_t members = c.width != 0 ? c.width : group_size(group, program_.mesh);
    const double bytes = costs_.sent_share(op) * static_cast<double>(payload_bytes(program_, block, op));
    const bool tokens = exchanges_tokens(program_, c) && costs_.kinds() == 1;
    auto& known = prices_[{c.kind, bytes, members, tokens}];
    if (!known) {
      std::optional<Seconds> best;
      for (const GroupShape& s : shapes_of(members)) {
        const Bytes sent = Bytes::of(bytes);
        const Seconds time = tokens ? costs_.exchange(sent, s, choices_) : costs_.choice(c.kind, sent, s).time;
        if (!best || time < *best) best = time;
      }
      known = best.value_or(Seconds{});
    }
    return picoseconds(costs_.collective_factor(group.axes) * *known);
  }

 private:
  const std::vector<GroupShape>& shapes_of(std::uint32_t members) {
    const auto [at, is_new] = shapes_.try_emplace(members);
    if (is_new) at->second = possible_shapes(members, costs_.cluster());
    return at->second;
  }

  const Program& program_;
  const CostModel& costs_;
  TokenChoices choices_;
  std::map<std::uint32_t, std::vector<GroupShape>> shapes_;
  std::map<std::tuple<Collective::Kind, double, std::uint32_t, bool>, std::optional<Seconds>> prices_;
};

}  // namespace

std::vector<GroupShape> possible_shapes(std::uint32_t members, const ClusterSpec& cluster, std::size_t most) {
  return Shapes(members, cluster, most).all();
}

Seconds least_anywhere(const Program& program, const CostModel& costs) {
  Prices prices;
  price(prices, program, costs);
  take_fastest(prices);
  prices.core_count = 0;  // ranks that wait for a core are no faster
  Cheapest cheapest(program, costs);
  std::vector<bool> seen(program.blocks.size(), false);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    for (const BlockId b : prices.blocks_of(c)) {
      const Block& block = program[b];
      for (std::size_t i = 0; i < block.ops.size(); ++i) {
        const Op& op = block.ops[i];
        if (std::holds_alternative<Collective>(op.action) && !seen[index(b)]) {
          prices.op[prices.first_op[index(b)] + i] = cheapest.price(block, op);
        } else if (op.lane.kind == LaneKind::compute && std::holds_alternative<Compute>(op.action) && !seen[index(b)]) {
          prices.op[prices.first_op[index(b)] + i] = picoseconds(costs.compute(program, block, op));
        }
        const auto* exchange = std::get_if<Exchange>(&op.action);
        if (exchange == nullptr) continue;
        for (std::uint32_t t = exchange->transfers.first; t < exchange->transfers.first + exchange->transfers.count;
             ++t) {
          const Transfer& transfer = block.transfers[t];
          if (!transfer.send) continue;
          const View& view = block.views[op.views.first + transfer.view];
          const auto bytes = Bytes::of(static_cast<double>(view.count * size_of(program[view.buffer].dtype)));
          Picoseconds& sent = prices.transfer[std::size_t{c} * prices.transfers + prices.first_transfer[index(b)] + t];
          for (std::uint32_t l = 0; l < costs.cluster().levels.size(); ++l) {
            sent = std::min(sent, picoseconds(costs.transfer(bytes, 1U << l)));
          }
        }
      }
      seen[index(b)] = true;
    }
  }
  std::int64_t end = 0;
  for (const RankTrace& r : simulate_times(program, prices, program_classes(program)).trace.ranks) {
    for (const Span& s : r.spans) end = std::max(end, s.end);
  }
  return Seconds::of(static_cast<double>(end) * 1e-12);
}

}  // namespace orrery
