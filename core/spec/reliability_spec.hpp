#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/units.hpp"

namespace orrery {

/// How far a figure of a file is known. It is printed wherever the figure is.
enum class FigureBasis : std::uint8_t {
  read,        ///< in the source, which was read
  derived,     ///< follows by arithmetic from figures that were read
  unverified,  ///< recalled or second-hand, or derived from such: check the source before quoting
  assumed,     ///< a guess that no source backs; replace it by your own
};
[[nodiscard]] std::string_view name_of(FigureBasis);

/// A figure with where it is from.
template <class T>
struct SourcedFigure {
  T value{};
  std::string source;
  FigureBasis basis = FigureBasis::read;
  friend bool operator==(const SourcedFigure&, const SourcedFigure&) = default;
};
template <class T>
using KnownFigure = std::optional<SourcedFigure<T>>;  ///< unset: unknown

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
  /// Of the nodes that the rates are of; other nodes fail in proportion to their GPUs. Unset: a node is a node.
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
