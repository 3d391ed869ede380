#include <algorithm>

#include "core/plan/compute_order.hpp"
#include "core/plan/limits.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "framework/torchtitan/writing.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

struct Sizes {
  std::uint32_t pipeline = 1, replica = 1, data = 1, expert = 1, context = 1, tensor = 1;
  [[nodiscard]] std::uint32_t world() const { return pipeline * replica * data * expert * context * tensor; }
};

PlannedRun base(const char* model, const Sizes& s) {
  PlannedRun run;
  run.model = test::shipped_model(model);
  run.model_reference = model;
  Plan& plan = run.plan;
  plan.mesh.axes = {{Axis::pipeline, s.pipeline}, {Axis::replica, s.replica}, {Axis::data, s.data},
                    {Axis::expert, s.expert},     {Axis::context, s.context}, {Axis::tensor, s.tensor}};
  std::erase_if(plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
  plan.sequence_parallel = s.tensor > 1;
  plan.zigzag = s.context > 1;
  plan.zero_stage = s.data * s.expert * s.context > 1 ? 3 : 0;
  plan.attention = AttentionKernel::flash;
  plan.overlap_gradients = true;
  plan.gradient_bucket = Bytes::of(1e8);
  run.workload.sequence_length = 4096;
  run.workload.clip_norm = 1.0;
  return run;
}

/// Layers in order: the first stages take what is left over.
void split(PlannedRun& run, std::uint32_t pipeline, std::uint32_t chunks) {
  run.plan.chunks = chunks;
  const std::uint32_t stages = pipeline * chunks;
  const auto layers = static_cast<std::uint32_t>(run.model.layers);
  std::vector<std::uint32_t> out(stages, layers / stages);
  for (std::uint32_t i = 0; i < layers % stages; ++i) ++out[i];
  run.plan.stage_layers = out;
}

bool passes(const PlannedRun& run) {
  Diagnostics d;
  check(run.plan, run.model, run.workload, nullptr, d);
  return d.empty();
}

/// What torchtitan has no key for is as Orrery chooses.
std::vector<Decision> said(Plan plan) {
  plan.gradient_bucket.reset();
  plan.overlap_gradients.reset();
  if (plan.mesh.size(Axis::pipeline) == 1) plan.stage_layers.reset();
  std::erase_if(plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
  return decisions(plan);
}

/// The plan's own decisions after writing and reading.
void round_trip(const PlannedRun& run) {
  Diagnostics d;
  const auto text = write_torchtitan(run, d);
  INFO(render(d));
  REQUIRE(text);
  INFO(*text);
  LaunchInputs options;
  options.gpus = static_cast<std::uint32_t>(run.plan.mesh.size());
  const Launched back = launched(*text, "run.toml", options);
  INFO(render(back.diagnostics));
  REQUIRE(back.run);
  CHECK_FALSE(back.run->has(LaunchNote::Kind::not_expressible));
  for (std::size_t i = 0; i < said(run.plan).size(); ++i) {
    const Decision want = said(run.plan)[i], got = said(back.run->run.plan)[i];
    INFO(want.key);
    CHECK(got.value == want.value);
  }
  Workload want = run.workload, got = back.run->run.workload;
  got.gradient_dtype = want.gradient_dtype;  // f32, said or not
  want.origin = got.origin = {};
  CHECK((got == want));
  CHECK(back.run->run.model.name == run.model.name);
}

std::vector<std::string> codes(const PlannedRun& run) {
  Diagnostics d;
  CHECK_FALSE(write_torchtitan(run, d));
  std::vector<std::string> out;
  for (const Diagnostic& m : d.list()) out.push_back(m.code);
  return out;
}

}  // namespace

TEST_CASE("Plans that torchtitan can say read back as they were", "[framework][torchtitan]") {
  int written = 0;
  const std::vector<std::pair<ScheduleName, std::uint32_t>> schedules{
      {ScheduleName::one_f_one_b, 1},   {ScheduleName::gpipe, 1}, {ScheduleName::interleaved, 3},
      {ScheduleName::breadth_first, 2}, {ScheduleName::zb_v, 2},  {ScheduleName::dualpipe_v, 2}};
  for (const std::uint32_t pipeline : {1U, 4U}) {
    for (const std::uint32_t replica : {1U, 2U}) {
      for (const std::uint32_t data : {2U, 3U}) {
        for (const std::uint32_t context : {1U, 2U}) {
          for (const std::uint32_t tensor : {1U, 2U}) {
            for (const auto& [schedule, chunks] : schedules) {
              if (pipeline == 1 && schedule != ScheduleName::one_f_one_b) continue;
              for (const Recompute recompute : {Recompute::none, Recompute::full}) {
                const Sizes s{
                    .pipeline = pipeline, .replica = replica, .data = data, .context = context, .tensor = tensor};
                PlannedRun run = base("llama-3.1-8b", s);
                split(run, pipeline, chunks);
                run.plan.schedule = schedule;
                run.plan.recompute = recompute;
                run.plan.microbatch_size = 1 + written % 2;
                run.plan.reshard_after_forward = written % 3 == 0;
                if (context > 1 && written % 2 == 0) run.plan.context = ContextAlgorithm::ring;
                run.workload.global_batch = std::uint64_t{16} * replica * data;
                run.workload.precision = written % 5 == 0 ? Precision::fp8 : Precision::bf16;
                run.workload.schedule = {ScheduleKind::cosine, 10, 200, 0.1};
                REQUIRE(passes(run));
                round_trip(run);
                ++written;
              }
            }
          }
        }
      }
    }
  }
  CHECK(written == 224);  // 2 x 2 x 2 x 2 x 2 with one schedule and with six, over pipelines of 1 and of 4
}

TEST_CASE("Mixtures, replicas, fp32 and every third layer are said too", "[framework][torchtitan]") {
  PlannedRun mixture = base("qwen3-30b-a3b", {.data = 2, .expert = 8, .tensor = 2});
  split(mixture, 1, 1);
  mixture.workload.global_batch = 64;
  REQUIRE(passes(mixture));
  round_trip(mixture);

  PlannedRun ddp = base("llama-3.1-8b", {.replica = 8});
  split(ddp, 1, 1);
  ddp.workload.global_batch = 64;
  ddp.workload.clip_norm.reset();
  round_trip(ddp);

  PlannedRun fp32 = base("llama-3.1-8b", {.pipeline = 2, .tensor = 4});
  split(fp32, 2, 1);
  fp32.workload.global_batch = 8;
  fp32.workload.precision = Precision::fp32;
  fp32.plan.recompute = Recompute::full;
  fp32.plan.recompute_layers = std::vector<std::uint32_t>{5, 5};  // 16 / 3
  round_trip(fp32);
}

TEST_CASE("A schedule of one's own stands in comments for the file that is named", "[framework][torchtitan]") {
  PlannedRun run = base("llama-3.1-8b", {.pipeline = 2, .data = 2});
  split(run, 2, 1);
  Diagnostics d;
  run.plan.schedule = ScheduleName::custom;
  run.plan.order = read_order("orrery-order 1\n0F0 0F1 0B0 0B1\n1F0 1B0 1F1 1B1\n", "", d)->ranks;
  run.workload.global_batch = 4;
  const auto text = write_torchtitan(run, d);
  REQUIRE(text);
  CHECK(text->find("#   1F0,1B0,1F1,1B1\n") != std::string::npos);
  CHECK(text->find("pipeline_parallel_schedule_csv = \"schedule.csv\"") != std::string::npos);
}

TEST_CASE("torchtitan refuses each thing that it cannot launch", "[framework][torchtitan]") {
  const auto changed = [](const Sizes& s, auto change) {
    PlannedRun run = base("llama-3.1-8b", s);
    split(run, s.pipeline, 1);
    run.workload.global_batch = 64;
    change(run);
    return codes(run);
  };
  using Codes = std::vector<std::string>;
  const Sizes four{.data = 4}, two_by_two{.pipeline = 2, .data = 2};
  CHECK(changed(four, [](auto& r) { r.plan.zero_stage = 1; }) == Codes{"export.zero"});
  CHECK(changed(four, [](auto& r) { r.plan.offload_states = 8; }) == Codes{"export.offload"});
  CHECK(changed(four, [](auto& r) { r.plan.prefetch = 0; }) == Codes{"export.zero"});
  CHECK(changed(four, [](auto& r) { r.plan.attention = AttentionKernel::unfused; }) == Codes{"export.algorithm"});
  CHECK(changed(four, [](auto& r) { r.plan.placement = {1, 0, 2, 3}; }) == Codes{"export.placement"});
  CHECK(changed(four, [](auto& r) { r.workload.precision = Precision::fp16; }) == Codes{"export.precision"});
  CHECK(changed(four, [](auto& r) { r.workload.optimizer.kind = OptimizerKind::lamb; }) == Codes{"export.optimizer"});
  CHECK(changed(four, [](auto& r) { r.model = test::shipped_model("gpt2-124m"); }) == Codes{
                                                                                          "export.model",
                                                                                      });
  CHECK(changed(two_by_two, [](auto& r) { r.plan.schedule = ScheduleName::zb_h1; }) == Codes{"export.schedule"});
  CHECK(changed({.data = 2, .tensor = 2}, [](auto& r) { r.plan.sequence_parallel = false; }) ==
        Codes{"export.sequence-parallel"});
  CHECK(changed({.data = 2, .context = 2}, [](auto& r) { r.plan.zigzag = false; }) == Codes{"export.context"});
  CHECK(changed({.tensor = 2}, [](auto&) {}) == Codes{"export.precision"});
  CHECK(changed(two_by_two, [](auto& r) { std::reverse(r.plan.mesh.axes.begin(), r.plan.mesh.axes.end()); }) ==
        Codes{"export.mesh-order"});
}

TEST_CASE("Plans within torchtitan's abilities are never refused", "[framework][torchtitan]") {
  const Framework& titan = *framework_named("torchtitan");
  const auto keeps = [&](const PlannedRun& run) { return abilities_of(titan, run.model, run.workload).allow(run); };
  int within = 0, beyond = 0;
  for (const char* model : {"llama-3.1-8b", "qwen3-30b-a3b"}) {
    for (std::uint32_t i = 0; i < 2000; ++i) {
      const Sizes s{1 + i % 2, 1 + i / 2 % 2, 1 + i / 4 % 2, 1 + i / 8 % 2, 1 + i / 16 % 2, 1 + i / 32 % 2};
      PlannedRun run = base(model, s);
      run.plan.schedule = static_cast<ScheduleName>(i / 64 % 8);
      split(run, s.pipeline,
            run.plan.schedule == ScheduleName::interleaved || run.plan.schedule == ScheduleName::zb_v ? 2 : 1);
      run.plan.zero_stage = i / 3 % 4;
      run.plan.recompute = static_cast<Recompute>(i / 5 % 3);
      run.plan.zigzag = s.context > 1 && i / 7 % 2 == 0;
      run.workload.global_batch = 32;
      if (!passes(run)) continue;
      Diagnostics refused;
      const bool good = write_torchtitan(run, refused).has_value();
      INFO(render(refused));
      if (keeps(run)) {
        CHECK(good);
        ++within;
      } else {
        ++beyond;
      }
    }
  }
  CHECK(within > 20);
  CHECK(beyond > 100);
}
