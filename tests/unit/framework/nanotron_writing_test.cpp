#include <algorithm>

#include "core/plan/limits.hpp"
#include "core/plan/plan_check.hpp"
#include "core/plan/plan_file.hpp"
#include "framework/nanotron/stages.hpp"
#include "framework/nanotron/writing.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

struct Sizes {
  std::uint32_t pipeline = 1, data = 1, context = 1, tensor = 1;
};

PlannedRun base(const char* model, const Sizes& s) {
  PlannedRun run;
  run.model = test::shipped_model(model);
  run.model_reference = model;
  run.plan.mesh.axes = {
      {Axis::pipeline, s.pipeline}, {Axis::data, s.data}, {Axis::context, s.context}, {Axis::tensor, s.tensor}};
  std::erase_if(run.plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
  run.plan.attention = AttentionKernel::flash;
  run.plan.overlap_gradients = true;
  run.plan.gradient_bucket = Bytes::of(25.0 * 1024 * 1024);
  run.plan.stage_layers = nanotron_stage_layers(run.model, s.pipeline);
  run.workload.sequence_length = 4096;
  run.workload.global_batch = std::uint64_t{8} * s.data;
  return run;
}

std::vector<Decision> said(Plan plan) {
  if (plan.mesh.size(Axis::pipeline) == 1) plan.stage_layers.reset();
  if (plan.mesh.size(Axis::data) * plan.mesh.size(Axis::context) == 1) {  // no gradients to reduce
    plan.gradient_bucket.reset();
    plan.overlap_gradients.reset();
  }
  std::erase_if(plan.mesh.axes, [](const MeshAxis& a) { return a.size == 1; });
  return decisions(plan);
}

void round_trip(const PlannedRun& run) {
  Diagnostics d;
  const auto text = write_nanotron(run, d);
  INFO(render(d));
  REQUIRE(text);
  INFO(*text);
  const Launched back = launched(*text, "run.yaml");
  INFO(render(back.diagnostics));
  REQUIRE(back.run);
  CHECK_FALSE(back.run->has(LaunchNote::Kind::not_expressible));
  const std::vector<Decision> want = said(run.plan), got = said(back.run->run.plan);
  REQUIRE(want.size() == got.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    INFO(want[i].key);
    CHECK(got[i].value == want[i].value);
  }
  Workload ours = run.workload, theirs = back.run->run.workload;
  CHECK(theirs.schedule.minimum_ratio == Approx(ours.schedule.minimum_ratio));  // a rate over a rate
  theirs.schedule.minimum_ratio = ours.schedule.minimum_ratio;
  theirs.gradient_dtype = ours.gradient_dtype;  // f32, said or not
  ours.origin = theirs.origin = {};
  CHECK((theirs == ours));
  ModelSpec model = run.model, same = back.run->run.model;
  same.name = model.name, same.source = model.source, same.origin = model.origin;
  model.rope_scaling.clear();  // which costs nothing
  model.rope_stretch = {};
  CHECK((same == model));
}

}  // namespace

TEST_CASE("Plans that nanotron can say read back as they were", "[framework][nanotron]") {
  int written = 0;
  for (const char* model : {"llama-3-8b", "qwen2.5-7b", "mistral-7b"}) {
    for (const std::uint32_t pipeline : {1U, 2U, 4U}) {
      for (const std::uint32_t data : {1U, 3U}) {
        for (const std::uint32_t context : {1U, 2U}) {
          for (const std::uint32_t tensor : {1U, 2U}) {
            for (const ScheduleName schedule : {ScheduleName::gpipe, ScheduleName::one_f_one_b}) {
              for (const Recompute recompute : {Recompute::none, Recompute::full}) {
                PlannedRun run = base(model, {pipeline, data, context, tensor});
                run.plan.schedule = schedule;
                run.plan.recompute = recompute;
                run.plan.sequence_parallel = tensor > 1 && written % 2 == 0;
                run.plan.zero_stage = data > 1 && context == 1 && written % 3 == 0 ? 1 : 0;
                run.plan.microbatch_size = 1 + written % 2;
                if (context > 1 && written % 2 == 0) run.plan.context = ContextAlgorithm::ring;
                if (written % 2 == 0) run.workload.clip_norm = 1.0;
                run.workload.precision = written % 5 == 0 ? Precision::fp32 : Precision::bf16;
                if (written % 3 != 0) run.workload.schedule = {ScheduleKind::cosine, 10, 200, 0.1};
                Diagnostics d;
                check(run.plan, run.model, run.workload, nullptr, d);
                INFO(render(d));
                REQUIRE(d.empty());
                round_trip(run);
                ++written;
              }
            }
          }
        }
      }
    }
  }
  CHECK(written == 288);  // 3 x 3 x 2 x 2 x 2 x 2 x 2
}

