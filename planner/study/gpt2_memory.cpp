#include <fmt/format.h>

#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"
#include "planner/study/tensor_volumes.hpp"

// Experiment E5: memory of GPT-2 in 2D against Megatron's 1D.  1D from the
// Program of a plan, 2D to 3D in closed form.

namespace orrery {
namespace {

constexpr std::uint64_t sequence = 1024;

/// Bytes that one layer of `model` keeps for one sequence in a lowered 1D plan.
double lowered_1d(const ModelSpec& model, std::uint32_t tensor, const ClusterSpec& cluster,
                  const Calibration& calibration) {
  Workload workload = study_workload(1, sequence);
  workload.hidden_dropout = 0.1;
  workload.attention_dropout = 0.1;
  Plan plan;
  plan.name = fmt::format("tensor {}", tensor);
  plan.mesh.axes = {{Axis::tensor, tensor}};
  plan.attention = AttentionKernel::unfused;
  return saved_layer_bytes(priced(model, workload, cluster, calibration, plan).program, 0);
}

double ratio(std::uint64_t devices, double scores) {
  const double p = static_cast<double>(devices);
  return (10.0 * p + 24.0 + scores) / (34.0 + scores);
}

}  // namespace

StudyResult gpt2_memory_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E5"};
  r.sources = {
      "announcement of Colossal-AI (\"significantly lower\" at 4, 16 and 64 GPUs); README: 11 times lower, 24 "
      "times larger model, over 3 times faster",
      "model gpt2_8B: h 3072, 24 heads (benchmark model zoo, v0.1.4, read)"};
  r.inputs = {"model megatron-sc21-39.1b (h 8192, 64 heads: head size 128, as gpt2_8B), 1024 positions",
              "cluster dgx-a100"};
  r.formulas = {"layer_activations"};
  r.assumptions = {
      "Activations that a layer keeps for its backward pass, 16 bits, dropout masks of a byte, unfused "
      "attention; parameters and optimizer are cut p ways in both modes and cancel.",
      "1D by the lowered Program of a plan with as many tensor ranks; 2D in closed form.",
      "The ratio depends on the head size and the sequence only: x = 5 a s / h = 5 s / (head size)."};

  const ModelSpec model = study_model(library, "megatron-sc21-39.1b");
  const double h = static_cast<double>(model.hidden);
  const double heads = static_cast<double>(model.heads);
  const double sbh = static_cast<double>(sequence) * h;
  StudyTable table{"Bytes kept per layer and sequence, in units of s b h",
                   {"devices", "1D, Program", "1D, formula", "2D", "1D/2D, Program", "1D/2D, formula"},
                   {}};
  Chart chart{"Activations of a layer, head size 128, 1024 positions",
              "devices",
              "bytes over s b h",
              true,
              true,
              {},
              {{"1D, Program", {}}, {"2D", {}}}};
  double at_64 = 0.0;
  for (const std::uint32_t p : {4U, 16U, 64U}) {
    const ClusterSpec cluster = study_cluster(library, "dgx-a100", p);
    const double lowered = lowered_1d(model, p, cluster, study_calibration(library, cluster.device));
    const LayerShape shape{1, sequence, model.hidden, model.heads};
    const double formula = layer_activations({TensorMode::one_d, p, 1}, shape).saved;
    const double grid = layer_activations(*tensor_grid(TensorMode::two_d, p), shape).saved;
    table.rows.push_back({number(p, 0), number(lowered / sbh, 2), number(formula / sbh, 2), number(grid / sbh, 2),
                          number(lowered / grid, 2, "x"), number(formula / grid, 2, "x")});
    chart.series[0].points.push_back({static_cast<double>(p), lowered / sbh});
    chart.series[1].points.push_back({static_cast<double>(p), grid / sbh});
    if (p == 64) at_64 = lowered / grid;
  }
  const double x_8b = 5.0 * heads * static_cast<double>(sequence) / h;
  r.claims = {{"memory of GPT-2 on 64 GPUs, 1D over 2D", number(11.0, 0, "x"), Evidence::repository,
               number(at_64, 1, "x"), judged(at_64, 11.0, 0.2),
               "from activations alone, within 20 %: 1D keeps the inputs and outputs of its pairs whole on every GPU; "
               "the exact "
               "figure depends on x = 5 s / (head size)"},
              {"the same by the formula, gpt2_8B (x = 40)", number(9.5, 1, "x"), Evidence::calculated,
               number(ratio(64, x_8b), 1, "x"), judged(ratio(64, x_8b), 9.5), "(10 p + 24 + x) / (34 + x)"},
              {"the same with x = 26", number(11.5, 1, "x"), Evidence::calculated, number(ratio(64, 26.0), 1, "x"),
               judged(ratio(64, 26.0), 11.5), "a head size of 197 at 1024 positions, or fewer positions"},
              {"24 times larger model", number(24.0, 0, "x"), Evidence::repository, plain("-"), Verdict::undecided,
               "the setup is not in the sources read"},
              {"over 3 times faster", number(3.0, 0, "x"), Evidence::repository, plain("-"), Verdict::undecided,
               "see tensor-speedup for what larger grids give on which links"}};
  r.tables.push_back(std::move(table));
  r.charts.push_back(std::move(chart));
  r.conclusions = {
      "About 10 times less activation memory on 64 GPUs follows from where each mode cuts its tensors.",
      "It is not a property of 2D alone: Megatron's sequence parallelism, which is later, cuts the same tensors "
      "and keeps as little.",
      "gpt2_8B itself has 24 heads: 1D cannot cut it 16 or 64 ways, so that comparison needs another model."};
  return r;
}

}  // namespace orrery
