#include "sim/des/folding.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"

namespace orrery {

namespace {

constexpr std::uint32_t none = UINT32_MAX;

/// Sums in another order may differ by rounding; they count as the same weight.
std::uint64_t label_of(double weight) {
  constexpr std::uint64_t half = std::uint64_t{1} << 11U;
  return (std::bit_cast<std::uint64_t>(weight) + half) >> 12U;
}

std::uint64_t label_of(const GroupShape& shape) {
  std::uint64_t label = mix(shape.members);
  for (std::uint8_t l = 0; l < shape.levels; ++l) {
    label = mix(label ^ shape.level[l].units);
    label = mix(label ^ shape.level[l].least);
  }
  return label;
}

std::uint64_t label_of(const CollectivePattern& p) {
  return mix(mix(mix(mix(index(p.kind)) ^ index(p.algorithm)) ^ p.distance) ^ p.width) ^ (p.in_switches ? 1U : 0U);
}

/// One entry for all collective ops that move the same bytes in the same way in one group.
struct CollectiveOp {
  const Block* block;
  const Op* op;
};

}  // namespace

Folding::Folding(std::vector<FoldingJob> given) {
  MeetingGraph graph;
  for (FoldingJob& of : given) {
    const auto job = static_cast<std::uint32_t>(jobs_.size());
    const auto first = static_cast<std::uint32_t>(graph.ranks.size());
    for (std::uint32_t r = 0; r < of.program->mesh.size(); ++r) {
      const std::uint64_t label = mix(mix(class_of(*of.program, Rank{r})) ^ (of.labels.empty() ? 0 : of.labels[r]));
      graph.ranks.push_back(job == 0 ? label : mix(label ^ job));
    }
    jobs_.push_back({std::move(of), first, {}, {}, {}, 0});
  }
  const FabricTraffic* const traffic = jobs_.front().of.traffic;
  if (traffic != nullptr) place_of_link_.assign(traffic->fabric().links(), none);
  for (Job& job : jobs_) {
    add_groups(graph, job);
    add_messages(graph, job);
  }
  for (const LinkId l : links_) {
    graph.links.push_back(std::bit_cast<std::uint64_t>(traffic->capacity(l).base()));
  }

  GraphClasses classes = stable_classes(graph);
  for (Job& job : jobs_) {
    const auto first = classes.rank.begin() + job.first_rank;
    const auto ranks = static_cast<std::ptrdiff_t>(job.of.program->mesh.size());
    job.ranks = rank_classes(std::vector<std::uint32_t>(first, first + ranks));
  }
  rounds_ = classes.rounds;
  flow_count_.assign(classes.flows, 0);
  for (const std::uint32_t c : classes.flow) ++flow_count_[c];
  link_count_.assign(classes.links, 0);
  first_link_.assign(classes.links, LinkId{});
  for (std::size_t l = 0; l < links_.size(); ++l) {
    if (link_count_[classes.link[l]]++ == 0) first_link_[classes.link[l]] = links_[l];
  }
  class_of_flow_ = std::move(classes.flow);
  // Loads are ordered by LinkId, for callers that want them.
  std::vector<std::uint32_t> order(links_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return links_[a] < links_[b]; });
  std::vector<LinkId> sorted;
  for (const std::uint32_t l : order) {
    place_of_link_[index(links_[l])] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(links_[l]);
    class_of_link_.push_back(classes.link[l]);
  }
  links_ = std::move(sorted);
}

void Folding::cross(MeetingGraph& graph, std::uint32_t flow, const LinkShares& shares, std::uint64_t pattern) {
  for (std::size_t i = 0; i < shares.links.size(); ++i) {
    std::uint32_t& place = place_of_link_[index(shares.links[i])];
    if (place == none) {
      place = static_cast<std::uint32_t>(links_.size());
      links_.push_back(shares.links[i]);
    }
    graph.crossing.push_back({flow, place, mix(pattern ^ label_of(shares.weights[i]))});
  }
}

void Folding::add_groups(MeetingGraph& graph, Job& job) {
  const Program& program = *job.of.program;
  const FabricTraffic* const traffic = job.of.traffic;
  const auto ranks = static_cast<std::uint32_t>(program.mesh.size());
  const std::size_t groups = program.groups.size();
  // Says which classes use which groups, and for what.
  using Signature = std::tuple<Collective::Kind, std::uint64_t, std::uint32_t, std::uint32_t>;
  std::vector<std::map<Signature, CollectiveOp>> ops(groups);
  std::vector<bool> uses(groups * program.classes.size(), false);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    for (const BlockId b : job.of.prices->blocks_of(c)) {
      for (const Op& op : program[b].ops) {
        const auto* action = std::get_if<Collective>(&op.action);
        if (action == nullptr) continue;
        const std::uint32_t g = index(action->group);
        uses[g * program.classes.size() + c] = true;
        ops[g].try_emplace({action->kind, payload_bytes(program, program[b], op), index(action->root), action->width},
                           CollectiveOp{&program[b], &op});
      }
    }
  }
  job.flow_of_group.assign(groups * ranks, none);
  for (std::uint32_t g = 0; g < groups; ++g) {
    if (ops[g].empty() || group_size(program.groups[g], program.mesh) == 1) continue;
    // The places of the members decide how a collective moves; few groups have more than one shape.
    std::vector<std::pair<GroupShape, std::set<CollectivePattern>>> patterns;
    std::uint32_t* const flow_of = &job.flow_of_group[std::size_t{g} * ranks];
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (flow_of[r] != none || !uses[g * program.classes.size() + class_of(program, Rank{r})]) continue;
      if (!peer_of(program.groups[g], program.mesh, Rank{r})) continue;
      const auto flow = static_cast<std::uint32_t>(graph.flows.size());
      const std::vector<Rank> members = group_ranks(program.groups[g], program.mesh, Rank{r});
      for (const Rank m : members) {
        flow_of[index(m)] = flow;
        graph.taking_part.push_back({job.first_rank + index(m), flow, g});
      }
      std::uint64_t label = mix(g);
      if (traffic != nullptr) {
        const GroupShape shape = traffic->shape(members);
        label ^= label_of(shape);
        auto known = std::find_if(patterns.begin(), patterns.end(), [&](const auto& p) { return p.first == shape; });
        if (known == patterns.end()) {
          known = patterns.insert(patterns.end(), {shape, {}});
          for (const auto& [signature, op] : ops[g]) {
            known->second.insert(traffic->collective(*op.block, *op.op, shape).pattern);
          }
        }
        for (const CollectivePattern& p : known->second) {
          cross(graph, flow, traffic->shares(p, members), label_of(p));
        }
      }
      graph.flows.push_back(label);
    }
  }
}

