#include <catch2/catch.hpp>

#include "core/plan/plan_check.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/lower/tensor_grid.hpp"
#include "core/program/verify.hpp"
#include "tests/oracle/numerics/check_run.hpp"

// The code that docs/extending.md says a person writes for a tensor-parallel algorithm and for a schedule. Each is
// whole in this file, and no other source knows them.

namespace orrery::test {
namespace {

namespace low = orrery::lowering;
using low::read;
using low::write;

/// 2D with gathers instead of broadcasts. As in SUMMA, rank (i, j) holds block (i, j) of every matrix, but it gets a
/// whole panel at once and multiplies its q blocks one after the other. So a product has two messages and not 2 q, and
/// workspaces are q times as large.
class GatheredGrid final : public low::GridSharding {
 public:
  low::TensorLayout layout() const override {
    low::TensorLayout l;
    l.stream_sequences = l.wide_sequences = {Axis::row};
    l.stream_features = l.wide_features = {Axis::column};
    l.widen_in = l.narrow_in = l.vocabulary = {Axis::row};
    l.widen_out = l.narrow_out = {Axis::column};
    return l;
  }

  void forward(low::State& c, low::BlockBuilder& b, const low::Product& p, BufferId x, BufferId y) const override {
    const low::Operand w = low::weight_of(c, *p.module, p.weight);
    if (p.transposed) return by_transposed(c, b, p, ".forward", Pass::forward, read(x), p.in, w, y, p.out);
    multiply(c, b, p, ".forward", Pass::forward, read(x), p.in, w, y, p.out);
    if (p.bias != nullptr) {
      b.compute(c.kernel(KernelKind::bias_forward, Pass::forward, c.tokens, p.out),
                {low::weight_of(c, *p.module, p.bias), low::update(y)});
    }
  }

  void input_gradient(low::State& c, low::BlockBuilder& b, const low::Product& p, low::Operand dy,
                      BufferId dx) const override {
    const low::Operand w = low::weight_of(c, *p.module, p.weight);
    if (p.transposed) return multiply(c, b, p, ".input", Pass::input_gradient, dy, p.out, w, dx, p.in);
    by_transposed(c, b, p, ".input", Pass::input_gradient, dy, p.out, w, dx, p.in);
  }

  /// Block k of dW[m, n] is the sum over column j of X(i, k)^T Y(i, j).
  void weight_gradient(low::State& c, low::BlockBuilder& b, const low::Product& p, BufferId x,
                       low::Operand dy) const override {
    const low::Operand left = p.transposed ? dy : read(x), right = p.transposed ? read(x) : dy;
    const std::uint64_t m = p.transposed ? p.out : p.in, n = p.transposed ? p.in : p.out;
    const BufferId panel = gather(c, b, p, ".weight.x", c.column_group, left, c.tokens * m);
    const BufferId part =
        low::flat_buffer(c, low::stem(p) + ".weight.part", Role::workspace, p.scope, c.grad, q(c) * m * n);
    for (std::uint64_t k = 0; k < q(c); ++k) {
      Kernel gemm = c.kernel(KernelKind::gemm, Pass::weight_gradient, m, n, c.tokens);
      gemm.compute = low::compute_type(c, p);
      gemm.options.transpose_a = true;
      b.compute(gemm, {block(panel, k, c.tokens * m, View::Use::read), all(right, c.tokens * n),
                       block(part, k, m * n, View::Use::write)});
    }
    b.seam(Collective::Kind::reduce_scatter, c.row_group, {read(part), low::gradient_of(c, *p.module, p.weight)});
  }

 private:
  static std::uint64_t q(const low::State& c) { return c.plan.mesh.size(Axis::row); }
  static low::Operand block(BufferId buffer, std::uint64_t k, std::uint64_t count, View::Use use) {
    return {buffer, use, 0, k * count, count, {}};
  }
  static low::Operand all(const low::Operand& x, std::uint64_t count) {
    return {x.buffer, View::Use::read, x.layer_shift, x.offset, count, {}};
  }
  static BufferId gather(low::State& c, low::BlockBuilder& b, const low::Product& p, const std::string& name,
                         GroupId group, const low::Operand& own, std::uint64_t count) {
    const BufferId panel =
        low::flat_buffer(c, low::stem(p) + name, Role::workspace, p.scope, c.program[own.buffer].dtype, q(c) * count);
    b.seam(Collective::Kind::all_gather, group, {all(own, count), write(panel)});
    return panel;
  }

