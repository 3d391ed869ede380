#include "tests/perf/prediction/cases.hpp"

#include <fmt/format.h>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery {

namespace {

/// Decisions that differ between cases; the rest has one value below.
struct Choice {
  std::string name;
  bool llama = false;
  std::uint64_t hidden = 128;
  Precision precision = Precision::fp32;
  std::uint32_t pipeline = 1;
  std::uint32_t data = 1;
  std::uint32_t tensor = 1;
  std::uint32_t microbatch = 2;
  std::uint64_t batch = 8;
  std::uint64_t length = 64;
  Recompute recompute = Recompute::none;
  AttentionKernel attention = AttentionKernel::unfused;
  ScheduleName schedule = ScheduleName::one_f_one_b;
  bool sequence_parallel = false;
  std::uint32_t zero = 0;
  double dropout = 0.0;
};

PredictionCase make(const Choice& c) {
  PlannedRun run;
  test::Size size{.layers = 4, .hidden = c.hidden, .vocabulary = 512, .positions = c.length, .tied = !c.llama};
  if (c.llama) {
    size.kv_heads = 2;
    size.ffn = 344 * c.hidden / 128;
  }
  const ModelSpec m = c.llama ? test::tiny_llama(size) : test::tiny_gpt(size);
  run.model = m;
  run.workload.global_batch = c.batch;
  run.workload.sequence_length = c.length;
  run.workload.precision = c.precision;
  run.workload.clip_norm = 1.0;
  run.workload.hidden_dropout = c.dropout;
  run.workload.attention_dropout = c.dropout;
  Plan& p = run.plan;
  p.name = c.name;
  p.mesh = Mesh{{{Axis::pipeline, c.pipeline}, {Axis::data, c.data}, {Axis::tensor, c.tensor}}};
  p.microbatch_size = c.microbatch;
  p.schedule = c.schedule;
  p.stage_layers = std::vector<std::uint32_t>(c.pipeline, static_cast<std::uint32_t>(m.layers / c.pipeline));
  p.sequence_parallel = c.sequence_parallel;
  p.recompute = c.recompute;
  p.zero_stage = c.zero;
  p.gradient_bucket = Bytes::of(4e6);
  p.overlap_gradients = true;
  p.attention = c.attention;
  Diagnostics diagnostics;
  check(p, m, run.workload, nullptr, diagnostics);
  if (!diagnostics.empty()) throw Error(render(diagnostics));
  return {c.name, run};
}

}  // namespace

std::vector<PredictionCase> prediction_cases() {
  std::vector<Choice> list;
  const auto add = [&](std::string name) -> Choice& {
    list.emplace_back();
    list.back().name = std::move(name);
    return list.back();
  };
  add("gpt fp32");
  add("gpt fp64").precision = Precision::fp64;
  {
    Choice& c = add("gpt bf16, hidden 256, full recompute");
    c.precision = Precision::bf16;
    c.hidden = 256;
    c.recompute = Recompute::full;
  }
  {
    Choice& c = add("gpt fp32, hidden 256, dropout");
    c.hidden = 256;
    c.dropout = 0.1;
  }
  {
    Choice& c = add("llama fp32, flash, length 128");
    c.llama = true;
    c.attention = AttentionKernel::flash;
    c.length = 128;
  }
  {
    Choice& c = add("llama fp16, hidden 192");
    c.llama = true;
    c.hidden = 192;
    c.precision = Precision::fp16;
  }
  add("gpt fp32, data 2").data = 2;
  add("gpt fp32, tensor 2").tensor = 2;
  add("gpt fp32, pipeline 2").pipeline = 2;
  {
    Choice& c = add("gpt bf16, data 2, ZeRO-1, hidden 256");
    c.precision = Precision::bf16;
    c.data = 2;
    c.zero = 1;
    c.hidden = 256;
  }
  {
    Choice& c = add("llama fp64, tensor 2, sequence parallel");
    c.llama = true;
    c.precision = Precision::fp64;
    c.tensor = 2;
    c.sequence_parallel = true;
  }
  {
    Choice& c = add("llama fp32, pipeline 2, GPipe, flash, hidden 256");
    c.llama = true;
    c.pipeline = 2;
    c.schedule = ScheduleName::gpipe;
    c.attention = AttentionKernel::flash;
    c.hidden = 256;
  }
  {
    Choice& c = add("gpt fp32, tensor 2, selective recompute, hidden 256");
    c.tensor = 2;
    c.recompute = Recompute::selective;
    c.hidden = 256;
  }
  {
    Choice& c = add("gpt fp32, data 2 x tensor 2");
    c.data = 2;
    c.tensor = 2;
  }
  {
    Choice& c = add("gpt fp32, pipeline 4");
    c.pipeline = 4;
    c.microbatch = 1;
  }
  {
    Choice& c = add("gpt fp32, tensor 4, hidden 256");
    c.tensor = 4;
    c.hidden = 256;
  }
  {
    Choice& c = add("llama fp32, data 2 x pipeline 2, hidden 256");
    c.llama = true;
    c.data = 2;
    c.pipeline = 2;
    c.hidden = 256;
  }
  {
    Choice& c = add("gpt fp32, data 2 x tensor 2 x pipeline 2");
    c.data = 2;
    c.tensor = 2;
    c.pipeline = 2;
  }
  std::vector<PredictionCase> cases;
  for (const Choice& c : list) cases.push_back(make(c));
  return cases;
}

}  // namespace orrery
