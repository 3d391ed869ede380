#include "forecast/step_energy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/record/operation.hpp"
#include "core/record/traffic.hpp"
#include "sim/cost/prices.hpp"

namespace orrery {
namespace {

constexpr double picojoule = 1e-12;

class Mover {
 public:
  Mover(const Program& p, const std::vector<std::uint32_t>& placement, std::uint32_t per_node)
      : program_(p), placement_(placement), per_node_(per_node) {}

  /// Adds what a rank of the class moves in a step, for all ranks of the class.
  void add(MovedBytes& to, std::uint32_t rank_class) const {
    const Rank rank = representative(program_, rank_class);
    const double ranks = static_cast<double>(program_.mesh.size()) / static_cast<double>(program_.classes.size());
    for (const Slot& slot : program_.classes[rank_class].step) {
      const Block& block = program_[slot.block];
      for (const Op& op : block.ops) add(to, block, op, rank, ranks * slot.repeat);
    }
  }

 private:
  [[nodiscard]] std::uint32_t node_of(Rank rank) const {
    return (placement_.empty() ? index(rank) : placement_[index(rank)]) / per_node_;
  }

  void add(MovedBytes& to, const Block& block, const Op& op, Rank rank, double times) const {
    if (std::holds_alternative<Compute>(op.action)) {
      to.memory += times * bytes_of_views(block, op);
    } else if (std::holds_alternative<Copy>(op.action)) {
      to.host += times * 0.5 * bytes_of_views(block, op);  // its two views are both ends
    } else if (const auto* c = std::get_if<Collective>(&op.action)) {
      std::set<std::uint32_t> nodes;
      const std::vector<Rank> members = group_ranks(program_[c->group], program_.mesh, rank);
      for (const Rank member : members) nodes.insert(node_of(member));
      const double sent = times * static_cast<double>(sent_bytes(program_, block, op, rank));
      const double across =
          nodes.size() > 1 ? static_cast<double>(nodes.size()) / static_cast<double>(members.size()) : 0.0;
      to.network += sent * across;
      to.inside += sent * (1.0 - across);
    } else if (std::holds_alternative<Exchange>(op.action)) {
      exchange(to, block, op, rank, times);
    }
  }

  void exchange(MovedBytes& to, const Block& block, const Op& op, Rank rank, double times) const {
    const Range transfers = std::get<Exchange>(op.action).transfers;
    for (std::uint32_t t = transfers.first; t < transfers.first + transfers.count; ++t) {
      const Transfer& transfer = block.transfers[t];
      if (!transfer.send) continue;
      const View& view = block.views[op.views.first + transfer.view];
      const double bytes = static_cast<double>(view.count * size_of(program_[view.buffer].dtype));
      const Rank peer = peer_rank(program_, program_[transfer.group], transfer.peer, rank);
      (node_of(peer) == node_of(rank) ? to.inside : to.network) += times * bytes;
    }
  }

  [[nodiscard]] double bytes_of_views(const Block& block, const Op& op) const {
    double bytes = 0.0;
    for (std::uint32_t v = op.views.first; v < op.views.first + op.views.count; ++v) {
      const View& view = block.views[v];
      bytes += static_cast<double>(view.count * size_of(program_[view.buffer].dtype));
    }
    return bytes;
  }

  const Program& program_;
  const std::vector<std::uint32_t>& placement_;
  std::uint32_t per_node_;
};

}  // namespace

MovedBytes moved_bytes(const Program& p, const std::vector<std::uint32_t>& placement, std::uint32_t per_node) {
  MovedBytes out;
  const Mover mover(p, placement, per_node);
  for (std::uint32_t c = 0; c < p.classes.size(); ++c) mover.add(out, c);
  return out;
}

std::optional<StepEnergy> step_energy(const Report& r, const MovedBytes& moved, const ClusterSpec& cluster,
                                      const PowerTable& table) {
  const DevicePower* power = table.of(cluster.device.name);
  if (power == nullptr || !power->busy_w) return std::nullopt;
  StepEnergy out;
  const auto say = [&](const std::string& what, const SourcedFigure<double>& f, const char* unit) {
    out.sources.push_back(fmt::format("{} {:g} {} ({}: {})", what, f.value, unit, name_of(f.basis), f.source));
  };
  const double devices = static_cast<double>(r.gpus);
  const double busy = power->busy_w->value;
  say("busy", *power->busy_w, "W");
  double waiting = busy;
  if (power->waiting_w) {
    waiting = power->waiting_w->value;
    say("waiting", *power->waiting_w, "W");
  } else if (table.waiting_share) {
    waiting = table.waiting_share->value * busy;
    say("waiting", *table.waiting_share, "of busy");
  } else {
    out.unknown.emplace_back("waiting power");
  }
  if (power->idle_w) {
    out.idle_w = devices * power->idle_w->value;
    say("idle", *power->idle_w, "W");
  } else {
    out.unknown.emplace_back("idle power");
  }
  // Kinds of work share the busy time of the compute lane.
  double named = 0.0;
  for (const OperationTime& o : r.operations) {
    // Transfers have lanes of their own: they cost power where compute waits for them.
    if (is_communication(o.name) || o.name == name_of(copy_operation)) continue;
    const double joules = devices * busy * o.time.base();
    named += joules;
    out.work.push_back({o.name, joules});
  }
  const double computing = devices * busy * r.compute.base();
  if (computing > named * (1.0 + 1e-9)) out.work.push_back({"other work", computing - named});
  out.work.push_back({"waiting", devices * waiting * (r.step_time - r.compute).base()});
  std::stable_sort(out.work.begin(), out.work.end(), [](const auto& a, const auto& b) { return a.joules > b.joules; });
  out.joules = computing + devices * waiting * (r.step_time - r.compute).base();
  const std::pair<const char*, double> kinds[] = {
      {"memory", moved.memory}, {"nvlink", moved.inside}, {"host", moved.host}, {"network", moved.network}};
  for (const auto& [link, bytes] : kinds) {
    const LinkEnergy* energy = table.over(link);
    if (bytes == 0.0) continue;
    if (energy == nullptr) {
      out.unknown.push_back(fmt::format("energy of a byte over {}", link));
      continue;
    }
    say(link, energy->pj_per_byte, "pJ/B");
    const double joules = bytes * energy->pj_per_byte.value * picojoule;
    out.moves.push_back({link, joules});
    if (std::string_view(link) == "network") out.joules += joules;
  }
  return out;
}

}  // namespace orrery
