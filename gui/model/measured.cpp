#include "gui/model/measured.hpp"

#include <algorithm>

#include "planner/placement.hpp"
#include "sim/des/step_traffic.hpp"
#include "sim/net/cluster_fabric.hpp"

namespace orrery::gui {
namespace {

double gib(std::uint64_t bytes) { return Bytes::of(static_cast<double>(bytes)).in(gibibyte); }

/// The stage whose peak is the highest.
const StageMemory& fullest(const Report& r) {
  return *std::max_element(r.memory_by_stage.begin(), r.memory_by_stage.end(),
                           [](const StageMemory& a, const StageMemory& b) { return a.peak < b.peak; });
}

/// Bytes that leave nodes, on the links that the cluster's levels imply.
double left_nodes(const Prediction& p) {
  const Fabric fabric(cluster_fabric(*p.run.cluster));
  const FabricRoutes routes{&fabric};
  const Plan& plan = p.run.plan;
  const CostModel costs(*p.run.cluster, p.prices->calibration, plan.mesh, plan.placement, plan.collective_algorithm);
  const FabricTraffic traffic(routes, *p.program, costs, plan.placement);
  double bytes = 0.0;
  for (const AxisTraffic& t : StepTraffic(*p.program).between(traffic)) {
    bytes += bytes_by_reach(t.between, routes).network;
  }
  return Bytes::of(bytes).in(gibibyte);
}

/// Number of collectives of the rank that takes part in most.
double collectives_of(const Program& program) {
  std::uint64_t most = 0;
  for (const RankClass& ranks : program.classes) {
    std::uint64_t count = 0;
    for (const Slot& slot : ranks.step) {
      for (const Op& op : program[slot.block].ops) {
        const auto* c = std::get_if<Collective>(&op.action);
        if (c != nullptr && group_size(program[c->group], program.mesh) > 1) count += slot.repeat;
      }
    }
    most = std::max(most, count);
  }
  return static_cast<double>(most);
}

}  // namespace

double measured(Measure m, const Prediction& p) {
  const Report& r = p.report;
  switch (m) {
    case Measure::step_time: return r.step_time.in(millisecond);
    case Measure::tokens_per_s: return r.tokens_per_s / 1000.0;
    case Measure::mfu: return 100.0 * r.model_flops_utilization;
    case Measure::bubble: return 100.0 * r.bubble_fraction;
    case Measure::exposed: return r.exposed_communication.in(millisecond);
    case Measure::peak_memory: return gib(fullest(r).peak);
    case Measure::weights: return gib(fullest(r).weights);
    case Measure::gradients: return gib(fullest(r).gradients);
    case Measure::optimizer: return gib(fullest(r).optimizer);
    case Measure::activations: return gib(fullest(r).activations);
    case Measure::sent_per_rank:
      return Bytes::of(static_cast<double>(r.sent_bytes) / static_cast<double>(r.gpus)).in(mebibyte);
    case Measure::between_nodes: return left_nodes(p);
    case Measure::collectives: return collectives_of(*p.program);
  }
  return 0.0;
}

}  // namespace orrery::gui
