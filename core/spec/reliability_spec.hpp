#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/units.hpp"
#include "core/spec/sourced_figure.hpp"

namespace orrery {

/// Nodes that stop together: those below one switch, on one power unit.
struct NodeGroup {
  std::string name;
  std::uint32_t nodes = 1;  ///< of one group
  SourcedFigure<double> events_per_1000_group_days;
  friend bool operator==(const NodeGroup&, const NodeGroup&) = default;
};

/// How often what a run stands on fails, and what it takes to go on. A figure that is not given is unknown; nothing
/// stands in for it.
struct ReliabilitySpec {
  std::string name;
  /// The rates are those of nodes with so many GPUs; other nodes fail in proportion to their GPUs. Unset: the rates
  /// hold for a node of any size.
  std::optional<std::uint32_t> gpus_per_node;
  /// Failures that stop the job, and that its nodes cause.
  KnownFigure<double> node_failures_per_1000_node_days;
  /// Failures that do not grow with the number of nodes: software, users.
  KnownFigure<double> job_failures_per_day;
  /// Stops that are announced, so that nothing is lost but the time.
  KnownFigure<double> planned_stops_per_day;             ///< whatever the number of nodes
  KnownFigure<double> planned_stops_per_1000_node_days;  ///< that grow with it: maintenance of hosts
  /// Weibull shape of the time between failures; 1 is exponential.
  KnownFigure<double> failure_shape;
  /// Nodes that turn slow, the factor by which a step then takes longer, and the time until such a node is found.
  KnownFigure<double> slow_nodes_per_1000_node_days, slow_factor;
  KnownFigure<Seconds> slow_until_found;
  KnownFigure<Seconds> detect;        ///< from a failure until it is known
  KnownFigure<Seconds> queue;         ///< until the nodes are there, where a spare is; 0 for a job that keeps them
  KnownFigure<Seconds> restart;       ///< processes, communicators, warm-up; without the load of the checkpoint
  KnownFigure<Seconds> repair;        ///< of a node, from the failure until it may be used again
  KnownFigure<Seconds> planned_stop;  ///< length of one
  KnownFigure<Bandwidth> storage_rate_per_node, storage_rate_total;
  KnownFigure<std::uint32_t> spare_nodes;  ///< beside those of the job
  KnownFigure<std::uint32_t> host_copies;  ///< copies of a checkpoint in the memory of other nodes
  std::vector<NodeGroup> groups;
  Origin origin;
  friend bool operator==(const ReliabilitySpec&, const ReliabilitySpec&) = default;
};

}  // namespace orrery
