#include <fmt/format.h>

#include "planner/study/priced_plan.hpp"
#include "planner/study/studies.hpp"

// Experiment E21: GPU memory before and after Adam's moments go to NVMe.

namespace orrery {

StudyResult optimizer_offload_study(const Library& library) {
  StudyResult r;
  r.experiments = {"E21"};
  r.sources = {
      "Colossal-AI documentation, NVMe offload (read): GPT2-S of 0.116 G parameters, 5966 MB before, 4968 MB after"};
  r.inputs = {"model gpt2-124m", "cluster dgx-a100 with one GPU"};
  r.formulas = {"LiveMemory", "Bytes of a parameter"};
  r.assumptions = {"The moments m and v, 4 bytes each; master weights stay.",
                   "One GPU, 8 sequences of 1024 tokens, fp16: only the moments enter the claim."};
  const ModelSpec model = study_model(library, "gpt2-124m");
  const ClusterSpec cluster = study_cluster(library, "dgx-a100", 1);
  Plan plan;
  plan.name = "one GPU";
  plan.mesh.axes = {{Axis::tensor, 1}};
  plan.microbatch_size = 8;
  const PricedPlan p =
      priced(model, study_workload(8, 1024), cluster, study_calibration(library, cluster.device), plan);
  const StageMemory& m = p.report.memory_by_stage.front();
  const double moments = static_cast<double>(m.optimizer) / 1e6;
  const double saved = 5966.0 - 4968.0;
  r.claims = {{"memory freed, MB", number(saved, 0), Evidence::repository, number(moments, 1),
               judged(moments, saved, 0.1), "8 bytes of 124.4 M parameters in the Program; within 10 %"},
              {"expected by the documentation, MB", number(928.0, 0), Evidence::repository, number(8.0 * 0.116e3, 0),
               judged(8.0 * 0.116e3, 928.0),
               "8 bytes of 0.116 G parameters; GPT-2 small has 124.4 M, which fits the measurement better"},
              {"with Gemini: 5592 to 5298 MB", number(5592.0 - 5298.0, 0), Evidence::repository, plain("-"),
               Verdict::undecided, "which share was moved is not stated"}};
  r.tables.push_back(
      {"Memory of the Program, one GPU",
       {"<", "MB"},
       {{plain("weights and masters"), number(static_cast<double>(m.weights) / 1e6, 1)},
        {plain("gradients"), number(static_cast<double>(m.gradients) / 1e6, 1)},
        {plain("moments"), number(moments, 1)},
        {plain("peak"), number(static_cast<double>(m.peak) / 1e6, 1)},
        {plain("peak without moments"), number((static_cast<double>(m.peak) - moments * 1e6) / 1e6, 1)}}});
  r.charts.push_back({"GPU memory freed by moving Adam's moments",
                      "",
                      "MB",
                      false,
                      false,
                      {"measured", "8 x 0.116 G", "Program"},
                      {{"MB", {{0, saved}, {1, 928.0}, {2, moments}}}}});
  r.conclusions = {"What is freed is the moments, 8 bytes a parameter, no more."};
  return r;
}

}  // namespace orrery
