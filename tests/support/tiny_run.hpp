#pragma once

#include <vector>

#include "core/plan/plan.hpp"

namespace orrery::test {

/// A tiny GPT in fp32, with a layer for each of the stages, on a mesh; each stage reduces its gradients as one.
inline PlannedRun tiny_run(Mesh mesh, std::uint32_t batch) {
  PlannedRun run;
  run.model.name = "tiny";
  run.model.hidden = 8;
  run.model.heads = 2;
  run.model.kv_heads = 2;
  run.model.head_dim = 4;
  run.model.ffn = 16;
  run.model.vocabulary = 10;
  run.model.max_positions = 8;
  run.workload.global_batch = batch;
  run.workload.sequence_length = 8;
  run.workload.precision = Precision::fp32;
  run.plan.mesh = std::move(mesh);
  run.model.layers = run.plan.mesh.size(Axis::pipeline);
  run.plan.stage_layers = std::vector<std::uint32_t>(run.plan.mesh.size(Axis::pipeline), 1);
  run.plan.gradient_bucket = Bytes::of(0);
  run.plan.overlap_gradients = true;
  run.plan.attention = AttentionKernel::unfused;
  return run;
}

}  // namespace orrery::test
