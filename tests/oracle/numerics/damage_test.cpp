#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/oracle/numerics/check_numerics.hpp"
#include "tests/support/coverage.hpp"

namespace orrery::test {
namespace {

/// A run with three axes, two steps, and everything that adds ops: dropout, biases, learned positions, tied table,
/// clipping.
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

/// Blocks that have the op's partners on other stages: the sum of a tied table's gradients is one block on the first
/// stage and another on the last.
std::vector<std::uint32_t> with_partners(const Program& program, std::uint32_t block) {
  const std::string tied = "gradients.tied.";
  std::vector<std::uint32_t> blocks = {block};
  if (program.blocks[block].name.rfind(tied, 0) != 0) return blocks;
  for (std::uint32_t b = 0; b < program.blocks.size(); ++b) {
    if (b != block && program.blocks[b].name.rfind(tied, 0) == 0) blocks.push_back(b);
  }
  return blocks;
}

NumericsOptions options_with(std::function<void(Program&)> damage) {
  NumericsOptions options;
  options.steps = 2;
  options.ignored = 0.2;
  options.damage = std::move(damage);
  return options;
}

bool noticed(const PlannedRun& run, const std::function<void(Program&)>& damage) {
  return !check_numerics(run, options_with(damage)).failures.empty();
}

/// The run's Program, after checking that undamaged it passes.
Program lowered_and_sound(const PlannedRun& run) {
  Program program;
  const NumericsResult whole = check_numerics(run, options_with([&](Program& lowered) { program = lowered; }));
  for (const std::string& failure : whole.failures) FAIL_CHECK(failure);
  return program;
}

/// Blocks that some rank's step runs.
std::vector<std::uint32_t> step_blocks(const Program& program) {
  std::set<std::uint32_t> used;
  for (const RankClass& c : program.classes) {
    for (const Slot& slot : c.step) used.insert(index(slot.block));
  }
  return {used.begin(), used.end()};
}

}  // namespace

// An oracle that misses a missing op would miss a wrong one.  Exchanges are
// left in: without one side the other waits for ever (verify finds that).
TEST_CASE("No op of a step can be left out unnoticed", "[oracle][numerics]") {
  const std::uint32_t zero_stage = GENERATE(0U, 1U, 2U, 3U);
  const PlannedRun run = full_run(zero_stage > 0, zero_stage);
  const Program program = lowered_and_sound(run);
  // Stages of ZeRO have most ops in common, so each leaves out different ones of them; in the long tests it leaves out
  // all.
  const std::uint32_t stride = long_tests() ? 1 : 4;
  std::uint32_t tried = 0;
  for (const std::uint32_t b : step_blocks(program)) {
    for (std::uint32_t i = (zero_stage + b) % stride; i < program.blocks[b].ops.size(); i += stride) {
      const auto& action = program.blocks[b].ops[i].action;
      if (!std::holds_alternative<Compute>(action) && !std::holds_alternative<Collective>(action)) continue;
      const auto* compute = std::get_if<Compute>(&action);
      const std::string what(compute ? name_of(program.blocks[b].kernels[compute->kernel].kind)
                                     : name_of(std::get<Collective>(action).kind));
      CAPTURE(program.blocks[b].name, i, what);
      CHECK(noticed(run, [&](Program& damaged) {
        for (const std::uint32_t block : with_partners(program, b)) leave_out(damaged, block, i);
      }));
      ++tried;
    }
  }
  CHECK(tried * stride > 80);
}

// Adds one part in a hundred to every epsilon, dropout rate, rotation base, clip norm and share of a norm. Backward
// kernels keep neither epsilon nor rate of their own but use what forward stored (stats) or the rate (dropout).
TEST_CASE("No constant of a kernel can be wrong by a hundredth unnoticed", "[oracle][numerics]") {
  const bool rotary = GENERATE(false, true);
  PlannedRun run = full_run(true, 1);
  if (rotary) {
    run.model.positions = PositionEncoding::rotary;
    run.model.norm = Norm::rms_norm;
    run.model.rope_theta = 50.0;
    run.model.head_dim = 4;
  }
  const Program program = lowered_and_sound(run);
  int tried = 0;
  for (const std::uint32_t b : step_blocks(program)) {
    for (std::uint32_t k = 0; k < program.blocks[b].kernels.size(); ++k) {
      const Kernel& kernel = program.blocks[b].kernels[k];
      const bool unused =
          kernel.kind == KernelKind::layer_norm_backward_input || kernel.kind == KernelKind::rms_norm_backward_input ||
          kernel.kind == KernelKind::layer_norm_backward_weight || kernel.kind == KernelKind::rms_norm_backward_weight;
      if (kernel.parameter == 0.0 || unused) continue;
      CAPTURE(program.blocks[b].name, k, std::string(name_of(kernel.kind)), kernel.parameter);
      CHECK(noticed(run, [&](Program& damaged) { damaged.blocks[b].kernels[k].parameter *= 1.01; }));
      ++tried;
    }
  }
  CHECK(tried > 10);
}

TEST_CASE("No dropout mask can be another site's unnoticed", "[oracle][numerics]") {
  const PlannedRun run = full_run(true, 1);
  const Program program = lowered_and_sound(run);
  int tried = 0;
  for (const std::uint32_t b : step_blocks(program)) {
    for (std::uint32_t k = 0; k < program.blocks[b].kernels.size(); ++k) {
      const Kernel& kernel = program.blocks[b].kernels[k];
      const bool draws = kernel.kind == KernelKind::dropout_forward || kernel.kind == KernelKind::residual_forward ||
                         kernel.kind == KernelKind::attention_unfused_forward;
      if (!draws) continue;
      CAPTURE(program.blocks[b].name, k, std::string(name_of(kernel.kind)));
      CHECK(noticed(run, [&](Program& damaged) { damaged.blocks[b].kernels[k].site += 4; }));
      ++tried;
    }
  }
  CHECK(tried >= 4);
}

}  // namespace orrery::test
