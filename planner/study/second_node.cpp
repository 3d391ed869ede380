#include <fmt/format.h>

#include <algorithm>

#include "planner/study/fabric_step.hpp"
#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"
#include "sim/net/node_wiring.hpp"

// Experiment E26: why a second node made data-parallel training slower.

namespace orrery {
namespace {

constexpr double path = 15.8e9;  ///< bytes a second between a node's GPUs and its network card

/// Nodes of five V100 with NVLink inside, and `of_each` of the path to the other node for every GPU.
ClusterSpec nodes_of_five(const Library& library, std::uint32_t nodes, double of_each) {
  ClusterSpec c = study_cluster(library, "dgx-1v", 4);
  c.name = "5 V100 a node";
  c.nodes = nodes;
  c.devices_per_node = 5;
  c.levels = {{"nvlink", 5, Bandwidth::of(150e9), Seconds::of(2e-6)}};
  if (nodes > 1) c.levels.push_back({"nic", nodes, Bandwidth::of(of_each), Seconds::of(5e-6)});
  return c;
}

/// Two such nodes wired out: one network card each, at one PCIe path for five GPUs.
Fabric one_card_a_node() {
  FabricSpec spec;
  spec.name = "two nodes of five V100, one card each";
  spec.nodes = 2;
  spec.node = nvswitch_node(5, 1, {LinkKind::nvlink, Bandwidth::of(150e9), Seconds::of(1e-6)},
                            {LinkKind::pcie, Bandwidth::of(path), Seconds::of(1e-6)});
  TreeNetwork cable;
  cable.levels = {{2, 1, {LinkKind::network, Bandwidth::of(25e9), Seconds::of(1e-6)}}};
  spec.network = cable;
  return Fabric(std::move(spec));
}

}  // namespace

StudyResult second_node_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E26"};
  r.sources = {
      "hpcaitech/ColossalAI issue 3440: data parallel, 1.1 G parameters, 10 GPUs in two nodes take longer than 5 in "
      "one; NVLink inside, 15.8 GB/s between GPU and network card"};
  r.inputs = {"device v100, calibration v100",
              "a GPT of 20 layers and width 2048 (1.1 G parameters; the thread gives the size only)"};
  r.formulas = {"estimate", "ring_all_reduce"};
  r.assumptions = {
      "fp16 gradients, reduced beside the backward pass; every GPU has the same number of tokens on 5 and on 10.",
      "The five GPUs of a node share one path of 15.8 GB/s to the network: in prices a fifth for each, in the "
      "simulation "
      "as the messages meet; the cable between the nodes is wider (25 GB/s, assumed)."};
  ModelSpec model = study_model(library, "gpt2-1.5b");
  model.name = "gpt-1.1b";
  model.layers = 20;
  model.hidden = 2048;
  model.heads = model.kv_heads = 16;
  model.head_dim = 128;
  model.ffn = 8192;

  StudyTable table{
      "1.1 G parameters, data parallel, sequences of 512 tokens",
      {"sequences per GPU", "step on 5, s", "step on 10, s", "exposed on 10, s", "time for the same data, 10 over 5",
       "10, simulated over one card a node, s", "10, a card for each GPU, s"},
      {}};
  Chart chart{"Time for the same data on 10 V100 over 5 (above 1: slower)",
              "sequences of 512 tokens per GPU and step",
              "ratio",
              true,
              false,
              {},
              {{"10 over 5", {}}}};
  double slowest = 0.0;
  double fastest = 1e30;
  std::uint32_t break_even = 0;
  double reduction = 0.0;
  double slowest_shared = 0.0, slowest_apart = 0.0;
  const Fabric fabric = one_card_a_node();
  for (const std::uint32_t sequences : {1U, 2U, 4U, 8U, 16U, 32U}) {
    Seconds step[2];
    Seconds exposed;
    for (std::uint32_t nodes = 1; nodes <= 2; ++nodes) {
      const ClusterSpec cluster = nodes_of_five(library, nodes, path / 5.0);
      Plan plan;
      plan.name = fmt::format("data {}", 5 * nodes);
      plan.mesh.axes = {{Axis::data, 5 * nodes}};
      plan.microbatch_size = 1;
      plan.overlap_gradients = true;
      const PricedPlan p = priced(model, study_workload(std::uint64_t{5} * nodes * sequences, 512), cluster,
                                  study_calibration(library, cluster.device), plan);
      step[nodes - 1] = p.report.step_time;
      exposed = p.report.exposed_communication;
      if (nodes == 2) {
        for (const OperationTime& o : p.report.operations) {
          if (o.name.rfind("all_reduce", 0) == 0) reduction = o.time.base();
        }
      }
    }
    // The same without saying that five share the path: the wires do.
    const ClusterSpec cards = nodes_of_five(library, 2, path);
    Plan wired;
    wired.mesh.axes = {{Axis::data, 10}};
    wired.microbatch_size = 1;
    wired.overlap_gradients = true;
    const FabricStep shared = step_over(model, study_workload(std::uint64_t{10} * sequences, 512), cards,
                                        study_calibration(library, cards.device), wired, fabric);
    slowest_shared = std::max(slowest_shared, 0.5 * (shared.time() / step[0]));
    slowest_apart = std::max(slowest_apart, 0.5 * (shared.plan.report.step_time / step[0]));
    const double ratio = 0.5 * (step[1] / step[0]);
    slowest = std::max(slowest, ratio);
    fastest = std::min(fastest, ratio);
    if (ratio < 1.0 && break_even == 0) break_even = sequences;
    table.rows.push_back({number(sequences, 0), number(step[0].base(), 3), number(step[1].base(), 3),
                          number(exposed.base(), 3), number(ratio, 2, "x"), number(shared.time().base(), 3),
                          number(shared.plan.report.step_time.base(), 3)});
    chart.series[0].points.push_back({static_cast<double>(sequences), ratio});
  }
  r.claims = {
      {"10 GPUs in two nodes over 5 in one",
       plain("slower"),
       Evidence::thread,
       {fmt::format("{:.2f}x to {:.2f}x the time", fastest, slowest), slowest},
       slowest > 1.0 ? Verdict::follows : Verdict::does_not_follow,
       fmt::format("gradients of 2.2 GB take {:.2f} s to reduce over the path between the nodes; a step on one node is "
                   "shorter than that when it has few tokens{}",
                   reduction,
                   break_even > 0
                       ? fmt::format("; from {} sequences of 512 tokens per GPU on, 10 are faster", break_even)
                       : std::string())},
      {"the same, simulated over one card for each node",
       plain("slower"),
       Evidence::thread,
       {fmt::format("up to {:.2f}x the time", slowest_shared), slowest_shared},
       slowest_shared > 1.0 ? Verdict::follows : Verdict::does_not_follow,
       fmt::format(
           "the ring enters and leaves a node by all five GPUs, whose messages share the path to its card; with a "
           "card for each GPU it would be {:.2f}x at most",
           slowest_apart)}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {"The slowdown follows whenever the step is short against the reduction between the nodes.",
                   "Accumulating gradients over more microbatches before one reduction removes it."};
  return r;
}

}  // namespace orrery
