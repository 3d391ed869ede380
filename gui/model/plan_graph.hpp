#pragma once

#include <QString>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/model/prediction.hpp"
#include "gui/model/tables.hpp"

// The plan as a graph: pipeline stages, the groups of ranks that communicate in each, and the bytes that they send in a
// step.

namespace orrery::gui {

/// Collectives of one kind within one group of a stage, or messages to another stage, for one rank in one step.
struct GroupTraffic {
  std::uint32_t stage = 0;
  std::string group;  ///< "tensor"; of messages "pipeline"
  std::uint32_t members = 0;
  std::string kind;                 ///< "all_gather"; of messages "send"
  std::optional<std::uint32_t> to;  ///< of messages: the stage that receives
  std::uint64_t count = 0;
  double bytes = 0.0;  ///< payloads, together
};
/// A stage; neighbours that do the same are one node.
struct StageNode {
  std::uint32_t first = 0, last = 0;
  std::uint32_t ranks = 0;   ///< of one stage
  std::uint32_t layers = 0;  ///< of one stage
  std::uint64_t peak = 0;    ///< bytes, of the fullest
};
struct PlanGraph {
  std::vector<StageNode> stages;
  std::vector<GroupTraffic> traffic;  ///< of the first stage of each node, with the messages from it
};
[[nodiscard]] PlanGraph make_plan_graph(const Prediction&);
/// Ids count rows.
[[nodiscard]] TableContent plan_graph_table(const PlanGraph&);
/// The graph as a text for Graphviz; nodes are named s0, s1 (StageNode, in order) and s0g0 (a group of it).
[[nodiscard]] std::string dot_of(const PlanGraph&);

/// The StageNode with this name; empty for a group of it.
[[nodiscard]] std::optional<std::size_t> stage_node(const std::string& name);

/// A graph as Graphviz lays it out (dot -Tplain), in inches, y upwards.
struct GraphLayout {
  struct Node {
    std::string name, label;
    double x = 0, y = 0, width = 0, height = 0;
  };
  struct Edge {
    std::string from, to, label;
    std::vector<std::pair<double, double>> curve;  ///< control points of joined cubic Bezier curves
    double label_x = 0, label_y = 0;
  };
  double width = 0, height = 0;
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};
/// Empty where dot did not write the text.
[[nodiscard]] std::optional<GraphLayout> read_plain(const std::string& text);

}  // namespace orrery::gui
