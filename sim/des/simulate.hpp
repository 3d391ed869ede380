#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/report.hpp"
#include "core/record/trace.hpp"
#include "sim/cost/cost_model.hpp"
#include "sim/cost/prices.hpp"
#include "sim/des/critical_path.hpp"
#include "sim/des/exposed_operations.hpp"
#include "sim/des/perturbation.hpp"
#include "sim/des/rank_classes.hpp"
#include "sim/des/shared_network.hpp"

namespace orrery {

/// How far a simulation has come, and a way to stop it.
struct SimulationProgress {
  /// The simulating thread calls it at the start, at the end and every some thousand events between. It gets the number
  /// of ops of all simulated ranks that have ended, and how many there are. May be empty.
  std::function<void(std::uint64_t done, std::uint64_t total)> report;
  /// Looked at as often as `report` is called; once true, simulate() throws SimulationCancelled. May be null.
  const std::atomic<bool>* cancelled = nullptr;
};

/// Thrown by a simulation that was stopped through SimulationProgress::cancelled. A step that has not come to its end
/// has no step time, so only how far it came is kept.
class SimulationCancelled : public Error {
 public:
  SimulationCancelled(std::uint64_t done, std::uint64_t total, Picoseconds clock);
  std::uint64_t done;   ///< ops that had ended
  std::uint64_t total;  ///< ops of all simulated ranks
  Picoseconds clock;    ///< simulated time
};

struct SimulateOptions {
  enum class Ranks : std::uint8_t {
    none,     ///< the trace stays empty
    classes,  ///< one rank for each class
    all,
  };
  bool expand = false;  ///< simulate every rank; otherwise one for each class, which acts for the whole class
  Ranks trace = Ranks::classes;
  std::optional<Noise> noise = {};          ///< implies expand
  std::optional<FabricRoutes> fabric = {};  ///< communications share its links
  std::optional<Stragglers> stragglers = {};
  std::vector<SlowRank> slow = {};
  bool exposed = false;        ///< say which groups' communication is exposed
  bool critical_path = false;  ///< find the critical path, and the gains from faster ops and links
  SimulationProgress progress = {};
};

struct Simulation {
  Trace trace;
  Report report;
  std::uint64_t events = 0;        ///< ends of ops and communications
  std::uint64_t history_hash = 0;  ///< of all ranks, whatever the trace holds (history_hash.hpp)
  std::vector<LinkLoad> links;     ///< of the fabric, those that carried anything
  /// The number of classes into which the step was folded: one rank, link and flow of each was simulated. Links and
  /// flows are counted where links are shared and ranks are folded.
  std::uint32_t rank_classes = 0;
  std::optional<std::uint32_t> link_classes, flow_classes;
  std::vector<ExposedOperation> exposed;  ///< where SimulateOptions::exposed asks for it
  std::optional<CriticalPath> critical_path;
  std::vector<Gain> gains;
};

/// Runs a Program's step as discrete events, op by op, in whole picoseconds.
///
/// Lanes are FIFO, communications begin when all partners are ready, and ties are broken by the order in which events
/// arose. So the same input gives the same bytes. Ranks that share cores (CostModel::core_sharing) take turns on them
/// (cores.hpp). Such programs are always expanded, and their communications end for each rank when it has a core again.
/// Without shared cores, noise and a fabric the times equal those of `estimate`.
///
/// Unless told to expand, it simulates one rank for each class of ranks that behave alike. These are the Program's
/// classes, parted further where a fabric's routes or stragglers tell ranks apart (folding.hpp). Folding changes no
/// order, and changes times by rounding only.
///
/// A fabric must have at least as many GPUs as the cluster, and nodes of as many GPUs as the cluster's nodes, which may
/// be part of one node (asserted); shared_network.hpp says what sharing does.
///
/// Throws Error when ranks wait for each other forever, and names the cycle by rank, op and group; also when a rank's
/// step has 2^32 ops or more. Throws SimulationCancelled when told to stop.
[[nodiscard]] Simulation simulate(const PlannedRun&, const Program&, const CostModel&, const SimulateOptions& = {});

/// Only times, from a price list: the trace without memory and traffic, and the number of events. `node_of_rank`
/// matters where prices.core_count > 0.
struct Timing {
  Trace trace;
  std::uint64_t events = 0;
};
[[nodiscard]] Timing simulate_times(const Program&, const Prices&, const RankClasses&, const Perturbation& = {},
                                    const std::vector<std::uint32_t>& node_of_rank = {}, const SimulationProgress& = {},
                                    SharedNetwork* = nullptr);
/// The same for every rank, or for one rank of each Program class.
[[nodiscard]] Timing simulate_times(const Program&, const Prices&, bool expand, const Perturbation& = {},
                                    const std::vector<std::uint32_t>& node_of_rank = {},
                                    const SimulationProgress& = {});

}  // namespace orrery
