#include "tests/golden/history_cases.hpp"

#include <fmt/format.h>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration.hpp"
#include "sim/des/jobs.hpp"
#include "tests/golden/golden_cases.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {

namespace {

/// Four nodes of two GPUs on two leaves, with half the bandwidth between them; a fifth of the links give half.
Fabric fabric() {
  FabricSpec spec;
  spec.name = "golden";
  spec.nodes = 4;
  spec.node = {.gpus = 2, .nics = 1, .vertices = {"gpu0", "gpu1", "nic0", "switch0"}, .wires = {}};
  const auto link = [](LinkKind kind, double bandwidth) {
    return Link{kind, Bandwidth::of(bandwidth), Seconds::of(1e-6)};
  };
  for (std::uint32_t v = 0; v < 3; ++v) {
    spec.node.wires.push_back({v, 3, link(LinkKind::nvlink, v < 2 ? 100e9 : 12e9)});
  }
  spec.network = TreeNetwork{{{2, 1, link(LinkKind::network, 10e9)}, {2, 2, link(LinkKind::network, 2.5e9)}}, false};
  spec.degraded = {.share = 0.2, .factor = 0.5, .seed = 7};
  return Fabric(spec);
}

/// The same plan with more ranks, so that there is something to share.
PlannedRun wider(PlannedRun run) {
  run.workload.global_batch = 16;
  for (MeshAxis& a : run.plan.mesh.axes) {
    if (a.axis == Axis::data) a.size *= 2;
  }
  return run;
}

}  // namespace

std::vector<History> play_histories() {
  std::vector<History> out;
  const Fabric links = fabric();
  ClusterSpec cluster = small_cluster(4, 2, 64.0 * gibibyte);
  for (const Precision p : {Precision::fp16, Precision::fp32}) {
    cluster.device.peak[p] = cluster.device.peak[Precision::bf16];
  }
  std::vector<PlannedRun> runs;
  std::vector<Program> programs;
  for (const GoldenCase& c : golden_cases()) {
    runs.push_back(wider(c.run));
    runs.back().plan.name = c.name;
    runs.back().cluster = cluster;
    programs.push_back(lower(runs.back().model, runs.back().workload, runs.back().plan));
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const CostModel costs(cluster, Calibration{}, runs[i].plan.mesh, {}, std::nullopt);
    const auto play = [&](const char* how, const SimulateOptions& options) {
      out.push_back({runs[i].plan.name + "." + how, simulate(runs[i], programs[i], costs, options).history_hash});
    };
    play("alone", {});
    play("expanded", {.expand = true});
    play("by-destination", {.fabric = FabricRoutes{&links, PathRule::by_destination, 0}});
    play("hashed", {.fabric = FabricRoutes{&links, PathRule::hashed, 3}});
    play("rail-local", {.expand = true, .fabric = FabricRoutes{&links, PathRule::rail_local, 0}});
    play("stragglers", {.stragglers = Stragglers{5, 1, 1.5}});
    play("noise", {.noise = Noise{5, 0.1}, .fabric = FabricRoutes{&links, PathRule::hashed, 3}});
  }
  for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
    // The jobs take GPUs in turn, so that they meet in nodes and between leaves.
    std::vector<std::uint32_t> left, right;
    for (std::uint32_t r = 0; r < runs[i].plan.mesh.size(); ++r) left.push_back(2 * r);
    for (std::uint32_t r = 0; r < runs[i + 1].plan.mesh.size(); ++r) right.push_back(2 * r + 1);
    const CostModel a(cluster, Calibration{}, runs[i].plan.mesh, left, std::nullopt);
    const CostModel b(cluster, Calibration{}, runs[i + 1].plan.mesh, right, std::nullopt);
    JobsOptions options;
    options.fabric = {&links, PathRule::by_destination, 0};
    options.steps = 2;
    const JobsSimulation both =
        simulate_jobs({{&runs[i], &programs[i], &a, left}, {&runs[i + 1], &programs[i + 1], &b, right}}, options);
    out.push_back({runs[i].plan.name + "+" + runs[i + 1].plan.name, both.history_hash});
  }
  return out;
}

std::string histories_text(const std::vector<History>& histories) {
  std::string out;
  for (const History& h : histories) out += fmt::format("{} {:016x}\n", h.name, h.hash);
  return out;
}

std::string histories_path() { return std::string(ORRERY_SOURCE_DIR) + "/tests/golden/histories.txt"; }

}  // namespace orrery::test
