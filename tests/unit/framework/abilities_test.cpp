#include <algorithm>

#include "framework/launch/plan_refusals.hpp"
#include "framework/nanotron/stages.hpp"
#include "tests/unit/framework/launch_test.hpp"

using namespace orrery;

namespace {

PlannedRun base(const char* framework, const char* model = "llama-3.1-8b") {
  PlannedRun run;
  run.model = test::shipped_model(model);
  run.model_reference = model;
  run.framework = framework;
  run.workload.global_batch = 64;
  run.workload.sequence_length = 4096;
  return run;
}

std::vector<std::string> codes(const PlannedRun& run) {
  Diagnostics d;
  check_framework(run, d);
  std::vector<std::string> out;
  for (const Diagnostic& m : d.list()) out.push_back(m.code);
  return out;
}
using Codes = std::vector<std::string>;

}  // namespace

TEST_CASE("What a framework cannot train is said of every plan that is for it", "[framework]") {
  PlannedRun dropout = base("torchtitan");
  CHECK(codes(dropout).empty());
  dropout.workload.hidden_dropout = 0.1;
  CHECK(codes(dropout) == Codes{"export.model"});
  CHECK(codes(base("torchtitan", "mistral-7b")) == Codes{"export.model"});
  CHECK(codes(base("nanotron", "mixtral-8x7b")) == Codes{"export.model"});
  CHECK(codes(base("megatron-core", "bert-base")).front() == "export.architecture");
  PlannedRun fp8 = base("deepspeed");
  fp8.workload.precision = Precision::fp8;
  CHECK(codes(fp8) == Codes{"export.precision"});
}

TEST_CASE("A plan that is for a framework keeps to its order of axes and to its split of layers", "[framework]") {
  PlannedRun run = base("nanotron");
  run.plan.mesh.axes = {{Axis::tensor, 2}, {Axis::data, 2}};
  CHECK(codes(run) == Codes{"framework.cannot"});
  std::reverse(run.plan.mesh.axes.begin(), run.plan.mesh.axes.end());
  CHECK(codes(run).empty());
  run.plan.mesh.axes = {{Axis::pipeline, 4}};
  CHECK(codes(run).empty());  // what is open passes
  run.plan.stage_layers = {{8, 8, 8, 8}};
  REQUIRE(nanotron_stage_layers(run.model, 4) != run.plan.stage_layers);  // the head counts there
  CHECK(codes(run) == Codes{"framework.cannot"});
}

TEST_CASE("What a plan leaves open becomes what its framework launches", "[framework]") {
  PlannedRun run = base("nanotron");
  run.plan.mesh.axes = {{Axis::pipeline, 4}, {Axis::data, 2}};
  close_for_framework(run);
  CHECK(run.plan.stage_layers == nanotron_stage_layers(run.model, 4));
  CHECK(run.plan.attention == AttentionKernel::flash);
  CHECK(run.plan.overlap_gradients == true);
  // Without ZeRO DeepSpeed sums gradients behind the backward pass.
  PlannedRun ddp = base("deepspeed");
  ddp.plan.mesh.axes = {{Axis::data, 8}};
  close_for_framework(ddp);
  CHECK(ddp.plan.overlap_gradients == false);
  PlannedRun any = base("");
  const Plan before = any.plan;
  close_for_framework(any);
  CHECK(any.plan == before);
}

TEST_CASE("Rules of a model and of an optimizer limit the plans for them alone", "[framework]") {
  const auto allowed = [](PlannedRun run, auto change) {
    change(run);
    return abilities_of(*framework_named(run.framework), run.model, run.workload).allow(run);
  };
  const auto sharded = [](PlannedRun& r) {
    r.plan.mesh.axes = {{Axis::data, 8}};
    r.plan.zero_stage = 1;
    r.plan.overlap_gradients = false;
    r.plan.attention = AttentionKernel::flash;
  };
  CHECK(allowed(base("deepspeed"), sharded));
  PlannedRun lamb = base("deepspeed");
  lamb.workload.optimizer.kind = OptimizerKind::lamb;
  CHECK_FALSE(allowed(lamb, sharded));
  const auto split = [](PlannedRun& r) {
    r.plan.mesh.axes = {{Axis::pipeline, 2}, {Axis::data, 4}};
    r.plan.zero_stage = 3;
    r.plan.overlap_gradients = true;
    r.plan.attention = AttentionKernel::flash;
  };
  CHECK(allowed(base("torchtitan"), split));
  CHECK_FALSE(allowed(base("torchtitan", "qwen3-0.6b"), split));  // tied to the embedding of the first stage
}

