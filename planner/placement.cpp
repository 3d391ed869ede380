#include "planner/placement.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/spec/node_kinds.hpp"
#include "planner/axis_orders.hpp"
#include "planner/fabric_symmetry.hpp"
#include "planner/least_anywhere.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "sim/memory/fit.hpp"

namespace orrery {
namespace {

using Placement = std::vector<std::uint32_t>;

/// More ranks than this are not placed one by one.
constexpr std::uint64_t most_placed_singly = 512;
/// Swaps of more GPUs are not looked for; more have too many placements anyway.
constexpr std::uint64_t most_symmetric = 16;

/// What is less than a ten-thousandth shorter is not worth another placement, and no model of a network is that good.
bool is_below(Seconds a, Seconds b) { return a.base() < b.base() * (1.0 - placement_tolerance); }

/// A placement that has been looked at, and perhaps simulated.
struct Look {
  Placement placement;
  std::string order;
  Seconds alone;
  BusiestLink busiest;
  double spread = 0.0;  ///< sum over links of the square of the time that each is busy
  [[nodiscard]] Seconds bound() const { return std::max(alone, busiest.busy); }
  /// Whether the busiest link, or where those are alike all links together, have less to do.
  [[nodiscard]] bool spares(const Look& other) const {
    if (is_below(busiest.busy, other.busiest.busy)) return true;
    return !is_below(other.busiest.busy, busiest.busy) && spread < (1.0 - placement_tolerance) * other.spread;
  }
};

class PlacementSearcher {
 public:
  PlacementSearcher(const PlannedRun& run, const Program& program, const Calibration& calibration,
                    const FabricRoutes& routes, const PlacementOptions& options)
      : run_(run),
        program_(program),
        calibration_(calibration),
        routes_(routes),
        options_(options),
        sent_(program),
        ranks_(static_cast<std::uint32_t>(program.mesh.size())) {}

  PlacementSearch search() {
    Look given = look(run_.plan.placement);
    if (run_.plan.placement.empty()) given.order = text_of(AxisOrder{long_axes()});
    out_.given = step_of(given);
    keep(given, out_.given.step);
    const bool other_places = is_mixed(*run_.cluster) || offloads(run_.plan);
    places_matter_ = other_places && fits_memory(run_, program_, calibration_);
    out_.worst = out_.given;
    out_.least = least_anywhere(program_, costs_of(run_.plan.placement));
    try {
      try_orders();
      try_rings(given);
      plain_ = best_;
      plain_step_ = best_step_;
      if (!done() && ranks_ <= most_symmetric) try_all();
      if (!done() && !out_.every && ranks_ <= most_placed_singly) try_changes();
    } catch (const SimulationCancelled&) {
      out_.cancelled = true;
    }
    if (out_.every && !some_do_not_fit_) out_.least = best_step_;
    // Among equally short ones the one that is easiest to read is kept.
    if (plain_ && !is_below(best_step_, plain_step_)) keep(*plain_, plain_step_);
    if (!is_below(best_step_, out_.given.step)) keep(given, out_.given.step);
    out_.found = best_.placement == run_.plan.placement ? out_.given : step_of(best_);
    prefer_plain_order();
    return std::move(out_);
  }

 private:
  std::vector<MeshAxis> long_axes() const {
    std::vector<MeshAxis> axes;
    for (const MeshAxis& a : program_.mesh.axes) {
      if (a.size > 1) axes.push_back(a);
    }
    return axes;
  }

  CostModel costs_of(const Placement& placement) const {
    return {*run_.cluster, calibration_, program_.mesh, placement, run_.plan.collective_algorithm};
  }

  [[nodiscard]] bool cancelled() {
    if (options_.cancelled != nullptr && options_.cancelled->load()) out_.cancelled = true;
    return out_.cancelled;
  }
  /// Nothing better can be found, or is wanted.
  [[nodiscard]] bool done() { return cancelled() || !is_below(out_.least, best_step_); }

  void tell(std::uint64_t total) {
    if (options_.report) options_.report(out_.looked, std::max(total, out_.looked), best_step_);
  }

  /// The first look: without a simulation.
  Look look(Placement placement, std::string order = {}) {
    ++out_.looked;
    const CostModel costs = costs_of(placement);
    Look l{std::move(placement), std::move(order), {}, {}, 0.0};
    l.alone = estimator_.step_time(program_, costs);
    const FabricTraffic traffic(routes_, program_, costs, l.placement);
    const std::vector<LinkLoad> loads = link_loads(sent_.between(traffic), traffic);
    l.busiest = busiest_link(loads);
    for (const LinkLoad& load : loads) {
      const double busy = (load.carried / load.bandwidth).base();
      l.spread += busy * busy;
    }
    return l;
  }

