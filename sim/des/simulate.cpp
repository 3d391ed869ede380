#include "sim/des/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/summarize.hpp"
#include "core/record/traffic.hpp"
#include "sim/des/machine.hpp"

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
  timing.trace = std::move(machine).trace();
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

/// Bytes that `rank` sends in its step.
std::uint64_t sent_by(const Program& program, Rank rank) {
  std::vector<std::uint64_t> runs(program.blocks.size(), 0);
  for (const Slot& slot : program.classes[class_of(program, rank)].step) runs[index(slot.block)] += slot.repeat;
  std::uint64_t bytes = 0;
  for (std::size_t b = 0; b < runs.size(); ++b) {
    if (runs[b] == 0) continue;
    const Block& block = program.blocks[b];
    for (const Op& op : block.ops) bytes += sent_bytes(program, block, op, rank) * runs[b];
  }
  return bytes;
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
    ORRERY_ASSERT(
        cluster.nodes > 1 ? spec.node.gpus == cluster.devices_per_node : spec.node.gpus >= cluster.devices_per_node,
        spec.node.gpus, cluster.devices_per_node);
    traffic.emplace(*options.fabric, program, costs, run.plan.placement);
  }
  std::optional<Folding> folding;
  if (!expand && (options.fabric || options.stragglers)) {
    const std::vector<bool> slow = slow_ranks(options.stragglers, ranks);
    folding.emplace(program, prices, traffic ? &*traffic : nullptr,
                    std::vector<std::uint64_t>(slow.begin(), slow.end()));
  }
  std::optional<SharedNetwork> shared;
  if (traffic) shared.emplace(*traffic, folding ? &*folding : nullptr);
  const RankClasses classes = expand ? single_ranks(program) : folding ? folding->ranks() : program_classes(program);
  Timing timing = simulate_times(program, prices, classes, {options.noise, options.stragglers},
                                 shares_cores ? nodes_of(run, program, costs) : std::vector<std::uint32_t>{},
                                 options.progress, shared ? &*shared : nullptr);

  timing.trace.concurrent_lanes = prices.concurrent_lanes;

  Simulation simulation;
  simulation.events = timing.events;
  simulation.rank_classes = classes.count();
  if (shared && folding) {
    simulation.link_classes = folding->link_classes();
    simulation.flow_classes = folding->flow_classes();
  }
  if (shared) simulation.links = shared->loads();
  if (options.critical_path) {
    simulation.critical_path = critical_path(program, prices, classes, timing.trace);
    const std::int64_t step = simulation.critical_path->steps.empty() ? 0 : simulation.critical_path->steps.back().end;
    if (!shared) {
      simulation.gains = gains(program, prices, classes, {options.noise, options.stragglers},
                               shares_cores ? nodes_of(run, program, costs) : std::vector<std::uint32_t>{},
                               *simulation.critical_path, step);
    }
  }
  LiveMemory memory;
  memory.read(program);
  for (RankTrace& r : timing.trace.ranks) {
    r.peak_bytes = memory.peak(program, class_of(program, r.rank)).peak;
    r.sent_bytes = sent_by(program, r.rank);
  }
  simulation.report =
      summarize(run, program, timing.trace, prices.concurrent_lanes,
                folding ? std::span<const std::uint32_t>(classes.ranks) : std::span<const std::uint32_t>());
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