TEST_CASE("nanotron refuses each thing that it cannot launch", "[framework][nanotron]") {
  const auto codes = [](const Sizes& s, auto change) {
    PlannedRun run = base("llama-3-8b", s);
    change(run);
    Diagnostics d;
    CHECK_FALSE(write_nanotron(run, d));
    std::vector<std::string> out;
    for (const Diagnostic& m : d.list()) out.push_back(m.code);
    return out;
  };
  using Codes = std::vector<std::string>;
  const Sizes four{.data = 4};
  CHECK(codes(four, [](auto& r) { r.plan.zero_stage = 3; }) == Codes{"export.zero"});
  CHECK(codes({.data = 2, .context = 2}, [](auto& r) { r.plan.zero_stage = 1; }) == Codes{"export.zero"});
  CHECK(codes({.context = 2}, [](auto& r) { r.plan.zigzag = true; }) == Codes{"export.context"});
  CHECK(codes(four, [](auto& r) { r.plan.offload_activations = 8; }) == Codes{"export.offload"});
  CHECK(codes(four, [](auto& r) { r.plan.recompute = Recompute::selective; }) == Codes{"export.recompute"});
  CHECK(codes(four, [](auto& r) { r.workload.precision = Precision::fp8; }) == Codes{"export.precision"});
  CHECK(codes(four, [](auto& r) { r.workload.gradient_dtype = DType::bf16; }) == Codes{"export.gradients"});
  CHECK(codes(four, [](auto& r) { r.model = test::shipped_model("mixtral-8x7b"); }) == Codes{"export.model"});
  CHECK(codes({.pipeline = 2}, [](auto& r) { r.plan.schedule = ScheduleName::zb_h1; }) == Codes{"export.schedule"});
  CHECK(codes({.pipeline = 2}, [](auto& r) { r.plan.stage_layers = {{1, 31}}; }) == Codes{"export.layers"});
  CHECK(codes({.data = 2, .tensor = 2}, [](auto& r) {
          std::reverse(r.plan.mesh.axes.begin(), r.plan.mesh.axes.end());
        }) == Codes{"export.mesh-order"});
}

TEST_CASE("Plans within nanotron's abilities are never refused, split as it splits them", "[framework][nanotron]") {
  const Framework& room = *framework_named("nanotron");
  Diagnostics d;
  INFO(render(d));
  REQUIRE(d.empty());
  int within = 0, beyond = 0;
  for (std::uint32_t i = 0; i < 2000; ++i) {
    PlannedRun run = base("llama-3-8b", {1 + i % 2, 1 + i / 2 % 2, 1 + i / 4 % 2, 1 + i / 8 % 2});
    run.plan.schedule = static_cast<ScheduleName>(i / 16 % 3);
    run.plan.zero_stage = i / 3 % 4;
    run.plan.reshard_after_forward = true;
    run.plan.recompute = static_cast<Recompute>(i / 5 % 3);
    run.plan.zigzag = run.plan.mesh.size(Axis::context) > 1 && i / 7 % 2 == 0;
    run.plan.sequence_parallel = run.plan.mesh.size(Axis::tensor) > 1 && i / 11 % 2 == 0;
    Diagnostics wrong;
    check(run.plan, run.model, run.workload, nullptr, wrong);
    if (!wrong.empty()) continue;
    const bool keeps = abilities_of(room, run.model, run.workload).allow(run);
    Diagnostics refused;
    const bool good = write_nanotron(run, refused).has_value();
    INFO(render(refused));
    if (keeps) CHECK(good);
    ++(keeps ? within : beyond);
  }
  CHECK(within > 50);
  CHECK(beyond > 100);
}
