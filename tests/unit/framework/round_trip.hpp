#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/plan/limits.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "framework/framework.hpp"
#include "tests/unit/framework/launch_test.hpp"

namespace orrery {

/// Whether a framework's abilities and rules allow a run.
inline bool is_within(const Framework& f, const PlannedRun& run) {
  return abilities_of(f, run.model, run.workload).allow(run);
}

/// Valid, resolved plans of a model over sizes and choices that multiply to some thousands.
inline void each_plan(const std::string& model, const std::vector<Axis>& order,
                      const std::function<void(const PlannedRun&)>& visit) {
  PlannedRun run;
  run.model = test::shipped_model(model.c_str());
  run.model_reference = model;
  run.workload.sequence_length = 1024;
  const bool experts = run.model.mixture.has_value();
  std::uint64_t n = 0;
  const auto one_of = [&](std::initializer_list<std::uint64_t> values) {
    // A fixed generator: every run of the test sees the same plans.
    n = n * 6364136223846793005ULL + 1442695040888963407ULL;
    return *(values.begin() + (n >> 33) % values.size());
  };
  for (int i = 0; i < 6000; ++i) {
    Plan p;
    for (const Axis axis : order) {
      if (axis == Axis::expert && !experts) continue;
      const auto size = static_cast<std::uint32_t>(axis == Axis::data ? one_of({1, 2, 4}) : one_of({1, 1, 2}));
      p.mesh.axes.push_back({axis, size});
    }
    p.microbatch_size = static_cast<std::uint32_t>(one_of({1, 2}));
    run.workload.global_batch = p.microbatch_size * p.mesh.size(Axis::data) * p.mesh.size(Axis::replica) *
                                p.mesh.size(Axis::expert) * one_of({4, 8});
    run.workload.precision = one_of({0, 1}) != 0 ? Precision::bf16 : Precision::fp32;
    run.workload.gradient_dtype.reset();
    p.zero_stage = static_cast<std::uint32_t>(one_of({0, 1, 2, 3}));
    if (p.zero_stage == 3) {
      p.reshard_after_forward = one_of({0, 1}) != 0;
      p.prefetch = static_cast<std::uint32_t>(one_of({0, 1}));
    }
    if (p.mesh.size(Axis::pipeline) > 1) {
      p.schedule =
          std::vector{ScheduleName::one_f_one_b, ScheduleName::interleaved, ScheduleName::zb_v}[one_of({0, 1, 2})];
      if (p.schedule != ScheduleName::one_f_one_b) p.chunks = 2;
    }
    const std::uint32_t stages = p.mesh.size(Axis::pipeline) * p.chunks;
    std::vector<std::uint32_t> layers(stages, static_cast<std::uint32_t>(run.model.layers) / stages);
    layers.front() += static_cast<std::uint32_t>(run.model.layers) % stages;
    if (stages > 1 && one_of({0, 1}) != 0) --layers.front(), ++layers.back();
    if (p.mesh.size(Axis::context) > 1) {
      p.context = std::vector{ContextAlgorithm::all_gather, ContextAlgorithm::ring,
                              ContextAlgorithm::ulysses}[one_of({0, 1, 2})];
      p.zigzag = p.context != ContextAlgorithm::ulysses && one_of({0, 1}) != 0;
    }
    p.sequence_parallel = p.mesh.size(Axis::tensor) > 1 && one_of({0, 1}) != 0;
    if (one_of({0, 1}) != 0) {
      p.recompute = Recompute::full;
      if (one_of({0, 1}) != 0) {
        p.recompute_layers.emplace();
        for (std::uint32_t s = 0; s < stages; ++s) p.recompute_layers->push_back(std::min(s % 3 + 1, layers[s]));
      }
    }
    p.stage_layers = layers;
    p.offload_states = static_cast<std::uint32_t>(one_of({0, 0, 4, 8}));
    if (p.offload_states != 0U && one_of({0, 1}) != 0) p.states_tier = OffloadTier::disk;
    if (p.recompute == Recompute::full && one_of({0, 1}) != 0) p.offload_activations = 8;
    p.gradient_bucket = Bytes::of(static_cast<double>(one_of({48, 96})) * 1024 * 1024);
    p.overlap_gradients = one_of({0, 1}) != 0;
    p.attention = AttentionKernel::flash;
    run.plan = p;
    Diagnostics d;
    check(run.plan, run.model, run.workload, nullptr, d);
    if (d.empty()) visit(run);
  }
}

/// Keys of plans in which a run that was written and read again differs, of those that the file states.
inline std::vector<std::string> differences(const PlannedRun& written, const PlannedRun& read) {
  std::vector<std::string> out;
  for (const Axis axis : {Axis::pipeline, Axis::replica, Axis::data, Axis::context, Axis::expert, Axis::tensor}) {
    if (written.plan.mesh.size(axis) != read.plan.mesh.size(axis)) out.emplace_back(name_of(axis));
  }
  const std::vector<Decision> a = decisions(written.plan), b = decisions(read.plan);
  for (const Decision& one : a) {
    if (one.key.starts_with("mesh.")) continue;
    // Ranks that share no states shard nothing, whatever the stage.
    const bool of_zero =
        one.key == "plan.zero_stage" || one.key == "plan.reshard_after_forward" || one.key == "plan.prefetch";
    if (of_zero && shard_axes_of(written.plan).count == 0) continue;
    for (const Decision& other : b) {
      if (other.key == one.key && other.value != "auto" && other.value != "\"auto\"" && other.value != one.value)
        out.push_back(one.key + " " + one.value + " " + other.value);
    }
  }
  if (written.workload.global_batch != read.workload.global_batch) out.emplace_back("batch");
  if (written.workload.precision != read.workload.precision) out.emplace_back("precision");
  if (written.workload.optimizer != read.workload.optimizer) out.emplace_back("optimizer");
  return out;
}

/// Writes a run with a framework's writing and reads it again; batch and sequence are given where files do not say
/// them.
inline Launched written_and_read(const Framework& f, const PlannedRun& run, const std::string& file, bool gives_batch) {
  Diagnostics d;
  const auto text = f.writings.front().write(run, d);
  INFO(render(d));
  REQUIRE(text);
  LaunchInputs options = with_model(run.model_reference, static_cast<std::uint32_t>(run.plan.mesh.size()));
  options.set["sequence"] = std::to_string(run.workload.sequence_length);
  if (gives_batch) {
    options.set["batch"] = std::to_string(run.workload.global_batch);
    if (text->find("microbatch_size") == std::string::npos)
      options.set["mbs"] = std::to_string(run.plan.microbatch_size);
  }
  Launched out = launched(*text, file, options);
  INFO(*text);
  INFO(render(out.diagnostics));
  REQUIRE(out.run);
  return out;
}

}  // namespace orrery
