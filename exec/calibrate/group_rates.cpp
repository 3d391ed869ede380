#include "exec/calibrate/group_rates.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t smallest = 1024;

bool is_measured(Collective::Kind kind) {
  return kind != Collective::Kind::permute && kind != Collective::Kind::barrier;
}

/// The kinds of collectives on each group, in one order on all ranks.
std::set<std::pair<GroupId, Collective::Kind>> uses_of(const Program& program) {
  std::set<std::pair<GroupId, Collective::Kind>> found;
  for (const Block& block : program.blocks) {
    for (const Op& op : block.ops) {
      const auto* c = std::get_if<Collective>(&op.action);
      if (c == nullptr || !is_measured(c->kind) || group_size(program[c->group], program.mesh) < 2) continue;
      found.insert({c->group, c->kind});
    }
  }
  return found;
}

/// The vectors of a collective: the whole and, where it has one, the part.
struct Vectors {
  BufferId whole, other;
  std::uint64_t whole_count, other_count;
};

Block block_of(GroupId group, Collective::Kind kind, const Vectors& v, const std::string& name) {
  Block b;
  b.name = name;
  Collective c;
  c.kind = kind;
  c.group = group;
  using ViewUse = View::Use;
  switch (kind) {
    case Collective::Kind::all_gather:
      b.views = {{v.other, 0, v.other_count, ViewUse::read, 0, {}}, {v.whole, 0, v.whole_count, ViewUse::write, 0, {}}};
      break;
    case Collective::Kind::reduce_scatter:
    case Collective::Kind::all_to_all:
      b.views = {{v.whole, 0, v.whole_count, ViewUse::read, 0, {}}, {v.other, 0, v.other_count, ViewUse::write, 0, {}}};
      break;
    default: b.views = {{v.whole, 0, v.whole_count, ViewUse::accumulate, 0, {}}};
  }
  // All collectives are on one lane: side by side they would take each other's bandwidth.
  b.ops.push_back({c, {LaneKind::collective, all_lane}, {}, {0, static_cast<std::uint32_t>(b.views.size())}});
  return b;
}

Block memory_block(const std::vector<BufferId>& buffers, bool alloc, const std::string& name) {
  Block b;
  b.name = name;
  for (const BufferId id : buffers) {
    if (alloc) {
      b.ops.push_back({Alloc{id, 0}, {}, {}, {}});
    } else {
      b.ops.push_back({Free{id, 0}, {}, {}, {}});
    }
  }
  return b;
}

}  // namespace

Program group_program(const Program& of, std::uint64_t largest, std::uint32_t times) {
  Program out;
  out.mesh = of.mesh;
  out.layers = of.layers;
  out.microbatches = of.microbatches;
  out.groups = of.groups;
  out.class_axes = of.class_axes;
  out.classes.resize(of.classes.size());
  const auto buffer = [&](const std::string& name, std::uint64_t count) {
    Buffer b;
    b.name = name;
    b.count = count;
    out.buffers.push_back(b);
    return BufferId{static_cast<std::uint32_t>(out.buffers.size() - 1)};
  };
  const auto add = [&](Block block, std::uint32_t repeat, const Group& group) {
    out.blocks.push_back(std::move(block));
    const BlockId id{static_cast<std::uint32_t>(out.blocks.size() - 1)};
    for (std::uint32_t c = 0; c < out.classes.size(); ++c) {
      if (peer_of(group, out.mesh, representative(of, c))) out.classes[c].step.push_back({id, 0, 0, repeat, 0, 0});
    }
  };
  for (const auto& [id, kind] : uses_of(of)) {
    const Group& group = of[id];
    const std::uint64_t members = group_size(group, of.mesh);
    for (std::uint64_t bytes = smallest; bytes <= largest; bytes *= 4) {
      const std::uint64_t part = std::max<std::uint64_t>(bytes / sizeof(float) / members, 1);
      const std::string name =
          fmt::format("{} {} {}", name_of(kind), group_text(group), part * members * sizeof(float));
      Vectors v{buffer(name + " whole", part * members), {}, part * members, 0};
      std::vector<BufferId> taken{v.whole};
      const bool cut = kind == Collective::Kind::all_gather || kind == Collective::Kind::reduce_scatter;
      if (cut || kind == Collective::Kind::all_to_all) {
        v.other_count = cut ? part : part * members;
        v.other = buffer(name + " other", v.other_count);
        taken.push_back(v.other);
      }
      add(memory_block(taken, true, name + " begins"), 1, group);
      add(block_of(id, kind, v, name), times, group);
      add(memory_block(taken, false, name + " ends"), 1, group);
    }
  }
  return out;
}

