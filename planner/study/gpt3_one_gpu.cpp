#include <fmt/format.h>

#include "core/record/rates.hpp"
#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"

// Experiment E23: GPT-3 on one A100, in years and dollars.

namespace orrery {

StudyResult gpt3_one_gpu_study(const Library& library) {
  constexpr double published_flops = 3.14e23;
  constexpr double tokens = 300e9;
  constexpr double seconds_per_year = 365.25 * 86400.0;
  constexpr double hours_per_year = 365.25 * 24.0;

  StudyResult r;
  r.experiments = {"E23"};
  r.sources = {
      "announcement of Colossal-AI; 3.14e23 FLOP and 300 G tokens: Brown et al., 2020 (unverified: check before "
      "quoting)"};
  r.inputs = {"model gpt3-175b", "cluster dgx-a100 with one GPU, its price", "calibration a100-80"};
  r.formulas = {"model_flops", "estimate"};
  r.assumptions = {
      "One GPU, 8 sequences of 2048 tokens a step, one a microbatch, full recomputation, flash attention; the "
      "time of a step over its tokens, for 300 G tokens.",
      "Memory is left aside: the estimate says that the plan does not fit, and prices it all the same."};

  const ModelSpec model = study_model(library, "gpt3-175b");
  const ClusterSpec cluster = study_cluster(library, "dgx-a100", 1);
  const Workload workload = study_workload(8, 2048);
  Plan plan;
  plan.name = "one GPU";
  plan.mesh.axes = {{Axis::tensor, 1}};
  plan.recompute = Recompute::full;
  const PricedPlan one = priced(model, workload, cluster, study_calibration(library, cluster.device), plan);
  const double step_tokens = static_cast<double>(workload.global_batch * workload.sequence_length);
  const double years = one.report.step_time.base() * tokens / step_tokens / seconds_per_year;
  const double peak = cluster.device.peak.at(Precision::fp16).base();
  const double at_peak = published_flops / peak / seconds_per_year;
  const double at_32 = at_peak / 0.32;
  const double own_flops = model_flops(model, workload) / step_tokens * tokens;
  const double price = cluster.price_per_gpu_hour.value_or(0.0);
  const double dollars = years * hours_per_year * price;
  const double implied = 12e6 / (100.0 * hours_per_year);

  r.claims = {
      {"years at the peak of 312 TFLOP/s", number(31.9, 1), Evidence::calculated, number(at_peak, 1),
       judged(at_peak, 31.9), "3.14e23 FLOP over the peak"},
      {"years at 32 % of the peak", number(99.7, 1), Evidence::calculated, number(at_32, 1), judged(at_32, 99.7),
       "the claim of 100 years is this rate"},
      {"years on one A100", plain("more than 100"), Evidence::announcement, number(years, 1), Verdict::in_part,
       fmt::format(
           "the estimate reaches {:.0f} % of the peak in model FLOPs ({:.0f} % with recomputation), if memory were "
           "no limit; 100 years stand for a rate of 32 %, which offloading and recomputation would explain",
           100.0 * one.report.model_flops_utilization, 100.0 * one.report.hardware_flops_utilization)},
      {"cost, million dollars", number(12.0, 0), Evidence::announcement, number(dollars / 1e6, 1),
       Verdict::does_not_follow,
       fmt::format(
           "one GPU at {:.2f} dollars an hour; 12 million over 100 years are {:.1f} dollars an hour, the price of "
           "several GPUs",
           price, implied)},
      {"FLOP of the whole training",
       {"3.14e23", published_flops},
       Evidence::unverified,
       {fmt::format("{:.3g}", own_flops), own_flops},
       judged(own_flops, published_flops, 0.03),
       "within 3 %: 6 FLOP per parameter and token; the convention of reports adds attention and the LM head"}};

  const double need = static_cast<double>(one.report.peak_memory_bytes);
  r.tables.push_back({"GPT-3 on one A100, 300 G tokens",
                      {"<", "years", "of the peak"},
                      {{plain("at the peak"), number(at_peak, 1), number(100, 0, "%")},
                       {plain("at 32 % of the peak"), number(at_32, 1), number(32, 0, "%")},
                       {plain("estimated, full recomputation"), number(years, 1),
                        number(100.0 * one.report.model_flops_utilization, 1, "%")}}});
  r.tables.push_back(
      {"Memory of that plan",
       {"<", "TB"},
       {{plain("needed"), number(need / 1e12, 2)}, {plain("there"), number(cluster.device.memory.base() / 1e12, 3)}}});
  r.charts.push_back({"GPT-3 on one A100",
                      "",
                      "years",
                      false,
                      false,
                      {"at the peak", "at 32 %", "estimated"},
                      {{"years", {{0, at_peak}, {1, at_32}, {2, years}}}}});
  r.conclusions = {"The order of 100 years follows; more than 100 does for any utilization below 32 %.",
                   fmt::format("No plan runs it: it needs {:.1f} TB, {:.0f} times the GPU's memory.", need / 1e12,
                               need / cluster.device.memory.base()),
                   "The 12 million dollars do not follow from one GPU at the shipped price."};
  return r;
}

}  // namespace orrery
