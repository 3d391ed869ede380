#include "sim/des/step_traffic.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/cost/prices.hpp"

namespace orrery {
namespace {

std::string name_of(const Group& group, bool messages) {
  std::string name;
  for (const Axis axis : group.axes) name += (name.empty() ? "" : " + ") + std::string(orrery::name_of(axis));
  if (messages) return name + ", messages";
  return group.members.empty() ? name : name + ", some";
}

std::vector<GpuTraffic>& of_name(std::vector<AxisTraffic>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const AxisTraffic& t) { return t.name == name; });
  if (found != all.end()) return found->between;
  all.push_back({name, {}});
  return all.back().between;
}

}  // namespace

StepTraffic::StepTraffic(const Program& program) : program_(program) {
  Prices blocks;  // which each class runs, how often
  resize(blocks, program);
  const std::size_t classes = program.classes.size();
  collectives_.assign(program.groups.size(), std::vector<std::vector<Moved>>(classes));
  messages_.assign(program.groups.size(), std::vector<std::vector<Sent>>(classes));
  for (std::uint32_t c = 0; c < classes; ++c) {
    using Signature = std::tuple<GroupId, Collective::Kind, std::uint64_t, Peer, std::uint32_t>;
    std::map<Signature, std::size_t> alike;
    for (std::uint32_t at = blocks.first_block[c]; at < blocks.first_block[c + 1]; ++at) {
      const Block& block = program[blocks.blocks[at]];
      for (const Op& op : block.ops) {
        if (const auto* action = std::get_if<Collective>(&op.action)) {
          std::vector<Moved>& moved = collectives_[index(action->group)][c];
          const Signature signature{action->group, action->kind, payload_bytes(program, block, op), action->root,
                                    action->width};
          const auto [known, is_new] = alike.try_emplace(signature, moved.size());
          if (is_new) moved.push_back({&block, &op, 0});
          moved[known->second].runs += blocks.runs[at];
        } else if (const auto* exchange = std::get_if<Exchange>(&op.action)) {
          for (std::uint32_t t = 0; t < exchange->transfers.count; ++t) {
            const Transfer& transfer = block.transfers[exchange->transfers.first + t];
            if (!transfer.send) continue;
            const View& view = block.views[op.views.first + transfer.view];
            messages_[index(transfer.group)][c].push_back(
                {transfer.peer, blocks.runs[at] * view.count * size_of(program[view.buffer].dtype)});
          }
        }
      }
    }
  }
}

std::vector<AxisTraffic> StepTraffic::between(const FabricTraffic& traffic) const {
  std::vector<AxisTraffic> out;
  const auto ranks = static_cast<std::uint32_t>(program_.mesh.size());
  for (std::uint32_t g = 0; g < program_.groups.size(); ++g) {
    const Group& group = program_.groups[g];
    const bool used =
        std::any_of(collectives_[g].begin(), collectives_[g].end(), [](const auto& list) { return !list.empty(); });
    if (!used || group_size(group, program_.mesh) == 1) continue;
    std::vector<GpuTraffic>& into = of_name(out, name_of(group, false));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (coordinate(program_.mesh, Rank{r}, group.axes) != 0) continue;  // once for each instance
      const std::vector<Rank> members = group_ranks(group, program_.mesh, Rank{r});
      const GroupShape shape = traffic.shape(members);
      std::map<CollectivePattern, double> payloads;
      for (const Moved& m : collectives_[g][class_of(program_, members.front())]) {
        const FabricTraffic::Collected c = traffic.collective(*m.block, *m.op, shape);
        payloads[c.pattern] += static_cast<double>(m.runs) * c.payloads * c.payload.base();
      }
      for (const auto& [pattern, payload] : payloads) {
        for (const GpuTraffic& p : traffic.pairs(pattern, members)) {
          if (p.from != p.to && p.payload > 0.0) into.push_back({p.from, p.to, p.payload * payload});
        }
      }
    }
  }
  for (std::uint32_t g = 0; g < program_.groups.size(); ++g) {
    const Group& group = program_.groups[g];
    for (std::uint32_t r = 0; r < ranks; ++r) {
      for (const Sent& s : messages_[g][class_of(program_, Rank{r})]) {
        const Rank peer = peer_rank(program_, group, s.peer, Rank{r});
        if (peer == Rank{r} || s.bytes == 0) continue;
        of_name(out, name_of(group, true))
            .push_back({traffic.gpu_of(Rank{r}), traffic.gpu_of(peer), static_cast<double>(s.bytes)});
      }
    }
  }
  std::erase_if(out, [](const AxisTraffic& t) { return t.between.empty(); });
  return out;
}

std::vector<LinkLoad> link_loads(const std::vector<AxisTraffic>& traffic, const FabricTraffic& fabric) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> pairs;
  for (const AxisTraffic& t : traffic) {
    for (const GpuTraffic& p : t.between) pairs[{p.from, p.to}] += p.payload;
  }
  const FabricRoutes& routes = fabric.routes();
  std::map<LinkId, double> carried;
  std::vector<LinkId> route;
  for (const auto& [pair, bytes] : pairs) {
    route.clear();
    routes.fabric->route(pair.first, pair.second, routes.rule, routes.seed, route);
    for (const LinkId l : route) carried[l] += bytes;
  }
  std::vector<LinkLoad> out;
  out.reserve(carried.size());
  for (const auto& [link, bytes] : carried) out.push_back({link, Bytes::of(bytes), fabric.capacity(link)});
  return out;
}

BusiestLink busiest_link(const std::vector<LinkLoad>& loads) {
  BusiestLink busiest;
  for (const LinkLoad& l : loads) {
    const Seconds busy = l.carried / l.bandwidth;
    if (busy > busiest.busy) busiest = {l.link, busy};
  }
  return busiest;
}

}  // namespace orrery
