#include "sim/des/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/record/history_hash.hpp"
#include "core/record/summarize.hpp"
#include "sim/des/machine.hpp"
#include "sim/des/rank_totals.hpp"
#include "sim/net/cluster_fabric.hpp"

namespace orrery {

SimulationCancelled::SimulationCancelled(std::uint64_t d, std::uint64_t t, Picoseconds c)
    : Error(fmt::format("simulation cancelled after {} of {} operations, {:.6g} ms into the step", d, t,
                        static_cast<double>(c) * 1e-9)),
      done(d),
      total(t),
      clock(c) {}

Timing simulate_times(const Program& program, const Prices& prices, const RankClasses& classes,
                      const Perturbation& perturbation, const std::vector<std::uint32_t>& node_of_rank,
                      const SimulationProgress& progress, SharedNetwork* shared) {
  Machine machine(program, prices, classes, perturbation, node_of_rank, shared);
  machine.run(progress);
  Timing timing;
  timing.events = machine.events();
  timing.trace = machine.take_trace();
  return timing;
}

Timing simulate_times(const Program& program, const Prices& prices, bool expand, const Perturbation& perturbation,
                      const std::vector<std::uint32_t>& node_of_rank, const SimulationProgress& progress) {
  return simulate_times(program, prices, expand ? single_ranks(program) : program_classes(program), perturbation,
                        node_of_rank, progress);
}

namespace {

std::vector<std::uint32_t> nodes_of(const PlannedRun& run, const Program& program, const CostModel& costs) {
  std::vector<std::uint32_t> nodes(program.mesh.size());
  for (std::uint32_t rank = 0; rank < nodes.size(); ++rank) {
    const std::uint32_t device = run.plan.placement.empty() ? rank : run.plan.placement[rank];
    nodes[rank] = device / costs.cluster().devices_per_node;
  }
  return nodes;
}

std::int64_t length_of(const Trace& trace) {
  std::int64_t end = 0;
  for (const RankTrace& r : trace.ranks) {
    for (const Span& s : r.spans) end = std::max(end, s.end);
  }
  return end;
}

/// Kinds of the links that carried anything.
std::vector<LinkKind> kinds_of(const Fabric& fabric, const std::vector<LinkLoad>& loads) {
  std::vector<LinkKind> kinds;
  for (const LinkLoad& l : loads) kinds.push_back(fabric.link(l.link).kind);
  std::sort(kinds.begin(), kinds.end());
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  return kinds;
}

}  // namespace

Simulation simulate(const PlannedRun& run, const Program& program, const CostModel& costs,
                    const SimulateOptions& options) {
  Prices prices;
  price(prices, program, costs);
  const bool shares_cores = prices.core_count > 0;
  const bool expand = options.expand || options.noise.has_value() || shares_cores;
  const auto ranks = static_cast<std::uint32_t>(program.mesh.size());
  std::optional<FabricTraffic> traffic;
  if (options.fabric) {
    const FabricSpec& spec = options.fabric->fabric->spec();
    const ClusterSpec& cluster = costs.cluster();
    ORRERY_ASSERT(spec.gpus() >= cluster.devices(), spec.gpus(), cluster.devices());
    ORRERY_ASSERT(same_boxes(spec, cluster), spec.node.gpus, cluster.devices_per_node);
    traffic.emplace(*options.fabric, program, costs, run.plan.placement);
  }
  std::optional<Folding> folding;
  std::vector<std::uint64_t> labels;
  const Perturbation perturbation{options.noise, options.stragglers, options.slow};
  if (!expand && (options.fabric || options.stragglers || !options.slow.empty() || prices.kinds > 1)) {
    labels = rank_labels(perturbation, prices, ranks);
    folding.emplace(std::vector<FoldingJob>{{&program, &prices, traffic ? &*traffic : nullptr, labels}});
  }
  std::optional<FlowNetwork> flows;
  std::optional<SharedNetwork> shared;
  if (traffic) {
    flows.emplace(link_flows(*traffic, folding ? &*folding : nullptr));
    shared.emplace(*flows, *traffic, folding ? &*folding : nullptr);
  }
  const RankClasses classes = expand ? single_ranks(program) : folding ? folding->ranks() : program_classes(program);
  Timing timing = simulate_times(program, prices, classes, perturbation,
                                 shares_cores ? nodes_of(run, program, costs) : std::vector<std::uint32_t>{},
                                 options.progress, shared ? &*shared : nullptr);

  timing.trace.concurrent_lanes = prices.concurrent_lanes;

  Simulation simulation;
  simulation.events = timing.events;
  simulation.rank_classes = classes.count();
  simulation.history_hash = history_hash(timing.trace, classes.of_rank);
  if (shared && folding) {
    simulation.link_classes = folding->link_classes();
    simulation.flow_classes = folding->flow_classes();
  }
  if (shared) simulation.links = shared->loads();
  if (options.critical_path) {
    simulation.critical_path = critical_path(program, prices, classes, timing.trace);
    const std::int64_t step = length_of(timing.trace);
    const std::vector<std::uint32_t> nodes =
        shares_cores ? nodes_of(run, program, costs) : std::vector<std::uint32_t>{};
    const Replay replay = [&](const Prices& at, std::optional<LinkKind> faster) {
      if (!traffic) return length_of(simulate_times(program, at, classes, perturbation, nodes, options.progress).trace);
      FabricRoutes routes = *options.fabric;
      routes.faster = faster;
      const FabricTraffic over(routes, program, costs, run.plan.placement);
      // Links that are no longer alike part classes further.
      std::optional<Folding> refolded;
      if (folding && faster) refolded.emplace(std::vector<FoldingJob>{{&program, &at, &over, labels}});
      const Folding* folded = refolded ? &*refolded : folding ? &*folding : nullptr;
      FlowNetwork shares = link_flows(over, folded);
      SharedNetwork links(shares, over, folded);
      return length_of(simulate_times(program, at, folded != nullptr ? folded->ranks() : classes, perturbation, nodes,
                                      options.progress, &links)
                           .trace);
    };
    const std::vector<LinkKind> kinds =
        shared ? kinds_of(*options.fabric->fabric, simulation.links) : std::vector<LinkKind>{};
    simulation.gains = gains(program, prices, *simulation.critical_path, step, kinds, replay);
  }
  add_totals(timing.trace, program);
  simulation.report =
      summarize(run, program, timing.trace, prices.concurrent_lanes,
                folding ? std::span<const std::uint32_t>(classes.ranks) : std::span<const std::uint32_t>());
  if (options.exposed) {
    simulation.exposed =
        exposed_operations(program, timing.trace, prices.concurrent_lanes,
                           folding ? std::span<const std::uint32_t>(classes.ranks) : std::span<const std::uint32_t>());
  }
  auto& assumptions = simulation.report.assumptions;
  assumptions.push_back(shared ? "communications share the links of " + options.fabric->fabric->spec().name
                               : std::string("every message has its link to itself"));
  if (!run.model.rope_scaling.empty()) {
    assumptions.push_back("scaled rotary angles (" + run.model.rope_scaling + ") cost what plain ones do");
  }
  assumptions.push_back(prices.concurrent_lanes ? communication_beside_compute(costs)
                                                : "a rank does one operation at a time");
  if (shares_cores) assumptions.push_back("ranks of a node take turns on its cores");
  if (options.noise) assumptions.push_back("random delays");
  if (options.stragglers) {
    assumptions.push_back(fmt::format("{} of {} ranks compute {:.6g} times as long",
                                      std::min(options.stragglers->count, ranks), ranks, options.stragglers->factor));
  }
  if (!options.slow.empty()) {
    assumptions.push_back(fmt::format("{} of {} ranks lie on slow devices", options.slow.size(), ranks));
  }
  if (prices.kinds > 1) assumptions.push_back(pace_of_kinds(costs));
  if (classes.count() < ranks) {
    assumptions.push_back("equal ranks behave alike: one of each class simulated");
  }

  Trace& trace = simulation.trace;
  trace.origin = timing.trace.origin;
  trace.concurrent_lanes = timing.trace.concurrent_lanes;
  switch (options.trace) {
    case SimulateOptions::Ranks::none: break;
    case SimulateOptions::Ranks::classes:
      for (RankTrace& r : timing.trace.ranks) {
        if (r.rank == representative(program, class_of(program, r.rank))) trace.ranks.push_back(std::move(r));
      }
      break;
    case SimulateOptions::Ranks::all:
      if (expand) {
        trace = std::move(timing.trace);
        break;
      }
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        trace.ranks.push_back(timing.trace.ranks[classes.of_rank[rank]]);
        trace.ranks.back().rank = Rank{rank};
        trace.ranks.back().sent_bytes = sent_by(program, Rank{rank});
      }
      break;
  }
  return simulation;
}

}  // namespace orrery
