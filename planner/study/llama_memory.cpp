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
constexpr std::uint32_t sequences_65b = 4;  // per GPU; not in the thread

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
                   {"<model", "<plan", "step, s", "samples/s", "published", "TFLOP/s per GPU", "published",
                    "with weights at peak, GB", "peak, GB", "published, GB"},
                   {}};
  Chart chart{"LLaMA on 32 GPUs: TFLOP/s per GPU, their convention",
              "",
              "TFLOP/s",
              false,
              false,
              {},
              {{"published", {}}, {"estimated", {}}}};
  double last_peak = 0.0;
  for (std::size_t i = 0; i < std::size(runs); ++i) {
    const Run& run = runs[i];
    const ModelSpec model = study_model(library, run.model);
    const double parameters = static_cast<double>(parameter_count(model));
    const ClusterSpec cluster = study_cluster(library, "dgx-a100", 32);
    Workload workload = study_workload(32 * (i == 0 ? 16 : sequences_65b), run.sequence);
    workload.precision = Precision::bf16;
    workload.gradient_dtype = DType::bf16;
    Plan plan;
    plan.recompute = Recompute::full;
    plan.attention = AttentionKernel::flash;
    plan.name = "data 32, ZeRO-3";
    plan.mesh.axes = {{Axis::data, 32}};
    plan.microbatch_size = i == 0 ? 16 : sequences_65b;
    plan.zero_stage = 3;
    const PricedPlan p = priced(model, workload, cluster, study_calibration(library, cluster.device), plan);
    const double samples = static_cast<double>(workload.global_batch) / p.report.step_time.base();
    const double estimated = tflops(parameters, samples, static_cast<double>(run.sequence));
    const double repeated = tflops(parameters, run.samples_per_s, static_cast<double>(run.sequence));
    const double state = mean_state_bytes(p.report) / 1e9;
    const double peak = static_cast<double>(p.report.peak_memory_bytes) / 1e9;
    last_peak = peak;
    table.rows.push_back({plain(run.model), plain(plan.name), number(p.report.step_time.base(), 2), number(samples, 2),
                          number(run.samples_per_s, 2), number(estimated, 1), number(run.tflops, 1), number(state, 1),
                          number(peak, 1), number(run.megabytes / 1e3, 1)});
    chart.categories.emplace_back(run.model);
    chart.series[0].points.push_back({static_cast<double>(i), run.tflops});
    chart.series[1].points.push_back({static_cast<double>(i), estimated});
    r.claims.push_back({fmt::format("{}: TFLOP/s from its samples/s", run.model), number(run.tflops, 2), run.evidence,
                        number(repeated, 2), judged(repeated, run.tflops), "8 P tokens/s over 32 GPUs"});
    const double off = samples / run.samples_per_s - 1.0;
    r.claims.push_back(
        {fmt::format("{}: samples a second", run.model), number(run.samples_per_s, 2), run.evidence, number(samples, 2),
         i == 0 && std::abs(off) < 0.15 ? Verdict::follows : Verdict::in_part,
         i == 0 ? "the estimate lets kernels reach a tuned share of the peak and gathers weights beside them; the "
                  "measured "
                  "step holds what Gemini's chunks, hooks and the optimizer's host work add"
                : "with 4 sequences on each GPU; the batch is not in the thread, so an equal figure is no proof"});
    const double shared = 16.0 * parameters / gpus / 1e9;
    r.claims.push_back(
        {fmt::format("{}: memory per GPU, GB", run.model), number(run.megabytes / 1e3, 1), run.evidence,
         number(peak, 1), i == 0 ? judged(peak * 1e3, run.megabytes, 0.15) : Verdict::in_part,
         fmt::format("live bytes of the Program, {:.1f} GB of them states cut over all GPUs; Gemini's chunks keep more "
                     "weights gathered, and the allocator holds more than is live",
                     shared)});
  }
  const double state_65b = 16.0 * static_cast<double>(parameter_count(study_model(library, "llama-65b"))) / gpus / 1e9;
  r.claims.push_back(
      {"is 65B in 58.5 GB on each of 32 GPUs possible?", plain("asked"), Evidence::thread,
       number(state_65b, 1, "GB of states"), state_65b < 58.5 ? Verdict::follows : Verdict::does_not_follow,
       fmt::format("16 bytes a parameter over 32 GPUs; with activations and gathered layers the ZeRO-3 plan peaks at "
                   "{:.1f} GB",
                   last_peak)});
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {"65B on 32 GPUs of 80 GB is possible: a ZeRO-3 plan of it fits with room to spare.",
                   "The published TFLOP/s count recomputation; in model FLOPs they are three quarters of it."};
  return r;
}

}  // namespace orrery