void Folding::add_messages(MeetingGraph& graph, Job& job) {
  const Program& program = *job.of.program;
  const FabricTraffic* const traffic = job.of.traffic;
  // The ranks to which, and from which, a rank of each class sends and receives.
  struct Way {
    GroupId group;
    Peer peer;
    bool send;
    auto operator<=>(const Way&) const = default;
  };
  std::vector<std::set<Way>> ways(program.classes.size());
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    for (const BlockId b : job.of.prices->blocks_of(c)) {
      for (const Op& op : program[b].ops) {
        const auto* exchange = std::get_if<Exchange>(&op.action);
        if (exchange == nullptr) continue;
        for (std::uint32_t t = 0; t < exchange->transfers.count; ++t) {
          const Transfer& transfer = program[b].transfers[exchange->transfers.first + t];
          ways[c].insert({transfer.group, transfer.peer, transfer.send});
        }
      }
    }
  }
  const auto for_each = [&](auto&& visit) {
    for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
      for (const Way& w : ways[class_of(program, Rank{r})]) {
        const std::uint32_t peer = index(peer_rank(program, program[w.group], w.peer, Rank{r}));
        const std::uint64_t from = w.send ? r : peer, to = w.send ? peer : r;
        visit(r, from << 32U | to, mix(mix(mix(index(w.group)) ^ index(w.peer)) ^ (w.send ? 1U : 2U)));
      }
    }
  };
  for_each([&](std::uint32_t, std::uint64_t pair, std::uint64_t) { job.message_pairs.push_back(pair); });
  std::sort(job.message_pairs.begin(), job.message_pairs.end());
  job.message_pairs.erase(std::unique(job.message_pairs.begin(), job.message_pairs.end()), job.message_pairs.end());
  job.first_message = static_cast<std::uint32_t>(graph.flows.size());
  for (const std::uint64_t pair : job.message_pairs) {
    const Rank from{static_cast<std::uint32_t>(pair >> 32U)}, to{static_cast<std::uint32_t>(pair)};
    std::uint64_t label = mix(~std::uint64_t{0});
    if (traffic != nullptr) {
      label = mix(label ^ static_cast<std::uint64_t>(traffic->latency(from, to)));
      cross(graph, static_cast<std::uint32_t>(graph.flows.size()), traffic->shares(from, to), 0);
    }
    graph.flows.push_back(label);
  }
  for_each([&](std::uint32_t rank, std::uint64_t pair, std::uint64_t label) {
    const Rank from{static_cast<std::uint32_t>(pair >> 32U)}, to{static_cast<std::uint32_t>(pair)};
    graph.taking_part.push_back({job.first_rank + rank, message_flow(job, from, to), label});
  });
}

std::uint32_t Folding::message_flow(const Job& job, Rank from, Rank to) {
  const std::uint64_t pair = std::uint64_t{index(from)} << 32U | index(to);
  const auto at = std::lower_bound(job.message_pairs.begin(), job.message_pairs.end(), pair);
  ORRERY_ASSERT(at != job.message_pairs.end() && *at == pair, index(from), index(to));
  return job.first_message + static_cast<std::uint32_t>(at - job.message_pairs.begin());
}

LinkShares Folding::fold(LinkShares shares, std::uint32_t flow) const {
  std::map<std::uint32_t, double> sums;
  for (std::size_t i = 0; i < shares.links.size(); ++i) {
    sums[class_of_link_[place_of_link_[index(shares.links[i])]]] += shares.weights[i];
  }
  const double flows = flow_count_[class_of_flow_[flow]];
  shares.links.clear();
  shares.weights.clear();
  for (const auto& [link_class, sum] : sums) {
    shares.links.push_back(LinkId{link_class});
    shares.weights.push_back(flows * sum / link_count_[link_class]);
  }
  return shares;
}

LinkShares Folding::fold(LinkShares shares, GroupId group, Rank rank, std::uint32_t number) const {
  const Job& job = jobs_[number];
  const std::uint32_t flow = job.flow_of_group[index(group) * job.of.program->mesh.size() + index(rank)];
  ORRERY_ASSERT(flow != none || shares.links.empty(), index(group), index(rank));
  return flow == none ? shares : fold(std::move(shares), flow);
}

LinkShares Folding::fold(LinkShares shares, Rank from, Rank to, std::uint32_t job) const {
  return fold(std::move(shares), message_flow(jobs_[job], from, to));
}

}  // namespace orrery
