#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "tests/oracle/numerics/check_run.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery::test {
namespace {

/// What a run has of the dimensions that a plan can choose.
std::map<std::string, bool> kinds_of(const PlannedRun& run) {
  const Plan& p = run.plan;
  const Workload& w = run.workload;
  const bool stages = p.mesh.size(Axis::pipeline) > 1;
  return {{"tensor", p.mesh.size(Axis::tensor) > 1},
          {"sequence parallel", p.sequence_parallel},
          {"data", p.mesh.size(Axis::data) > 1},
          {"zero 1", p.zero_stage == 1 && p.mesh.size(Axis::data) > 1},
          {"gpipe", stages && p.schedule == ScheduleName::gpipe},
          {"1f1b", stages && p.schedule == ScheduleName::one_f_one_b},
          {"three axes", stages && p.mesh.size(Axis::data) > 1 && p.mesh.size(Axis::tensor) > 1},
          {"recompute selective", p.recompute == Recompute::selective},
          {"recompute full", p.recompute == Recompute::full},
          {"accumulation", microbatches(p, w) > 1},
          {"overlap", *p.overlap_gradients},
          {"flash", p.attention == AttentionKernel::flash},
          {"tied across stages", stages && run.model.tied_embeddings},
          {"gpt", run.model.activation == Activation::gelu},
          {"llama", run.model.activation == Activation::swiglu},
          {"grouped queries", run.model.kv_heads < run.model.heads},
          {"clipping", w.clip_norm.has_value()},
          {"dropout", w.hidden_dropout > 0},
          {"attention dropout", w.attention_dropout > 0},
          {"adam", w.optimizer.kind == OptimizerKind::adam},
          {"sgd", w.optimizer.kind == OptimizerKind::sgd},
          {"fp64", w.precision == Precision::fp64},
          {"fp32", w.precision == Precision::fp32},
          {"bf16", w.precision == Precision::bf16},
          {"fp16", w.precision == Precision::fp16}};
}

}  // namespace

TEST_CASE("Random plans compute what a single device computes", "[oracle][numerics]") {
  std::map<std::string, int> covered;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const PlannedRun run = random_run(seed);
    for (const auto& [kind, present] : kinds_of(run)) covered[kind] += present ? 1 : 0;
    check_run(run, seed, sweep_options(seed));
  }
  for (const auto& [kind, count] : covered) {
    CAPTURE(kind, count);
    CHECK(count >= 10);
  }
}

// Seven steps: the rate rises over three, then falls along a cosine.  Each
// step's update is held against the rule with the rate of its number.
TEST_CASE("Weights follow warm-up and decay of the learning rate", "[oracle][numerics]") {
  for (std::uint64_t seed = 2001; seed <= 2008; ++seed) {
    RandomRunLimits limits;
    limits.max_ranks = 8;
    limits.precision = Precision::fp64;
    PlannedRun run = random_run(seed, limits);
    run.workload.schedule = {ScheduleKind::cosine, 3, 7, 0.1};
    NumericsOptions options;
    options.steps = 7;
    check_run(run, seed, options);
  }
}

// 2^28 times gradients of about 1e-3 is beyond 65504, so the first steps
// overflow and halve the scale; after every good step (window 1) it doubles and
// soon overflows again.  Skipped steps must leave weights, moments and the
// count of steps alone.
TEST_CASE("fp16 plans skip overflowed steps and find a loss scale", "[oracle][numerics]") {
  for (std::uint64_t seed = 3001; seed <= 3005; ++seed) {
    RandomRunLimits limits;
    limits.max_ranks = 8;
    limits.precision = Precision::fp16;
    PlannedRun run = random_run(seed, limits);
    run.workload.loss_scale = 0x1p28;
    run.workload.loss_scale_window = 1;
    NumericsOptions options;
    options.steps = 24;
    const NumericsResult result = check_run(run, seed, options);
    CAPTURE(seed, describe(run), result.skipped);
    CHECK(result.skipped > 0);
    CHECK(result.skipped < options.steps);
  }
}

