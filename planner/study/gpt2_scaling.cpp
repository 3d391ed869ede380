#include <fmt/format.h>

#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"

// Experiment E6: GPT-2 grown with the machine from 8 to 512 GPUs.  No figures
// were read, only the direction.

namespace orrery {
namespace {

struct Size {
  const char* model;
  std::uint32_t gpus;
  std::uint32_t pipeline;
};

// Models of Narayanan et al., SC 2021: GPT-2 style, width growing with the machine.
constexpr Size sizes[] = {{"megatron-sc21-1.7b", 8, 1},    {"megatron-sc21-3.6b", 16, 1},
                          {"megatron-sc21-7.5b", 32, 1},   {"megatron-sc21-18.4b", 64, 1},
                          {"megatron-sc21-39.1b", 256, 2}, {"megatron-sc21-76.1b", 512, 4}};

}  // namespace

StudyResult gpt2_scaling_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E6"};
  r.sources = {
      "announcement of Colossal-AI: the rate per GPU rises from 8 to 512 GPUs, \"superlinear\"; no figures read"};
  r.inputs = {"models megatron-sc21-1.7b to -76.1b", "cluster dgx-a100", "calibration a100-80"};
  r.formulas = {"estimate", "gemm_efficiency", "model_flops"};
  r.assumptions = {
      "Tensor 8 in a box, pipeline 1 to 4, data parallel over the rest; 4 sequences of 2048 tokens a "
      "microbatch, 64 microbatches on each replica; full recomputation, flash attention, ZeRO-1 with overlap.",
      "The model grows with the machine: GPT-2 style models of Narayanan et al., SC 2021."};
  StudyTable table{"Weak scaling with a growing model",
                   {"GPUs", "<model", "width", "TFLOP/s per GPU", "MFU", "exposed communication", "bubble", "peak, GB"},
                   {}};
  Chart chart{"Rate per GPU while model and machine grow",
              "GPUs",
              "model TFLOP/s per GPU",
              true,
              false,
              {},
              {{"estimated", {}}}};
  double first = 0.0;
  double last = 0.0;
  bool rising = true;
  for (const Size& size : sizes) {
    const ModelSpec model = study_model(library, size.model);
    const ClusterSpec cluster = study_cluster(library, "dgx-a100", size.gpus);
    const std::uint32_t data = size.gpus / (8 * size.pipeline);
    Plan plan;
    plan.name = size.model;
    plan.mesh.axes = {{Axis::pipeline, size.pipeline}, {Axis::data, data}, {Axis::tensor, 8}};
    plan.microbatch_size = 4;
    plan.recompute = Recompute::full;
    plan.zero_stage = data > 1 ? 1 : 0;
    const std::uint64_t batch = std::uint64_t{data} * 4 * 64;
    const PricedPlan p =
        priced(model, study_workload(batch, 2048), cluster, study_calibration(library, cluster.device), plan);
    const double rate =
        p.report.model_flops_utilization * cluster.device.peak.at(Precision::fp16).in(teraflop_per_second);
    rising = rising && rate > last;
    if (first == 0.0) first = rate;
    last = rate;
    table.rows.push_back({number(size.gpus, 0), plain(size.model), number(static_cast<double>(model.hidden), 0),
                          number(rate, 1), number(100.0 * p.report.model_flops_utilization, 1, "%"),
                          number(100.0 * (p.report.exposed_communication / p.report.step_time), 1, "%"),
                          number(100.0 * p.report.bubble_fraction, 1, "%"),
                          number(static_cast<double>(p.report.peak_memory_bytes) / 1e9, 1)});
    chart.series[0].points.push_back({static_cast<double>(size.gpus), rate});
  }
  r.claims = {
      {"rate per GPU from 8 to 512 GPUs, growing model",
       plain("rises"),
       Evidence::announcement,
       {fmt::format("{:.0f} to {:.0f} TFLOP/s{}", first, last, rising ? ", at every step" : ""), last / first},
       last > first ? Verdict::follows : Verdict::does_not_follow,
       "wider matrices fill the GPU better, and work grows with the square of the width where messages grow with the "
       "width"}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {"The rise follows from the growing model; it is not more speed from the same problem on more GPUs."};
  return r;
}

}  // namespace orrery