  /// y[rows, n] = sum over k of x(i, k)[rows, m] w(k, j)[m, n]
  static void multiply(low::State& c, low::BlockBuilder& b, const low::Product& p, const std::string& name, Pass pass,
                       const low::Operand& x, std::uint64_t m, const low::Operand& w, BufferId y, std::uint64_t n) {
    const BufferId left = gather(c, b, p, name + ".x", c.column_group, x, c.tokens * m);
    const BufferId right = gather(c, b, p, name + ".w", c.row_group, w, m * n);
    for (std::uint64_t k = 0; k < q(c); ++k) {
      Kernel gemm = c.kernel(KernelKind::gemm, pass, c.tokens, n, m);
      gemm.compute = low::compute_type(c, p);
      b.compute(gemm, {block(left, k, c.tokens * m, View::Use::read),
                       block(right, k, m * n, View::Use::read),
                       {y, k == 0 ? View::Use::write : View::Use::accumulate, 0, 0, c.tokens * n, {}}});
    }
  }

  /// Block k of x[rows, m] is the sum over row i of y(i, j)[rows, n] w(k, j)[m, n]^T.
  static void by_transposed(low::State& c, low::BlockBuilder& b, const low::Product& p, const std::string& name,
                            Pass pass, const low::Operand& y, std::uint64_t n, const low::Operand& w, BufferId x,
                            std::uint64_t m) {
    const BufferId right = gather(c, b, p, name + ".w", c.row_group, w, m * n);
    const BufferId part = low::flat_buffer(c, low::stem(p) + name + ".part", Role::workspace, p.scope,
                                           c.program[x].dtype, q(c) * c.tokens * m);
    for (std::uint64_t k = 0; k < q(c); ++k) {
      Kernel gemm = c.kernel(KernelKind::gemm, pass, c.tokens, m, n);
      gemm.compute = low::compute_type(c, p);
      gemm.options.transpose_b = true;
      b.compute(gemm, {all(y, c.tokens * n), block(right, k, m * n, View::Use::read),
                       block(part, k, c.tokens * m, View::Use::write)});
    }
    b.seam(Collective::Kind::reduce_scatter, c.column_group, {read(part), write(x)});
  }
};

/// Runs every microbatch forward and back before the next begins: no two at once.
std::vector<std::vector<OrderedAction>> one_at_a_time(std::uint32_t ranks, std::uint32_t microbatches) {
  std::vector<OrderedAction> order;
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    order.push_back({OrderedAction::Kind::forward, 0, m});
    order.push_back({OrderedAction::Kind::backward, 0, m});
  }
  return std::vector(ranks, order);
}

}  // namespace

// Two messages for each of a layer's four products forward, where SUMMA has 2 q.
TEST_CASE("a tensor-parallel algorithm of a test's own computes what a single device does", "[oracle][numerics]") {
  const GatheredGrid sharding;
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    RandomRunLimits limits;
    limits.tensor = TensorAlgorithm::two_d;
    limits.max_ranks = 9;
    limits.mixture = false;
    const PlannedRun run = random_run(seed, limits);
    CAPTURE(seed, describe(run));
    const Program program = lower(run.model, run.workload, run.plan, {&sharding});
    REQUIRE(verify(program).empty());
    for (const Block& block : program.blocks) {
      if (block.name != "layer.forward") continue;
      std::size_t gathers = 0;
      for (const Op& op : block.ops) {
        const auto* c = std::get_if<Collective>(&op.action);
        if (c == nullptr) continue;
        CHECK(c->kind != Collective::Kind::broadcast);
        const AxisList& axes = program[c->group].axes;
        const bool in_grid = contains(axes, Axis::row) || contains(axes, Axis::column);
        gathers += c->kind == Collective::Kind::all_gather && in_grid ? 1U : 0U;
      }
      CHECK(gathers == 4 * 2);
    }
    NumericsOptions options = sweep_options(seed);
    options.damage = [&](Program& p) { p = program; };
    check_run(run, seed, options);
  }
}

TEST_CASE("a schedule of a test's own computes what a single device does", "[oracle][numerics]") {
  int several = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    RandomRunLimits limits;
    limits.schedule = ScheduleName::gpipe;
    PlannedRun run = random_run(seed, limits);
    const std::uint32_t stages = run.plan.mesh.size(Axis::pipeline);
    const auto m = static_cast<std::uint32_t>(microbatches(run.plan, run.workload));
    if (stages == 1 || m == 1) continue;
    run.plan.schedule = ScheduleName::custom;
    run.plan.order = one_at_a_time(stages, m);
    CAPTURE(seed, describe(run));
    Diagnostics wrong;
    check(run.plan, run.model, run.workload, nullptr, wrong);
    REQUIRE(wrong.empty());
    check_run(run, seed, sweep_options(seed));
    ++several;
  }
  CHECK(several > 5);
}

}  // namespace orrery::test
