#include <fmt/format.h>

#include <algorithm>

#include "planner/study/fabric_step.hpp"
#include "planner/study/studies.hpp"
#include "sim/net/node_wiring.hpp"

// A rail-optimized fabric against a plain fat tree of the same switches and cables.

namespace orrery {
namespace {

constexpr std::uint32_t nodes = 16, gpus = 8, leaf = 16;

/// 16 DGX H100 on 8 leaves of 16 ports; `spines` cables from each leaf, one to each spine.
FabricSpec pod(const Library& library, bool rails, std::uint32_t spines) {
  FabricSpec spec = study_fabric(library, "dgx-h100-superpod");
  const auto& shipped = std::get<TreeNetwork>(spec.network);
  const Link cable = shipped.levels[0].link;
  spec.name = fmt::format("{}, {} spines", rails ? "rails" : "plain", spines);
  spec.nodes = nodes;
  TreeNetwork tree;
  tree.rails = rails;
  tree.levels = {{leaf, 1, cable}, {nodes * gpus / leaf, spines, cable}};
  spec.network = tree;
  return spec;
}

/// Tensor parallel inside a node, `pipeline` stages, the rest data.
Plan plan_of(std::uint32_t pipeline) {
  Plan p;
  p.name = fmt::format("data {} pipeline {} tensor 8", nodes / pipeline, pipeline);
  p.mesh.axes = {{Axis::pipeline, pipeline}, {Axis::data, nodes / pipeline}, {Axis::tensor, gpus}};
  if (pipeline == 1) p.mesh.axes.erase(p.mesh.axes.begin());
  p.microbatch_size = 1;
  p.sequence_parallel = true;
  p.zero_stage = 1;
  p.overlap_gradients = true;
  p.attention = AttentionKernel::flash;
  return p;
}

}  // namespace

StudyResult rails_study(const Library& library) {
  StudyResult r;
  r.experiments = {"rails"};
  r.sources = {
      "Wang, Ghobadi, Shakeri, Zhang and Hasani, Rail-only: a low-cost high-performance network for training LLMs with "
      "trillion parameters, arXiv 2307.12169, abstract"};
  r.inputs = {"model llama-2-13b, cluster dgx-h100, links of fabric dgx-h100-superpod, calibration h100"};
  r.formulas = {"Simulate", "Folded flows"};
  r.assumptions = {
      "16 nodes of 8 GPUs on 8 leaves of 16 ports: plain, two nodes to a leaf; rails, NIC r of all 16 nodes on leaf r. "
      "The "
      "same switches and as many cables of one kind, so the same cost.",
      "Tensor parallel 8 inside nodes, ZeRO-1, one sequence of 4096 tokens a microbatch, 32 sequences a step.",
      "Full: 16 cables up from each leaf; 4 to 1: 4 of them. Hashed: ECMP, mean over two seeds.",
      "Rings visit nodes in the order of their ranks; no adaptive routing."};
  const ClusterSpec cluster = study_cluster(library, "dgx-h100", nodes * gpus);
  const Calibration calibration = study_calibration(library, cluster.device);
  const ModelSpec model = study_model(library, "llama-2-13b");
  Workload workload = study_workload(32, 4096);
  StudyTable table{"Steps of Llama-2-13B on 128 H100",
                   {"<plan", "<cables above leaves", "<routes", "plain, ms", "rails, ms", "rails faster",
                    "plain: bytes over spines, GB", "rails: over spines, GB"},
                   {}};
  Chart chart{"Step time on a plain fat tree over rails of equal cost",
              "",
              "times",
              false,
              false,
              {},
              {{"plain over rails", {}}}};
  double rails_bytes = 0.0, most = 0.0, least = 1e30, full_by_destination = 0.0;
  for (const std::uint32_t pipeline : {1U, 4U}) {
    for (const std::uint32_t spines : {16U, 4U}) {
      for (const bool hashed : {false, true}) {
        double time[2] = {0.0, 0.0}, bytes[2] = {0.0, 0.0};
        const std::uint64_t seeds = hashed ? 2 : 1;
        for (const bool rails : {false, true}) {
          const Fabric fabric(pod(library, rails, spines));
          const PathRule rule = hashed ? PathRule::hashed : rails ? PathRule::rail_local : PathRule::by_destination;
          for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
            const FabricStep s =
                step_over(model, workload, cluster, calibration, plan_of(pipeline), fabric, rule, seed);
            time[rails ? 1 : 0] += s.time().base() / static_cast<double>(seeds);
            bytes[rails ? 1 : 0] += carried_by(fabric, s.simulation, "-> spine").base() / static_cast<double>(seeds);
          }
        }
        const double gain = time[0] / time[1];
        rails_bytes += bytes[1];
        most = std::max(most, gain);
        least = std::min(least, gain);
        if (spines == 16 && !hashed) full_by_destination = std::max(full_by_destination, gain);
        table.rows.push_back({plain(plan_of(pipeline).name), plain(spines == 16 ? "full" : "4 to 1"),
                              plain(hashed ? "hashed" : "D-mod-k"), number(time[0] * 1e3, 1), number(time[1] * 1e3, 1),
                              number(gain, 3, "x"), number(bytes[0] * 1e-9, 1), number(bytes[1] * 1e-9, 1)});
        const auto at = static_cast<double>(chart.categories.size());
        chart.categories.push_back(
            fmt::format("p{} {} {}", pipeline, spines == 16 ? "full" : "4:1", hashed ? "hashed" : "D-mod-k"));
        chart.series[0].points.push_back({at, gain});
      }
    }
  }
  r.claims = {
      {"spine traffic of dense training on rails",
       plain("none: the spine may be left out"),
       Evidence::abstract_,
       {fmt::format("{:.1f} GB", rails_bytes * 1e-9), rails_bytes * 1e-9},
       rails_bytes < 1e6 ? Verdict::follows : Verdict::in_part,
       "GPUs of one number in their nodes meet on one leaf, and tensor groups never leave a node; what sums over all "
       "ranks at the end of a step is less than a megabyte"},
      {"step time on rails, over a plain fat tree of equal cost",
       plain("no loss"),
       Evidence::abstract_,
       {fmt::format("{:.2f}x to {:.2f}x as fast", least, most), most},
       least > 1.0 - 1e-3 ? Verdict::follows : Verdict::in_part,
       "with full bandwidth and D-mod-k a plain tree loses nothing either; where its cables are fewer, or hashed "
       "routes "
       "collide, rings that leave their leaf wait, and rails never leave theirs"}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {
      fmt::format("With full bandwidth and routes by destination the two tie ({:.3f}x).", full_by_destination),
      "Where a plain tree is oversubscribed or hashed, the same cables laid as rails are faster, since dense training "
      "sends nothing from rail to rail."};
  return r;
}

}  // namespace orrery
