#include "sim/net/messages.hpp"

#include <algorithm>
#include <bit>
#include <span>

#include "core/base/diagnostics.hpp"
#include "sim/net/flow_network.hpp"

namespace orrery {
namespace {

/// Appends a ring's steps over p members: first, first + stride, ...
void add_ring(Messages& out, std::uint32_t step, std::uint32_t steps, std::uint32_t first, std::uint32_t stride,
              std::uint32_t p, Bytes chunk) {
  for (std::uint32_t s = 0; s < steps; ++s) {
    for (std::uint32_t i = 0; i < p; ++i) {
      out.push_back({step + s, first + i * stride, first + (i + 1) % p * stride, chunk});
    }
  }
}

Messages ring(std::uint32_t p, std::uint32_t steps, Bytes payload) {
  ORRERY_ASSERT(p >= 1, p);
  Messages out;
  out.reserve(std::size_t{steps} * p);
  add_ring(out, 0, steps, 0, 1, p, payload / p);
  return out;
}

/// A job under way.
class Runner {
 public:
  Runner(const Fabric& fabric, const std::vector<Job>& jobs, PathRule rule, std::uint64_t seed)
      : fabric_(fabric),
        rule_(rule),
        seed_(seed),
        network_(fabric.links(), [&fabric](LinkId l) { return fabric.link(l).bandwidth; }) {
    times_.ends.assign(jobs.size(), 0);
    for (std::uint32_t j = 0; j < jobs.size(); ++j) add_job(j, jobs[j]);
  }

  JobTimes run() {
    for (Member& m : members_) enter_step(0, m);
    std::vector<std::uint32_t> ended;
    while (!network_.idle()) {
      const Picoseconds now = network_.next_event();
      ended.clear();
      network_.advance(ended);
      for (const std::uint32_t i : ended) {
        Underway& u = all_[i];
        times_.ends[u.job] = now;
        each_member(u, [&](std::uint32_t member) {
          if (--members_[member].left == 0) enter_step(now, members_[member]);
        });
      }
    }
    for (std::uint32_t l = 0; l < fabric_.links(); ++l) times_.carried.push_back(network_.carried(LinkId{l}));
    return std::move(times_);
  }

 private:
  struct Underway {
    std::uint32_t job, step, from, to;  ///< from, to: of members_
    Bytes payload;
    CollectiveMessage::Way way;
    MemberRange among;
    std::uint32_t ready = 0;  ///< of those who take part
    [[nodiscard]] std::uint32_t parties() const { return way == CollectiveMessage::Way::pair ? 2 : among.count; }
  };
  struct Member {
    std::uint32_t gpu = 0;
    std::vector<std::uint32_t> messages;  ///< by step
    std::size_t next = 0;                 ///< first message of the step after this one
    std::uint32_t left = 0;               ///< messages of this step that have not ended
  };

  void add_job(std::uint32_t j, const Job& job) {
    const auto first = static_cast<std::uint32_t>(members_.size());
    for (const std::uint32_t gpu : job.gpus) members_.emplace_back().gpu = gpu;
    for (const CollectiveMessage& m : job.messages) {
      const bool pair = m.way == CollectiveMessage::Way::pair;
      ORRERY_ASSERT(m.from < job.gpus.size() && m.to < job.gpus.size() && (m.from != m.to) == pair, m.from, m.to,
                    job.gpus.size());
      ORRERY_ASSERT(pair || (m.among.count >= 2 && m.among[m.among.count - 1] < job.gpus.size()), m.among.count);
      const auto i = static_cast<std::uint32_t>(all_.size());
      MemberRange among = m.among;
      among.first += first;
      all_.push_back({j, m.step, first + m.from, first + m.to, m.payload, m.way, among});
      each_member(all_.back(), [&](std::uint32_t member) { members_[member].messages.push_back(i); });
    }
    for (std::size_t i = first; i < members_.size(); ++i) {
      std::stable_sort(members_[i].messages.begin(), members_[i].messages.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return all_[a].step < all_[b].step; });
    }
  }

  template <class Do>
  void each_member(const Underway& u, Do&& act) {
    if (u.way == CollectiveMessage::Way::pair) {
      act(u.from);
      act(u.to);
    } else {
      for (std::uint32_t i = 0; i < u.among.count; ++i) act(u.among[i]);
    }
  }

