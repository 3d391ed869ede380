#include <fmt/format.h>

#include "core/program/totals.hpp"
#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"

// Experiment E9: with the sequence already cut, pipeline stages need no split
// and gather between them.  Counted on lowered Programs.

namespace orrery {
namespace {

/// Bytes that the ranks of the first stage send to the second for one microbatch, forward.
double sent_forward(const Program& program, const Plan& plan) {
  double sent = 0.0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c)
    sent += static_cast<double>(totals_of(program, c).message_bytes);
  // One class per stage; each of its tensor ranks sends the same; half of all messages go back.
  return sent * plan.mesh.size(Axis::tensor) / 2.0 / static_cast<double>(program.microbatches);
}

}  // namespace

StudyResult bert_pipeline_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E9"};
  r.sources = {"announcement of Colossal-AI"};
  r.inputs = {"model gpt2-355m (as wide and deep as BERT-large), 512 positions", "cluster dgx-a100"};
  r.formulas = {"totals_of"};
  r.assumptions = {
      "Two stages; tensor ranks hold the whole residual stream (1D), or a part of its positions (Megatron's "
      "sequence parallelism, as ring self-attention would)."};
  const ModelSpec model = study_model(library, "gpt2-355m");
  StudyTable table{"From stage 0 to stage 1, one microbatch, all ranks of a stage",
                   {"ranks of a stage", "whole stream, MB", "positions cut, MB", "ratio", "split and gather, MB"},
                   {}};
  Chart chart{"Bytes between two stages, one microbatch",       "ranks of a stage", "MB", true, true, {},
              {{"1D, whole stream", {}}, {"positions cut", {}}}};
  double ratio_at_4 = 0.0;
  for (const std::uint32_t tensor : {2U, 4U, 8U}) {
    const ClusterSpec cluster = study_cluster(library, "dgx-a100", 2 * tensor);
    double bytes[2] = {};
    for (const bool cut : {false, true}) {
      Plan plan;
      plan.name = fmt::format("pipeline 2 x tensor {}", tensor);
      plan.mesh.axes = {{Axis::pipeline, 2}, {Axis::tensor, tensor}};
      plan.microbatch_size = 8;
      plan.sequence_parallel = cut;
      const PricedPlan p =
          priced(model, study_workload(32, 512), cluster, study_calibration(library, cluster.device), plan);
      bytes[cut ? 1 : 0] = sent_forward(p.program, p.run.plan);
    }
    const double t = static_cast<double>(tensor);
    // Scatter-gather: b s h over the boundary, then (t - 1) parts of 1/t to each of t ranks.
    const double stream = bytes[0] / t;
    table.rows.push_back({number(t, 0), number(bytes[0] / 1e6, 2), number(bytes[1] / 1e6, 2),
                          number(bytes[0] / bytes[1], 1, "x"), number((stream + (t - 1.0) * stream) / 1e6, 2)});
    chart.series[0].points.push_back({t, bytes[0] / 1e6});
    chart.series[1].points.push_back({t, bytes[1] / 1e6});
    if (tensor == 4) ratio_at_4 = bytes[0] / bytes[1];
  }
  r.claims = {
      {"no split and gather between stages",
       plain("none"),
       Evidence::announcement,
       {fmt::format("{:.1f}x less between stages of 4", ratio_at_4), ratio_at_4},
       ratio_at_4 > 1.0 ? Verdict::follows : Verdict::does_not_follow,
       "every rank sends only its positions; 1D sends the whole stream from every rank, or splits it, sends a part "
       "and gathers: as many bytes, most of them inside the stage"}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {"The saving follows: as many times less as a stage has ranks."};
  return r;
}

}  // namespace orrery
