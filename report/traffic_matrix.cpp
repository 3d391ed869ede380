#include "report/traffic_matrix.hpp"

#include <algorithm>
#include <compare>
#include <map>

#include "core/record/operation.hpp"
#include "core/record/traffic.hpp"

namespace orrery {
namespace {

/// What ranks of one class send over a group, ops of one way put together.
struct Way {
  GroupId group{};
  enum class To : std::uint8_t { next, all, further, peer } to = To::next;
  std::uint32_t number = 0;  ///< the peer, or how much further
  std::uint32_t width = 0;   ///< of a permute's rings; 0: the whole group
  friend auto operator<=>(const Way&, const Way&) = default;
};

using Sent = std::map<Way, double>;  ///< bytes

double bytes_of(const Program& program, const View& view) {
  return static_cast<double>(view.count) * static_cast<double>(size_of(program[view.buffer].dtype));
}

Sent sent_by(const Program& program, std::uint32_t rank_class) {
  Sent out;
  const Rank rank = representative(program, rank_class);
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
    if (const auto* c = std::get_if<Collective>(&run.op->action)) {
      Way way{c->group, Way::To::next, 0, 0};
      if (c->kind == Collective::Kind::all_to_all) way.to = Way::To::all;
      if (c->kind == Collective::Kind::permute) way = {c->group, Way::To::further, index(c->root), c->width};
      out[way] += static_cast<double>(sent_bytes(program, *run.block, *run.op, rank));
    } else if (const auto* e = std::get_if<Exchange>(&run.op->action)) {
      for (std::uint32_t i = 0; i < e->transfers.count; ++i) {
        const Transfer& t = run.block->transfers[e->transfers.first + i];
        if (!t.send) continue;
        out[{t.group, Way::To::peer, index(t.peer), 0}] +=
            bytes_of(program, run.block->views[run.op->views.first + t.view]);
      }
    }
  });
  return out;
}

/// Calls `send` with each peer that member `own` of `size` sends to, and the bytes.
template <class Send>
void spread(const Way& way, double bytes, std::uint32_t own, std::uint32_t size, Send&& send) {
  switch (way.to) {
    case Way::To::next: send((own + 1) % size, bytes); break;
    case Way::To::peer: send(way.number, bytes); break;
    case Way::To::further: {
      const std::uint32_t width = way.width == 0 ? size : way.width;
      send(own - own % width + (own % width + way.number) % width, bytes);
      break;
    }
    case Way::To::all:
      for (std::uint32_t peer = 0; peer < size; ++peer) {
        if (peer != own) send(peer, bytes / (size - 1));
      }
  }
}

}  // namespace

TrafficMatrix traffic_matrix(const Program& program, std::uint32_t most) {
  const auto ranks = static_cast<std::uint32_t>(program.mesh.size());
  TrafficMatrix out;
  while ((ranks + out.ranks_in_cell - 1) / out.ranks_in_cell > most) out.ranks_in_cell *= 2;
  const std::uint32_t cells = (ranks + out.ranks_in_cell - 1) / out.ranks_in_cell;
  out.bytes.assign(cells, std::vector<double>(cells, 0.0));
  std::vector<Sent> by_class;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) by_class.push_back(sent_by(program, c));
  for (std::uint32_t g = 0; g < program.groups.size(); ++g) {
    // Each instance of the group is met at its first rank.
    std::vector<bool> met(ranks, false);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (met[r] || !peer_of(program.groups[g], program.mesh, Rank{r})) continue;
      const std::vector<Rank> members = group_ranks(program.groups[g], program.mesh, Rank{r});
      for (const Rank member : members) met[index(member)] = true;
      for (std::uint32_t own = 0; own < members.size(); ++own) {
        const auto send = [&](std::uint32_t peer, double bytes) {
          out.bytes[index(members[own]) / out.ranks_in_cell][index(members[peer]) / out.ranks_in_cell] += bytes;
        };
        const Sent& sent = by_class[class_of(program, members[own])];
        for (auto at = sent.lower_bound({GroupId{g}}); at != sent.end() && at->first.group == GroupId{g}; ++at) {
          spread(at->first, at->second, own, static_cast<std::uint32_t>(members.size()), send);
        }
      }
    }
  }
  return out;
}

std::vector<GroupTraffic> group_traffic(const Program& program) {
  const double ranks = static_cast<double>(program.mesh.size()) / static_cast<double>(program.classes.size());
  std::map<std::string, GroupTraffic> sums;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    const Rank rank = representative(program, c);
    for_each_op(program, program.classes[c].step, [&](const OpRun& run) {
      if (!is_timed(*run.op)) return;
      const Operation kind = operation_of(program, *run.block, *run.op);
      if (!is_communication(kind)) return;
      GroupTraffic& sum = sums[name_of(kind)];
      sum.count += static_cast<std::uint64_t>(ranks);
      sum.bytes += ranks * static_cast<double>(sent_bytes(program, *run.block, *run.op, rank));
    });
  }
  std::vector<GroupTraffic> out;
  for (auto& [name, sum] : sums) {
    sum.what = name;
    out.push_back(sum);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

}  // namespace orrery