  /// The second.
  Seconds simulated(const Look& l) {
    ++out_.simulated;
    PlannedRun run = run_;
    run.plan.placement = l.placement;
    return simulated(run, program_);
  }
  Seconds simulated(const PlannedRun& run, const Program& program) const {
    const CostModel costs(*run.cluster, calibration_, run.plan.mesh, run.plan.placement, run.plan.collective_algorithm);
    SimulateOptions options;
    options.trace = SimulateOptions::Ranks::none;
    options.fabric = routes_;
    options.progress.cancelled = options_.cancelled;
    return simulate(run, program, costs, options).report.step_time;
  }

  PlacedStep step_of(const Look& l) {
    PlacedStep s{run_.plan, l.order, l.alone, {}, l.busiest, {}};
    s.plan.placement = l.placement;
    s.step = !best_.placement.empty() && l.placement == best_.placement ? best_step_ : simulated(l);
    s.traffic = sent_.between(FabricTraffic(routes_, program_, costs_of(l.placement), l.placement));
    return s;
  }

  void keep(Look l, Seconds step) {
    best_ = std::move(l);
    best_step_ = step;
  }

  /// Whether it fits where the plan as it is does: other nodes may have smaller devices, or share out hosts otherwise.
  [[nodiscard]] bool fits(const Placement& placement) {
    if (!places_matter_) return true;
    PlannedRun run = run_;
    run.plan.placement = placement;
    const bool fits = fits_memory(run, program_, calibration_);
    some_do_not_fit_ = some_do_not_fit_ || !fits;
    return fits;
  }

  /// Whether the placement is better than the best, which it then is.
  bool take(Look l) {
    const bool less_to_do = l.spares(best_);
    if (is_below(best_step_, l.bound()) || (!is_below(l.bound(), best_step_) && !less_to_do)) return false;
    if (!fits(l.placement)) return false;
    const Seconds step = simulated(l);
    if (is_below(best_step_, step) || (!is_below(step, best_step_) && !less_to_do)) return false;
    keep(std::move(l), step);
    return true;
  }

  /// Those with the least bounds first.
  void take_all(std::vector<Look> looks, std::uint64_t total) {
    std::stable_sort(looks.begin(), looks.end(), [](const Look& a, const Look& b) {
      return std::tuple(a.bound(), a.busiest.busy, a.spread) < std::tuple(b.bound(), b.busiest.busy, b.spread);
    });
    for (Look& l : looks) {
      if (cancelled() || is_below(best_step_, l.bound())) return;
      take(std::move(l));
      tell(total);
    }
  }

  void try_orders() {
    std::vector<AxisOrder> orders = factor_orders(program_.mesh, options_.tries);
    const std::vector<AxisOrder> whole = whole_orders(program_.mesh);
    if (orders.empty()) orders = whole;
    std::vector<Look> looks;
    std::optional<Look> worst;
    for (const AxisOrder& order : orders) {
      if (cancelled()) break;
      looks.push_back(look(placement_of(program_.mesh, order), text_of(order)));
      tell(orders.size() + 1);
      const bool is_worse =
          !worst || std::tuple(worst->bound(), worst->spread) < std::tuple(looks.back().bound(), looks.back().spread);
      if (is_whole(order) && is_worse) worst = looks.back();
    }
    out_.orders = looks.size();
    take_all(std::move(looks), out_.orders + 1);
    if (worst && !cancelled()) out_.worst = step_of(*worst);
  }

  /// The best order and `given`, laid along each ring.
  void try_rings(const Look& given) {
    std::vector<Look> looks;
    for (const Look& from : {best_, given}) {
      for (const std::vector<std::uint32_t>& ring : options_.rings) {
        if (cancelled()) return;
        const auto n = static_cast<std::uint32_t>(ring.size());
        if (n == 0 || run_.cluster->devices() % n != 0) continue;
        Placement p = from.placement;
        if (p.empty()) {
          p.resize(ranks_);
          std::iota(p.begin(), p.end(), 0U);
        }
        for (std::uint32_t& device : p) device = device / n * n + ring[device % n];
        std::string order;
        if (!from.order.empty()) {
          order = from.order + ", along ring";
          for (const std::uint32_t gpu : ring) order += " " + std::to_string(gpu);
        }
        looks.push_back(look(std::move(p), std::move(order)));
      }
    }
    take_all(std::move(looks), out_.looked);
  }

  void try_all() {
    const CostModel costs = costs_of({});
    const FabricTraffic traffic(routes_, program_, costs, {});
    const FabricSymmetry symmetry = fabric_symmetry(traffic, *run_.cluster, ranks_);
    std::vector<Placement> placements;
    const bool few = for_each_placement(symmetry, options_.most_exact, [&](const Placement& p) {
      placements.push_back(p);
      return true;
    });
    if (!few) return;
    std::vector<Look> looks;
    const std::uint64_t total = out_.looked + placements.size();
    for (Placement& p : placements) {
      if (cancelled()) return;
      looks.push_back(look(std::move(p)));
      tell(total);
    }
    take_all(std::move(looks), total);
    out_.every = !cancelled();
  }

