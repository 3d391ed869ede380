#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/calibration.hpp"
#include "sim/des/step_traffic.hpp"

namespace orrery {

/// Steps that differ by less are as long as each other: a part of them.
inline constexpr double placement_tolerance = 1e-4;

/// One placement of a plan's ranks, and what it does to a step.
struct PlacedStep {
  Plan plan;            ///< with its placement, or with its axes in another order
  std::string order;    ///< of axes, outermost first, or "" where no order says it: "pipeline 4 > tensor 2 > data 2"
  Seconds alone;        ///< estimate: every link to itself
  Seconds step;         ///< simulated, links shared
  BusiestLink busiest;  ///< what it carries, over its bandwidth: no step is shorter
  std::vector<AxisTraffic> traffic;
};

struct PlacementOptions {
  /// Where there are at most so many placements, but for those that look alike to the fabric, all are looked at.
  std::uint64_t most_exact = 50'000;
  std::uint64_t tries = 500;  ///< changes of the best order that are tried where there are more
  std::uint64_t seed = 0;     ///< of these changes
  /// Orders of GPUs, as NCCL's rings pass them: of a node each, or of all.  Devices that follow each other in an order
  /// of axes are tried on GPUs that follow each other on a ring.
  std::vector<std::vector<std::uint32_t>> rings = {};
  /// Called now and then with the placements looked at, of how many at most, and the best step so far.  May be empty.
  std::function<void(std::uint64_t done, std::uint64_t total, Seconds best)> report;
  /// Once true, the search ends with what it has.  May be null.
  const std::atomic<bool>* cancelled = nullptr;
};

/// What a search for a placement found, and how far it can be trusted.
struct PlacementSearch {
  PlacedStep given;             ///< the plan as it came
  PlacedStep found;             ///< the shortest simulated step, within placement_tolerance
  PlacedStep worst;             ///< of the orders of whole axes, one with the longest lower bound
  std::uint64_t orders = 0;     ///< of axes and of their factors, looked at
  std::uint64_t looked = 0;     ///< placements in all
  std::uint64_t simulated = 0;  ///< of these; the others' lower bounds say enough
  bool every = false;           ///< all placements, but for those that look alike to the fabric
  Seconds least;                ///< no placement takes less; the found step, where every placement was looked at
  bool cancelled = false;
};

/// Looks for the placement of a plan's ranks on a fabric with the shortest step.
///
/// A placement changes no Program: only which device runs which rank.  Each is judged in two looks: a lower bound,
/// which is the longer of its estimate and of the time that its busiest link needs for its bytes, and, where that is
/// below the best step, a simulation over the fabric's links.
///
///   1. Orders: the mesh's axes, each cut into its prime factors, nested in every order, as long as there are at most
///      `tries` such orders, else of whole axes alone.  By ascending bound, until none is below the best.
///      Then the best order and the plan as it came, along each of the `rings`.
///   2. Where there are few placements (`most_exact`), all of them in the same way: the result is the best.
///   3. Else changes of the best so far: two ranks swapped, two nodes swapped, a run of nodes or of ranks turned round;
///      kept where the step is shorter, or as long with less on the busiest link.
///
/// Among placements whose steps differ by no more than `placement_tolerance`, the plan as it came is taken first, then
/// an order of axes.  An order of whole axes comes back as a mesh in that order, without a placement.
/// Deterministic: the same seed gives the same result.  Throws SimulationCancelled where it is told to stop before the
/// first step has been simulated, later it returns what it has.  Requires a resolved plan and what simulate requires of
/// a fabric.
[[nodiscard]] PlacementSearch search_placement(const PlannedRun&, const Program&, const Calibration&,
                                               const FabricRoutes&, const PlacementOptions& = {});

/// Bytes of some traffic, by the kind of link that their way goes furthest up to: NVLink, PCIe, between sockets,
/// network.
struct BytesByReach {
  double nvlink = 0.0, pcie = 0.0, socket = 0.0, network = 0.0;
  [[nodiscard]] double all() const { return nvlink + pcie + socket + network; }
};
[[nodiscard]] BytesByReach bytes_by_reach(const std::vector<GpuTraffic>&, const FabricRoutes&);

/// Bytes that the GPUs of one node send those of another: [from][to].
[[nodiscard]] std::vector<std::vector<double>> between_nodes(const std::vector<AxisTraffic>&, std::uint32_t nodes,
                                                             std::uint32_t gpus_of_node);

}  // namespace orrery
