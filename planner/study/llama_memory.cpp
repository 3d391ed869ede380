#include <fmt/format.h>

#include <cmath>

#include "core/record/rates.hpp"
#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"

// Experiments E17 and E18: published throughput and memory of LLaMA 7B and 65B
// on 32 GPUs under Gemini, which shards states over all of them.

namespace orrery {
namespace {

struct Run {
  const char* model;
  std::uint64_t sequence;
  double samples_per_s;
  double tflops;
  double megabytes;
  Evidence evidence;
};

constexpr Run runs[] = {{"llama-2-7b", 4096, 24.26, 167.43, 55491.0, Evidence::repository},
                        {"llama-65b", 2048, 5.29, 176.84, 58500.0, Evidence::thread}};

constexpr double gpus = 32.0;

/// Their convention: 8 FLOP per parameter and token, the recomputed forward pass counted.
double tflops(double parameters, double samples_per_s, double sequence) {
  return 8.0 * parameters * samples_per_s * sequence / gpus / 1e12;
}

}  // namespace

StudyResult llama_memory_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E17", "E18"};
  r.sources = {
      "Colossal-AI examples/language/llama README (read): 7B, 32 A800/H800, 16 sequences of 4096 a GPU, "
      "checkpointing, flash attention",
      "issue 4662, which quotes it: 65B, 32 GPUs"};
  r.inputs = {"models llama-2-7b (the shapes of LLaMA 7B) and llama-65b", "cluster dgx-a100", "calibration a100-80"};
  r.formulas = {"estimate", "Bytes of a parameter", "model_flops"};
  r.assumptions = {
      "TFLOP/s as published: 8 P tokens/s per GPU, backward twice and recomputation once the forward pass.",
      "A100 in place of A800, which is the same GPU with slower NVLink.",
      "65B at 2048 tokens: its own TFLOP/s fit that length, not 4096."};
  StudyTable table{"32 GPUs, bf16",
                   {"<model", "<plan", "step, s", "samples/s", "published", "TFLOP/s per GPU", "published", "state, GB",
                    "peak, GB", "published, GB"},
                   {}};
  Chart chart{"LLaMA on 32 GPUs: TFLOP/s per GPU, their convention",
              "",
              "TFLOP/s",
              false,
              false,
              {},
              {{"published", {}}, {"estimated", {}}}};
  for (std::size_t i = 0; i < std::size(runs); ++i) {
    const Run& run = runs[i];
    const ModelSpec model = study_model(library, run.model);
    const double parameters = static_cast<double>(parameter_count(model));
    const ClusterSpec cluster = study_cluster(library, "dgx-a100", 32);
    Workload workload = study_workload(i == 0 ? 512 : 64, run.sequence);
    workload.precision = Precision::bf16;
    workload.gradient_dtype = DType::bf16;
    Plan plan;
    plan.recompute = Recompute::full;
    plan.attention = AttentionKernel::flash;
    if (i == 0) {
      plan.name = "data 32, ZeRO-1";
      plan.mesh.axes = {{Axis::data, 32}};
      plan.microbatch_size = 16;
      plan.zero_stage = 1;
    } else {
      plan.name = "pipeline 4 x tensor 8";
      plan.mesh.axes = {{Axis::pipeline, 4}, {Axis::tensor, 8}};
      plan.sequence_parallel = true;
    }
    const PricedPlan p = priced(model, workload, cluster, study_calibration(library, cluster.device), plan);
    const double samples = static_cast<double>(workload.global_batch) / p.report.step_time.base();
    const double estimated = tflops(parameters, samples, static_cast<double>(run.sequence));
    const double repeated = tflops(parameters, run.samples_per_s, static_cast<double>(run.sequence));
    const double state = mean_state_bytes(p.report) / 1e9;
    const double peak = static_cast<double>(p.report.peak_memory_bytes) / 1e9;
    table.rows.push_back({plain(run.model), plain(plan.name), number(p.report.step_time.base(), 2), number(samples, 2),
                          number(run.samples_per_s, 2), number(estimated, 1), number(run.tflops, 1), number(state, 1),
                          number(peak, 1), number(run.megabytes / 1e3, 1)});
    chart.categories.emplace_back(run.model);
    chart.series[0].points.push_back({static_cast<double>(i), run.tflops});
    chart.series[1].points.push_back({static_cast<double>(i), estimated});
    r.claims.push_back({fmt::format("{}: TFLOP/s from its samples/s", run.model), number(run.tflops, 2), run.evidence,
                        number(repeated, 2),
                        std::abs(repeated / run.tflops - 1.0) < 0.005 ? Verdict::follows : Verdict::in_part,
                        "8 P tokens/s over 32 GPUs"});
    const double off = samples / run.samples_per_s - 1.0;
    r.claims.push_back(
        {fmt::format("{}: samples a second", run.model), number(run.samples_per_s, 2), run.evidence, number(samples, 2),
         i == 0 && std::abs(off) < 0.15 ? Verdict::follows : Verdict::in_part,
         i == 0 ? "the estimate of a data-parallel plan with sharded optimizer; Gemini also gathers weights, "
                  "which the measured step holds"
                : "a plan of tensor 8 and pipeline 4 in place of Gemini, 64 sequences a step; the batch is not "
                  "in the thread"});
    const double shared = 16.0 * parameters / gpus / 1e9;
    r.claims.push_back(
        {fmt::format("{}: memory per GPU, GB", run.model), number(run.megabytes / 1e3, 1), run.evidence,
         number(peak, 1), Verdict::in_part,
         fmt::format("states sharded over all are 16 P / 32 = {:.1f} GB, so the published figure is possible; "
                     "the rest is activations, logits, gathered layers and what the allocator holds. The plan "
                     "here cuts otherwise and holds {:.1f} GB of states: a peak of the same size is no proof",
                     shared, state)});
  }
  const double state_65b = 16.0 * static_cast<double>(parameter_count(study_model(library, "llama-65b"))) / gpus / 1e9;
  r.claims.push_back({"is 65B in 58.5 GB on each of 32 GPUs possible?", plain("asked"), Evidence::thread,
                      number(state_65b, 1, "GB of states"),
                      state_65b < 58.5 ? Verdict::follows : Verdict::does_not_follow,
                      "16 bytes a parameter over 32 GPUs leave 25 GB for activations and gathered layers"});
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {"65B on 32 GPUs of 80 GB is possible: its states take 32.6 GB of each.",
                   "The published TFLOP/s count recomputation; in model FLOPs they are three quarters of it."};
  return r;
}

}  // namespace orrery