  void try_changes() {
    if (best_.placement.empty()) {
      best_.placement.resize(ranks_);
      std::iota(best_.placement.begin(), best_.placement.end(), 0U);
    }
    const std::uint64_t total = out_.looked + options_.tries;
    for (std::uint64_t t = 0; t < options_.tries && !done(); ++t) {
      Placement p = changed(best_.placement, t);
      if (p != best_.placement) take(look(std::move(p)));
      tell(total);
    }
  }

  /// One change, drawn by the seed.
  Placement changed(Placement p, std::uint64_t t) const {
    const std::uint32_t of_node = std::min(routes_.fabric->spec().node.gpus, ranks_);
    const std::uint32_t nodes = ranks_ / of_node;
    const auto drawn = [&](std::uint64_t which, std::uint32_t below) {
      return static_cast<std::uint32_t>(random_bits(options_.seed, t, which) % below);
    };
    const std::uint32_t kind = drawn(0, nodes > 1 && of_node > 1 ? 4 : 2);
    if (kind == 0) {
      std::swap(p[drawn(1, ranks_)], p[drawn(2, ranks_)]);
    } else if (kind == 1) {  // ranks turned round: a ring then takes another way
      const auto [from, to] = std::minmax({drawn(1, ranks_), drawn(2, ranks_)});
      std::reverse(p.begin() + from, p.begin() + to + 1);
    } else {
      const auto [first, last] = std::minmax({drawn(1, nodes), drawn(2, nodes)});
      for (std::uint32_t& device : p) {
        const std::uint32_t node = device / of_node;
        if (kind == 2 && node != first && node != last) continue;
        if (node >= first && node <= last) device = (first + last - node) * of_node + device % of_node;
      }
    }
    return p;
  }

  /// A mesh in the order that was found, where its step is as short: a plan that a person can read.
  void prefer_plain_order() {
    PlacedStep& found = out_.found;
    if (found.plan.placement.empty() || cancelled()) return;
    for (const AxisOrder& order : whole_orders(program_.mesh)) {
      if (placement_of(program_.mesh, order) != found.plan.placement) continue;
      PlannedRun run = run_;
      run.plan.placement.clear();
      run.plan.mesh.axes = order.axes;
      for (const MeshAxis& a : program_.mesh.axes) {
        if (a.size == 1) run.plan.mesh.axes.push_back(a);
      }
      Diagnostics mistakes;
      check(run.plan, run.model, run.workload, &*run.cluster, mistakes);
      if (!mistakes.empty()) return;
      if (run.plan.mesh == program_.mesh) {
        found.plan = run.plan;
        return;
      }
      const Program program = lower(run.model, run.workload, run.plan);
      if (is_below(found.step, simulated(run, program))) return;
      found.plan = run.plan;
      return;
    }
  }

  const PlannedRun& run_;
  const Program& program_;
  const Calibration& calibration_;
  FabricRoutes routes_;
  const PlacementOptions& options_;
  StepTraffic sent_;
  std::uint32_t ranks_;
  bool places_matter_ = false;  ///< to whether it fits
  bool some_do_not_fit_ = false;
  Estimator estimator_;
  PlacementSearch out_;
  Look best_;
  Seconds best_step_;
  std::optional<Look> plain_;  ///< the best order
  Seconds plain_step_;
};

}  // namespace

PlacementSearch search_placement(const PlannedRun& run, const Program& program, const Calibration& calibration,
                                 const FabricRoutes& routes, const PlacementOptions& options) {
  ORRERY_ASSERT(run.cluster && is_resolved(run.plan));
  return PlacementSearcher(run, program, calibration, routes, options).search();
}

BytesByReach bytes_by_reach(const std::vector<GpuTraffic>& between, const FabricRoutes& routes) {
  BytesByReach out;
  std::vector<LinkId> route;
  for (const GpuTraffic& t : between) {
    route.clear();
    routes.fabric->route(t.from, t.to, routes.rule, routes.seed, route);
    LinkKind furthest = LinkKind::nvlink;
    for (const LinkId l : route) furthest = std::max(furthest, routes.fabric->link(l).kind);
    switch (furthest) {
      case LinkKind::nvlink: out.nvlink += t.payload; break;
      case LinkKind::pcie: out.pcie += t.payload; break;
      case LinkKind::socket: out.socket += t.payload; break;
      case LinkKind::network: out.network += t.payload; break;
    }
  }
  return out;
}

std::vector<std::vector<double>> between_nodes(const std::vector<AxisTraffic>& traffic, std::uint32_t nodes,
                                               std::uint32_t gpus_of_node) {
  std::vector<std::vector<double>> out(nodes, std::vector<double>(nodes, 0.0));
  for (const AxisTraffic& t : traffic) {
    for (const GpuTraffic& p : t.between) out[p.from / gpus_of_node][p.to / gpus_of_node] += p.payload;
  }
  return out;
}

}  // namespace orrery