  /// Finds the links that a message takes, into route_, and the latency of its first byte.
  Picoseconds find_links(const Underway& u) {
    route_.clear();
    if (u.way == CollectiveMessage::Way::pair) {
      fabric_.route(members_[u.from].gpu, members_[u.to].gpu, rule_, seed_, route_);
      return picoseconds(fabric_.latency(route_));
    }
    gpus_.clear();
    for (std::uint32_t i = 0; i < u.among.count; ++i) gpus_.push_back(members_[u.among[i]].gpu);
    switch (u.way) {
      case CollectiveMessage::Way::pair: break;
      case CollectiveMessage::Way::nvls_sum: fabric_.nvls_sum(gpus_, members_[u.to].gpu, route_); break;
      case CollectiveMessage::Way::nvls_copy: fabric_.nvls_copy(gpus_, members_[u.from].gpu, route_); break;
      case CollectiveMessage::Way::sharp: fabric_.sharp_all_reduce(gpus_, route_); break;
    }
    // The last data to arrive comes from the member furthest off; a sum goes on when all of it is there.
    Seconds longest;
    std::vector<LinkId> way;
    for (const std::uint32_t gpu : std::span(gpus_).subspan(1)) {
      way.clear();
      fabric_.route(gpu, gpus_.front(), PathRule::by_destination, 0, way);
      longest = std::max(longest, fabric_.latency(way));
    }
    return picoseconds(longest);
  }

  void enter_step(Picoseconds now, Member& m) {
    const std::size_t begin = m.next;
    while (m.next < m.messages.size() && all_[m.messages[m.next]].step == all_[m.messages[begin]].step) ++m.next;
    m.left = static_cast<std::uint32_t>(m.next - begin);
    for (std::size_t i = begin; i < m.next; ++i) {
      Underway& u = all_[m.messages[i]];
      if (++u.ready < u.parties()) continue;
      const Picoseconds latency = find_links(u);
      network_.start(now, route_, latency, u.payload, m.messages[i]);
    }
  }

  const Fabric& fabric_;
  PathRule rule_;
  std::uint64_t seed_;
  FlowNetwork network_;
  std::vector<Underway> all_;
  std::vector<Member> members_;
  std::vector<LinkId> route_;
  std::vector<std::uint32_t> gpus_;
  JobTimes times_;
};

}  // namespace

Messages ring_reduce_scatter_messages(std::uint32_t p, Bytes payload) { return ring(p, p - 1, payload); }
Messages ring_all_gather_messages(std::uint32_t p, Bytes payload) { return ring(p, p - 1, payload); }
Messages ring_all_reduce_messages(std::uint32_t p, Bytes payload) { return ring(p, 2 * (p - 1), payload); }

namespace {

/// A power of two of the members takes part, and the others, `extra` of them, stand aside. Among the first 2 extra
/// members those with even numbers stand aside, each beside the next one.
struct Fold {
  std::uint32_t core, extra;
  explicit Fold(std::uint32_t p) : core(std::bit_floor(p)), extra(p - core) {}
  /// Number `i` of the members that go on.
  [[nodiscard]] std::uint32_t member(std::uint32_t i) const { return i < extra ? 2 * i + 1 : i + extra; }
};

/// Adds `rounds` of the core. In a step before and one after, the members that stand aside hand over their data and get
/// the result. `rounds(step, fold, out)` returns the step after its last.
template <class Rounds>
Messages folded(std::uint32_t p, Bytes payload, Rounds&& rounds) {
  ORRERY_ASSERT(p >= 1, p);
  const Fold fold(p);
  Messages out;
  for (std::uint32_t i = 0; i < fold.extra; ++i) out.push_back({0, 2 * i, 2 * i + 1, payload});
  const std::uint32_t last = rounds(fold.extra > 0 ? 1U : 0U, fold, out);
  for (std::uint32_t i = 0; i < fold.extra; ++i) out.push_back({last, 2 * i + 1, 2 * i, payload});
  return out;
}

}  // namespace

