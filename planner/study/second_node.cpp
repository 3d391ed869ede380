#include <fmt/format.h>

#include <algorithm>

#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"

// Experiment E26: why a second node made data-parallel training slower.

namespace orrery {
namespace {

/// Nodes of five V100 with NVLink inside, one PCIe path of 15.8 GB/s to the
/// other node for all five.
ClusterSpec nodes_of_five(const Library& library, std::uint32_t nodes) {
  ClusterSpec c = study_cluster(library, "dgx-1v", 4);
  c.name = "5 V100 a node";
  c.nodes = nodes;
  c.devices_per_node = 5;
  c.levels = {{"nvlink", 5, Bandwidth::of(150e9), Seconds::of(2e-6)}};
  if (nodes > 1) c.levels.push_back({"nic", nodes, Bandwidth::of(15.8e9 / 5.0), Seconds::of(5e-6)});
  return c;
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
      "The five GPUs of a node share one path of 15.8 GB/s to the network."};
  ModelSpec model = study_model(library, "gpt2-1.5b");
  model.name = "gpt-1.1b";
  model.layers = 20;
  model.hidden = 2048;
  model.heads = model.kv_heads = 16;
  model.head_dim = 128;
  model.ffn = 8192;

  StudyTable table{
      "1.1 G parameters, data parallel, sequences of 512 tokens",
      {"sequences per GPU", "step on 5, s", "step on 10, s", "exposed on 10, s", "time for the same data, 10 over 5"},
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
  for (const std::uint32_t sequences : {1U, 2U, 4U, 8U, 16U, 32U}) {
    Seconds step[2];
    Seconds exposed;
    for (std::uint32_t nodes = 1; nodes <= 2; ++nodes) {
      const ClusterSpec cluster = nodes_of_five(library, nodes);
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
    const double ratio = 0.5 * (step[1] / step[0]);
    slowest = std::max(slowest, ratio);
    fastest = std::min(fastest, ratio);
    if (ratio < 1.0 && break_even == 0) break_even = sequences;
    table.rows.push_back({number(sequences, 0), number(step[0].base(), 3), number(step[1].base(), 3),
                          number(exposed.base(), 3), number(ratio, 2, "x")});
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
                       : std::string())}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {"The slowdown follows whenever the step is short against the reduction between the nodes.",
                   "Accumulating gradients over more microbatches before one reduction removes it."};
  return r;
}

}  // namespace orrery
