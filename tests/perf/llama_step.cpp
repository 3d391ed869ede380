#include "tests/perf/llama_step.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "core/base/toml_reader.hpp"
#include "core/plan/plan_file.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/spec/library.hpp"

namespace orrery::perf {

LlamaStep llama_step(std::uint32_t gpus, bool stages_outside) {
  Diagnostics wrong;
  const Library library(ORRERY_SOURCE_DIR "/models");
  std::optional<PlannedRun> run = read_plan_file(library.plan("llama-3-405b-16384-h100"), library, std::nullopt, wrong);
  const std::optional<ClusterSpec> cluster = library.cluster("dgx-h100", {}, gpus, wrong);
  const auto calibration =
      cluster ? read_calibration(library.calibration(cluster->device.calibration), wrong) : std::nullopt;
  const auto file = library.fabric("h100-131072", wrong);
  std::optional<std::string> text = file ? read_text(*file, wrong) : std::nullopt;
  std::optional<FabricSpec> spec = text ? parse_fabric(std::move(*text), file->string(), wrong) : std::nullopt;
  if (!run || !cluster || !calibration || !spec) {
    std::cerr << render(wrong);
    std::exit(2);
  }
  run->cluster = *cluster;
  spec->nodes = gpus / 8;
  const std::uint32_t stages = std::min(16U, gpus / 8), pipelines = gpus / 8 / stages;
  const MeshAxis pipeline{Axis::pipeline, stages}, data{Axis::data, pipelines};
  run->plan.mesh.axes = {data, pipeline, {Axis::tensor, 8}};
  if (stages_outside) std::swap(run->plan.mesh.axes[0], run->plan.mesh.axes[1]);
  run->workload.global_batch = 16ULL * pipelines;
  std::vector<std::uint32_t> layers(stages, 128 / stages);
  --layers.front();
  --layers.back();
  run->plan.stage_layers = layers;
  return {std::move(*run), *calibration, Fabric(std::move(*spec))};
}

Simulation play(const LlamaStep& step, PathRule rule, const std::optional<Stragglers>& stragglers) {
  const Program program = lower(step.run.model, step.run.workload, step.run.plan);
  const CostModel costs(*step.run.cluster, step.calibration, step.run.plan.mesh);
  SimulateOptions options;
  options.trace = SimulateOptions::Ranks::none;
  options.fabric = FabricRoutes{&step.fabric, rule, 1};
  options.stragglers = stragglers;
  return simulate(step.run, program, costs, options);
}

}  // namespace orrery::perf
