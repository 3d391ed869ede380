#include <catch2/catch.hpp>

#include "core/base/diagnostics.hpp"
#include "core/plan/plan_check.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "core/record/rates.hpp"
#include "core/spec/adapters.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {
namespace {

test::RandomRunLimits limits() {
  test::RandomRunLimits l;
  l.adapters = true;
  l.mixture = false;
  l.tensor = TensorAlgorithm::one_d;
  return l;
}

/// Calls visit(run, program) for plans with adapters that pass check().
template <class Visit>
void for_each_plan(std::size_t count, Visit&& visit) {
  for (std::uint64_t seed = 1; count > 0; ++seed) {
    const PlannedRun run = test::random_run(seed, limits());
    Diagnostics wrong;
    check(run.plan, run.model, run.workload, nullptr, wrong);
    if (!wrong.empty()) continue;
    --count;
    CAPTURE(seed, test::describe(run));
    visit(run, lower(run.model, run.workload, run.plan));
  }
}

/// Whether the buffer has parameters of the model, which stay as they are.
bool is_frozen(const Program& p, const Buffer& b) {
  return b.parameters && !of_adapters(p.parameter_tables[*b.parameters]);
}

}  // namespace

TEST_CASE("with adapters a Program has their parameters beside the model's, and states of these alone", "[property]") {
  for_each_plan(150, [](const PlannedRun& run, const Program& program) {
    PlannedRun all = run;
    all.workload.adapters.reset();
    CHECK(parameter_elements(program) == parameter_elements(lower(all.model, all.workload, all.plan)) +
                                             adapter_parameter_count(run.model, *run.workload.adapters));
    for (const Buffer& b : program.buffers) {
      if (is_frozen(program, b)) CHECK(b.role == Role::weight);
    }
  });
}

TEST_CASE("nothing writes frozen weights but setup and gathers", "[property]") {
  for_each_plan(60, [](const PlannedRun&, const Program& program) {
    for (const Block& block : program.blocks) {
      if (block.pass == Pass::setup) continue;
      for (const Op& op : block.ops) {
        for (std::uint32_t v = 0; v < op.views.count; ++v) {
          const View& view = block.views[op.views.first + v];
          if (view.use == View::Use::read || !is_frozen(program, program[view.buffer])) continue;
          const auto* c = std::get_if<Collective>(&op.action);
          CHECK((c != nullptr && c->kind == Collective::Kind::all_gather));
        }
      }
    }
  });
}

// The convention of docs/formulas/adapters.md counts the same products as the list, where tensor ranks make none of
// them twice, nothing is made again and no vocabulary is padded.
TEST_CASE("FLOPs of a Program with adapters on one rank are the convention's", "[property]") {
  std::size_t met = 0;
  for_each_plan(200, [&](const PlannedRun& run, const Program& program) {
    if (run.plan.mesh.size(Axis::tensor) > 1 || run.plan.mesh.size(Axis::context) > 1) return;
    if (test::recomputed_on(run.plan, 0) > 0 || run.plan.recompute != Recompute::none) return;
    ++met;
    // Whole numbers below 2^53, and the visible part of attention is not counted: equal but for the last digits.
    CHECK(program_flops(program) == Approx(model_flops(run.model, run.workload)).epsilon(1e-12));
  });
  CHECK(met > 10);
}

TEST_CASE("a kernel of adapters with other blocks or matrices than its product's is refused", "[property]") {
  for_each_plan(1, [](const PlannedRun&, const Program& program) {
    const auto refused = [&](const auto& change) {
      Program other = program;
      for (Block& block : other.blocks) {
        for (Kernel& k : block.kernels) {
          if (k.kind != KernelKind::adapter_forward) continue;
          change(k);
          return !verify(other).empty();
        }
      }
      return false;
    };
    CHECK(verify(program).empty());
    CHECK(refused([](Kernel& k) { ++k.heads; }));
    CHECK(refused([](Kernel& k) { k.site = 0; }));
    CHECK(refused([](Kernel& k) { k.site |= 1U << k.batch; }));
  });
}

TEST_CASE("a Program with adapters reads back from its text as it was", "[property]") {
  for_each_plan(40, [](const PlannedRun&, const Program& program) {
    Diagnostics d;
    const auto read = read_program(write_program(program), "p", d);
    CAPTURE(render(d));
    REQUIRE(read);
    CHECK(*read == program);
  });
}

}  // namespace orrery