std::vector<GroupTime> group_times(const Program& program, const std::vector<Trace>& traces, bool waits_inside) {
  // The key of one group's run: position in the list of blocks, the lowest rank of the group, and the run's number.
  using Key = std::tuple<const Block*, Rank, std::uint32_t>;
  std::map<const Block*, std::vector<double>> all;
  for (const Trace& trace : traces) {
    std::map<Key, std::int64_t> took_ps;
    for (const RankTrace& rank : trace.ranks) {
      std::map<const Block*, std::uint32_t> runs;
      for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun& op) {
        const auto* c = std::get_if<Collective>(&op.op->action);
        if (c == nullptr) return;
        const std::vector<Rank> members = group_ranks(program[c->group], program.mesh, rank.rank);
        const Span& span = rank.spans[index(op.id)];
        const Key key{op.block, *std::min_element(members.begin(), members.end()), runs[op.block]++};
        const std::int64_t took = span.end - span.start;
        const auto [at, is_new] = took_ps.try_emplace(key, took);
        if (!is_new) at->second = waits_inside ? std::min(at->second, took) : std::max(at->second, took);
      });
    }
    for (const auto& [key, took] : took_ps) all[std::get<0>(key)].push_back(static_cast<double>(took) * 1e-12);
  }
  std::vector<GroupTime> out;
  for (const Block& block : program.blocks) {
    const auto found = all.find(&block);
    if (found == all.end()) continue;
    std::vector<double>& took = found->second;
    std::sort(took.begin(), took.end());
    const auto& c = std::get<Collective>(block.ops.front().action);
    std::uint64_t bytes = 0;
    for (const View& v : block.views) bytes = std::max(bytes, v.count * sizeof(float));
    const std::size_t n = took.size();
    const double median = took[n / 2];
    out.push_back({c.group, group_size(program[c.group], program.mesh), c.kind, bytes, Seconds::of(median),
                   median > 0.0 ? (took[n - 1 - n / 4] - took[n / 4]) / median : 0.0});
  }
  return out;
}

AlphaBeta fit_alpha_beta(const std::vector<std::pair<Bytes, Seconds>>& points) {
  // With u = 1 / t and v = n / t, this minimises the sum of (alpha u + v / beta - 1)^2.
  double uu = 0.0, uv = 0.0, vv = 0.0, u1 = 0.0, v1 = 0.0;
  for (const auto& [bytes, time] : points) {
    ORRERY_ASSERT(time > Seconds{}, time.base());
    const double u = 1.0 / time.base(), v = bytes.base() / time.base();
    uu += u * u;
    uv += u * v;
    vv += v * v;
    u1 += u;
    v1 += v;
  }
  const double determinant = uu * vv - uv * uv;
  ORRERY_ASSERT(determinant > 0.0, points.size());
  double alpha = (u1 * vv - v1 * uv) / determinant;
  double per_byte = (v1 * uu - u1 * uv) / determinant;
  if (alpha < 0.0) {
    alpha = 0.0;
    per_byte = v1 / vv;
  } else if (per_byte <= 0.0) {
    // Where times do not grow with bytes, all of the time is latency, and the bandwidth is more than was seen.
    alpha = u1 / uu;
    per_byte = 1e-15;
  }
  AlphaBeta fit{Seconds::of(alpha), Bandwidth::of(1.0 / per_byte), 0.0};
  for (const auto& [bytes, time] : points) {
    const Seconds fitted = fit.latency + bytes / fit.bandwidth;
    fit.error_pct += 100.0 * std::abs(fitted / time - 1.0) / static_cast<double>(points.size());
  }
  return fit;
}

std::string group_text(const Group& group) {
  std::vector<std::string_view> names;
  for (const Axis axis : group.axes) names.push_back(name_of(axis));
  std::string text = fmt::format("{}", fmt::join(names, "+"));
  if (!group.members.empty()) text += fmt::format("[{}]", fmt::join(group.members, ","));
  return text;
}

}  // namespace orrery
