#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "core/program/lower/lower.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/single_device.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {
namespace {

PlannedRun corpus_run(OptimizerKind optimizer) {
  PlannedRun run;
  run.model = tiny_llama({.kv_heads = 2, .ffn = 32, .vocabulary = 256, .positions = 24});
  Workload& w = run.workload;
  w.global_batch = 8;
  w.sequence_length = 24;
  w.precision = Precision::fp64;
  w.optimizer.kind = optimizer;
  w.optimizer.learning_rate = optimizer == OptimizerKind::adam ? 0.01 : 0.3;
  w.schedule.warmup_steps = 4;
  w.clip_norm = 1.0;
  w.hidden_dropout = 0.05;
  w.data = std::string(ORRERY_SOURCE_DIR) + "/models/data/corpus.txt";
  Plan& p = run.plan;
  p.mesh = Mesh{{{Axis::data, 2}, {Axis::pipeline, 2}, {Axis::tensor, 2}}};
  p.microbatch_size = 2;
  p.stage_layers = {1, 1};
  p.sequence_parallel = true;
  p.zero_stage = 1;
  p.gradient_bucket = 4096.0 * byte;
  p.overlap_gradients = true;
  p.attention = AttentionKernel::flash;
  return run;
}

}  // namespace

// Here steps do not start anew from the executed state: eight ranks and one device train side by side for 25 steps.
// Errors of 1e-15 grow from step to step, most in Adam (which divides by small numbers), so 1e-6 is allowed at the end.
// A step with another rate or another batch would shift the loss by percents.
TEST_CASE("Eight ranks learn the corpus along the path of a single device", "[oracle][numerics]") {
  const OptimizerKind optimizer = GENERATE(OptimizerKind::sgd, OptimizerKind::adam);
  const PlannedRun run = corpus_run(optimizer);
  const auto data = data_of(run.model, run.workload);
  RunOptions options;
  options.steps = 25;
  const Program program = lower(run.model, run.workload, run.plan);
  const RunResult executed = execute(program, run.model, run.workload, run.plan, *data, options);
  REQUIRE(executed.losses.size() == options.steps);

  TrainingState state = initial_state(run.model, run.workload);
  for (std::uint64_t step = 1; step <= options.steps; ++step) {
    const double loss = train_step(run.model, run.workload, *data, step, state).pass.loss;
    CAPTURE(step);
    CHECK(executed.losses[step - 1] == Approx(loss).epsilon(1e-6));
  }
  // A byte among 256 costs log 256 = 5.55 at first; the model soon learns letters and spaces.
  CHECK(executed.losses.front() == Approx(std::log(256.0)).epsilon(0.02));
  CHECK(executed.losses.back() < 4.5);

  // The same run again gives the same bits.
  CHECK(execute(program, run.model, run.workload, run.plan, *data, options).losses == executed.losses);
}

}  // namespace orrery::test