namespace {

/// Three axes, two steps, everything that adds ops: dropout, biases, learned
/// positions, tied table, clipping.
PlannedRun full_run(bool sequence_parallel, std::uint32_t zero_stage) {
  PlannedRun run;
  ModelSpec& m = run.model;
  m.layers = 3;
  m.hidden = 8;
  m.heads = m.kv_heads = 2;
  m.head_dim = 4;
  m.ffn = 12;
  m.vocabulary = 13;
  m.max_positions = 6;
  Workload& w = run.workload;
  w.global_batch = 8;
  w.sequence_length = 6;
  w.precision = Precision::fp64;
  w.hidden_dropout = 0.2;
  w.attention_dropout = 0.1;
  w.clip_norm = 0.05;
  Plan& p = run.plan;
  p.mesh = Mesh{{{Axis::pipeline, 2}, {Axis::data, 2}, {Axis::tensor, 2}}};
  p.stage_layers = {1, 2};
  p.sequence_parallel = sequence_parallel;
  p.zero_stage = zero_stage;
  p.recompute = Recompute::selective;
  p.gradient_bucket = 1024.0 * byte;
  p.overlap_gradients = true;
  p.attention = AttentionKernel::unfused;
  return run;
}

/// Replaces an op by a meeting of its tensor group, which changes no value.
void leave_out(Program& program, std::uint32_t block, std::uint32_t op) {
  Op& target = program.blocks[block].ops[op];
  GroupId tensor{};
  for (std::uint32_t g = 0; g < program.groups.size(); ++g) {
    if (program.groups[g] == Group{{Axis::tensor}, {}}) tensor = GroupId{g};
  }
  target.action = Collective{Collective::Kind::barrier, Collective::Reduction::sum, tensor, Peer{0}};
  target.views.count = 0;
}

/// Blocks in which the op's partners on other stages stand: the sum of a tied
/// table's gradients is one block on the first stage and another on the last.
std::vector<std::uint32_t> with_partners(const Program& program, std::uint32_t block) {
  const std::string tied = "gradients.tied.";
  std::vector<std::uint32_t> blocks = {block};
  if (program.blocks[block].name.rfind(tied, 0) != 0) return blocks;
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    if (b != block && program.blocks[b].name.rfind(tied, 0) == 0) blocks.push_back(b);
  }
  return blocks;
}

}  // namespace

// An oracle that misses a missing op would miss a wrong one.  Exchanges are
// left in: without one side the other waits for ever (verify finds that).
TEST_CASE("No op of a step can be left out unnoticed", "[oracle][numerics]") {
  const bool sequence_parallel = GENERATE(false, true);
  const PlannedRun run = full_run(sequence_parallel, sequence_parallel ? 1 : 0);
  NumericsOptions options;
  options.steps = 2;
  options.ignored = 0.2;
  Program program;
  options.damage = [&](Program& lowered) { program = lowered; };
  const NumericsResult whole = check_numerics(run, options);
  for (const std::string& failure : whole.failures) FAIL_CHECK(failure);

  std::vector<bool> used(program.blocks.size());
  for (const RankClass& c : program.classes) {
    for (const Slot& slot : c.step) used[index(slot.block)] = true;
  }
  int tried = 0;
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    if (!used[b]) continue;
    for (std::uint32_t i = 0; i < program.blocks[b].ops.size(); ++i) {
      const auto& action = program.blocks[b].ops[i].action;
      if (!std::holds_alternative<Compute>(action) && !std::holds_alternative<Collective>(action)) continue;
      options.damage = [&](Program& lowered) {
        for (const std::uint32_t block : with_partners(program, b)) leave_out(lowered, block, i);
      };
      const auto* compute = std::get_if<Compute>(&action);
      const std::string what(compute ? name_of(program.blocks[b].kernels[compute->kernel].kind)
                                     : name_of(std::get<Collective>(action).kind));
      CAPTURE(program.blocks[b].name, i, what);
      CHECK_FALSE(check_numerics(run, options).failures.empty());
      ++tried;
    }
  }
  CHECK(tried > 80);
}

}  // namespace orrery::test