Messages recursive_doubling_messages(std::uint32_t p, Bytes payload) {
  return folded(p, payload, [&](std::uint32_t step, const Fold& fold, Messages& out) {
    for (std::uint32_t distance = 1; distance < fold.core; distance *= 2, ++step) {
      for (std::uint32_t i = 0; i < fold.core; ++i) {
        out.push_back({step, fold.member(i), fold.member(i ^ distance), payload});
      }
    }
    return step;
  });
}

Messages halving_doubling_messages(std::uint32_t p, Bytes payload) {
  return folded(p, payload, [&](std::uint32_t step, const Fold& fold, Messages& out) {
    const auto exchange = [&](std::uint32_t distance) {
      const Bytes part = (1.0 * distance / fold.core) * payload;
      for (std::uint32_t i = 0; i < fold.core; ++i) {
        out.push_back({step, fold.member(i), fold.member(i ^ distance), part});
      }
      ++step;
    };
    for (std::uint32_t distance = fold.core / 2; distance >= 1; distance /= 2) exchange(distance);
    for (std::uint32_t distance = 1; distance < fold.core; distance *= 2) exchange(distance);
    return step;
  });
}

Messages binomial_broadcast_messages(std::uint32_t p, Bytes payload) {
  Messages out;
  std::uint32_t step = 0;
  for (std::uint32_t have = 1; have < p; have *= 2, ++step) {
    for (std::uint32_t i = 0; i < have && i + have < p; ++i) out.push_back({step, i, i + have, payload});
  }
  return out;
}

Messages binomial_reduce_messages(std::uint32_t p, Bytes payload) {
  Messages out = binomial_broadcast_messages(p, payload);
  const std::uint32_t last = out.empty() ? 0 : out.back().step;
  for (CollectiveMessage& m : out) m = {last - m.step, m.to, m.from, m.payload};
  return out;
}

Messages pipelined_broadcast_messages(std::uint32_t p, Bytes payload, std::uint32_t pieces) {
  ORRERY_ASSERT(pieces >= 1, pieces);
  Messages out;
  for (std::uint32_t c = 0; c < pieces; ++c) {
    for (std::uint32_t i = 0; i + 1 < p; ++i) out.push_back({c + i, i, i + 1, payload / pieces});
  }
  return out;
}

Messages pairwise_all_to_all_messages(std::uint32_t p, Bytes payload) {
  Messages out;
  for (std::uint32_t s = 1; s < p; ++s) {
    for (std::uint32_t i = 0; i < p; ++i) out.push_back({s - 1, i, (i + s) % p, payload / p});
  }
  return out;
}

Messages hierarchical_all_reduce_messages(std::uint32_t p, std::uint32_t inner, Bytes payload, Hierarchy how) {
  ORRERY_ASSERT(inner >= 1 && p % inner == 0, p, inner);
  using Way = CollectiveMessage::Way;
  const std::uint32_t outer = p / inner;
  Messages out;
  std::uint32_t step = 0;
  // One of the two halves inside every group: sums, or copies.
  const auto add_inside = [&](Way way) {
    if (inner == 1) return;
    for (std::uint32_t g = 0; g < outer; ++g) {
      if (!how.nvls) add_ring(out, step, inner - 1, g * inner, 1, inner, payload / inner);
      for (std::uint32_t i = g * inner; how.nvls && i < (g + 1) * inner; ++i) {
        out.push_back({step, i, i, payload / inner, way, {g * inner, inner, 1}});
      }
    }
    step += how.nvls ? 1 : inner - 1;
  };
  add_inside(Way::nvls_sum);
  if (outer > 1) {
    for (std::uint32_t i = 0; i < inner; ++i) {
      if (how.sharp) {
        out.push_back({step, i, i, payload / inner, Way::sharp, {i, outer, inner}});
      } else {
        add_ring(out, step, 2 * (outer - 1), i, inner, outer, payload / p);
      }
    }
    step += how.sharp ? 1 : 2 * (outer - 1);
  }
  add_inside(Way::nvls_copy);
  return out;
}

JobTimes run_jobs(const Fabric& fabric, const std::vector<Job>& jobs, PathRule rule, std::uint64_t seed) {
  return Runner(fabric, jobs, rule, seed).run();
}

}  // namespace orrery