// 32 query heads and 8 key-value heads.
TEST_CASE("Ranks share key-value heads where a framework launches that, and its writer refuses it elsewhere",
          "[framework]") {
  const auto run_of = [](const Framework& f, Mesh mesh) {
    PlannedRun run = base(std::string(f.name).c_str());
    run.plan.mesh = std::move(mesh);
    run.plan.zero_stage = f.name == "accelerate" || f.name == "torchtitan" ? 3 : 0;
    if (f.name == "torchtitan" || f.name == "megatron-core") run.plan.sequence_parallel = true;
    if (run.plan.mesh.size(Axis::context) > 1) run.plan.context = ContextAlgorithm::ulysses;
    close_for_framework(run);
    run.plan.overlap_gradients = run.plan.overlap_gradients.value_or(true);
    run.plan.attention = AttentionKernel::flash;
    run.plan.stage_layers = {{32}};
    run.plan.gradient_bucket = Bytes::of(40e6);
    return run;
  };
  const auto refused = [](const Framework& f, const PlannedRun& run) {
    Diagnostics d;
    static_cast<void>(f.writings.front().write(run, d));
    return std::any_of(d.list().begin(), d.list().end(),
                       [](const Diagnostic& m) { return m.code == "export.kv-heads"; });
  };
  const auto has = [](const std::vector<std::string>& all, const char* reason, const PlannedRun& run) {
    Diagnostics d;
    check_framework(run, d);
    return !all.empty() && render(d).find(reason) != std::string::npos;
  };
  for (const Framework& f : frameworks()) {
    if (f.writings.empty()) continue;
    INFO(f.name);
    const PlannedRun whole = run_of(f, Mesh{{{Axis::data, 2}, {Axis::tensor, 8}}});
    const PlannedRun shared = run_of(f, Mesh{{{Axis::data, 2}, {Axis::tensor, 16}}});
    const char* reason = "tensor ranks have whole key-value heads";
    CHECK_FALSE(refused(f, whole));
    CHECK_FALSE(has(codes(whole), reason, whole));
    CHECK(refused(f, shared) == (f.name != "megatron-core"));
    CHECK(has(codes(shared), reason, shared) == (f.name != "megatron-core"));
  }
  for (const Framework* f :
       {framework_named("megatron-core"), framework_named("deepspeed"), framework_named("colossal-ai")}) {
    INFO(f->name);
    const PlannedRun run = run_of(*f, Mesh{{{Axis::data, 2}, {Axis::context, 16}}});
    const char* reason = "context ranks of Ulysses have whole key-value heads";
    CHECK(refused(*f, run) == (f->name != "deepspeed"));
    CHECK(has(codes(run), reason, run) == (f->name != "deepspeed"));
  }
}

TEST_CASE("The refusal of shared key-value heads names the sizes", "[framework]") {
  PlannedRun run = base("nanotron");
  run.plan.mesh.axes = {{Axis::tensor, 16}};
  run.plan.origin = {};
  Diagnostics d;
  PlanRefusals(run, "nanotron", d).whole_kv_heads();
  CHECK(render(d) ==
        "error: nanotron gives each tensor rank whole key-value heads [export.kv-heads]\n"
        "  tensor is 16, and kv_heads 8.\n"
        "  Set tensor to 8 or a divisor of it.\n");
  run.plan.mesh.axes = {{Axis::context, 16}};
  run.plan.context = ContextAlgorithm::ulysses;
  Diagnostics e;
  PlanRefusals(run, "Colossal-AI", e).whole_kv_heads_of_ulysses();
  CHECK(render(e) ==
        "error: Colossal-AI gives each rank of Ulysses whole key-value heads [export.kv-heads]\n"
        "  tensor 1 x context 16 is more than the 8 key-value heads of the model.\n"
        "  Set context to a smaller size, or to another algorithm.\n");
}

TEST_CASE("Every writer refuses an order of microbatches that it does not launch without a pipeline", "[framework]") {
  for (const Framework& f : frameworks()) {
    if (f.writings.empty()) continue;
    INFO(f.name);
    PlannedRun run = base("");
    run.plan.mesh.axes = {{Axis::data, 2}};
    run.plan.schedule = ScheduleName::breadth_first;
    run.plan.chunks = 4;
    run.plan.stage_layers = {{8, 8, 8, 8}};
    run.plan.zero_stage = f.name == "accelerate" || f.name == "torchtitan" ? 3 : f.name == "deepspeed" ? 1 : 0;
    run.plan.overlap_gradients = true;
    run.plan.attention = AttentionKernel::flash;
    run.plan.gradient_bucket = Bytes::of(40e6);
    Diagnostics d;
    CHECK_FALSE(f.writings.front().write(run, d));
    const bool said =
        std::any_of(d.list().begin(), d.list().end(), [](const Diagnostic& m) { return m.code == "export.schedule"; });
    INFO(render(d));
    CHECK(said);
  }
}

TEST_CASE("Llama-3 is torchtitan's flavor of that shape, and a comment says what differs", "[framework][torchtitan]") {
  for (const auto& [model, flavor] :
       {std::pair{"llama-3-8b", "8B"}, {"llama-3-70b", "70B"}, {"llama-3-405b", "405B"}}) {
    PlannedRun run = base("torchtitan", model);
    run.plan.mesh.axes = {{Axis::data, 8}};
    run.plan.zero_stage = 3;
    close_for_framework(run);
    run.plan.stage_layers = {{static_cast<std::uint32_t>(run.model.layers)}};
    run.plan.gradient_bucket = Bytes::of(40e6);
    Diagnostics d;
    const auto text = framework_named("torchtitan")->writings.front().write(run, d);
    INFO(render(d));
    REQUIRE(text);
    CHECK(text->find(std::string("flavor = \"") + flavor + "\"") != std::string::npos);
    CHECK(text->find(std::string("which ") + model + " does not") != std::string::npos);
    // The shapes are equal but for the stretch and the longest sequence that weights were trained for.
    ModelSpec other = test::shipped_model(("llama-3.1-" + std::string(model).substr(8)).c_str());
    ModelSpec same = run.model;
    same.name = other.name, same.source = other.source, same.max_positions = other.max_positions;
    same.rope_scaling = other.rope_scaling, same.rope_stretch = other.rope_stretch;
    CHECK((same == other));
  }
}
