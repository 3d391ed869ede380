#include <catch2/catch.hpp>
#include <cmath>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/totals.hpp"
#include "core/program/verify.hpp"
#include "core/spec/routing.hpp"
#include "tests/support/folded_experts.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/recomputed_experts.hpp"

namespace orrery {
namespace {

test::RandomRunLimits limits_of(std::uint32_t expert) {
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  limits.expert = expert;
  limits.tensor = TensorAlgorithm::one_d;
  return limits;
}

/// Sizes in the formulas of docs/formulas/mixtures.md.
struct Sizes {
  explicit Sizes(const PlannedRun& run) {
    const Mixture& m = *run.model.mixture;
    const Mesh& mesh = run.plan.mesh;
    const auto parts = static_cast<std::uint32_t>(size(mesh, expert_axes(run.plan)));
    expert = parts;
    tokens = run.plan.microbatch_size * run.workload.sequence_length / mesh.size(Axis::context);
    if (folds_tensor(run.plan)) tokens /= mesh.size(Axis::tensor);
    const std::uint64_t groups = tokens / routing_group(run.workload);
    std::uint64_t most = 0;
    for (std::uint64_t l = 0; l < run.model.layers; ++l) mixtures += is_mixture(run.model, l) ? 1 : 0;
    learned = run.workload.routing.kind == Routing::Kind::learned;
    if (learned) {  // whatever the scores
      const std::uint64_t group = routing_group(run.workload), local = m.experts / parts;
      const double share = run.workload.routing.capacity.value_or(m.experts) * static_cast<double>(group * m.per_token);
      const std::uint64_t each = std::min(group, static_cast<std::uint64_t>(std::ceil(share / m.experts)));
      most = std::min(group * std::min<std::uint64_t>(m.per_token, local), local * each);
      kept_share = static_cast<double>(std::min(group * m.per_token, m.experts * each));
    }
    for (std::uint64_t l = 0; l < run.model.layers && !learned; ++l) {
      if (!is_mixture(run.model, l)) continue;
      const LayerRouting routing(run.workload, m.experts, m.per_token, static_cast<std::uint32_t>(l), expert_groups(m));
      most = std::max(most, routing.most_kept(parts));
      kept_share += static_cast<double>(routing.kept()) / static_cast<double>(mixtures);
    }
    slots = expert * groups * most;
    kept_share /= static_cast<double>(routing_group(run.workload));
    bytes = size_of(weight_dtype(run.workload));
  }
  std::uint64_t expert = 1, tokens = 0, slots = 0, bytes = 0, mixtures = 0;
  bool learned = false;
  double kept_share = 0.0;  ///< kept choices per token; learned: at most
};

}  // namespace

// A layer sends its tokens' rows to their experts and back, and their gradients. These are 4 all-to-alls, 6 where the
// layer is recomputed, of slots x hidden, of which a rank keeps 1 / expert. With learned routing slots are an upper
// bound, and a 4-byte number for each goes with the rows of the first.
TEST_CASE("Experts' messages are those of the closed form", "[property][mixture]") {
  int exact = 0, learned = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const PlannedRun run = test::random_run(seed, limits_of(seed % 2 == 0 ? 2 : 4));
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, run.plan);
    const Sizes s(run);
    for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
      const std::uint64_t layers = test::mixtures_on(run, c) * p.microbatches / stage_map(run.plan).pipes();
      std::uint64_t sent = 0;
      for (const CollectiveTotal& t : totals_of(p, c).collectives) {
        if (t.kind == Collective::Kind::all_to_all && p[t.group].axes == AxisList{Axis::expert}) sent += t.sent;
      }
      const std::uint64_t one = s.slots * run.model.hidden * s.bytes / s.expert * (s.expert - 1);
      const std::uint64_t again = test::recomputed_layers(p, c);
      const std::uint64_t numbers = s.learned ? s.slots * 4 / s.expert * (s.expert - 1) : 0;
      CHECK(sent == (4 * layers + 2 * again) * one + (layers + again) * numbers);
      learned += s.learned ? 1 : 0;
      // Balanced and even: k T h w (1 - 1 / expert) each time.
      const Mixture& m = *run.model.mixture;
      const std::uint64_t choices = routing_group(run.workload) * m.per_token;
      if (run.workload.routing.kind == Routing::Kind::balanced && m.groups == 1 && choices % m.experts == 0 &&
          run.workload.routing.capacity.value_or(1.0) >= 1.0) {
        CHECK(s.slots == m.per_token * s.tokens);
        ++exact;
      }
    }
  }
  CHECK(exact > 5);
  CHECK(learned > 5);
}

// Where tensor ranks hold whole experts, each sends the t-th part of the rows; what a rank sends of all its rows is
// then (1 - 1 / e) of k T / t, and nothing of experts is gathered or summed over tensor ranks: with no experts for all
// tokens sequence parallelism gathers and scatters attention's tokens alone, 3 T h w and 2 T h w, again where
// recomputed.
TEST_CASE("Folded experts' messages are those of the closed form", "[property][mixture]") {
  int tensor = 0, context = 0, both = 0;
  for (std::uint64_t seed = 1; seed <= 900; ++seed) {
    PlannedRun run = test::random_run(seed, limits_of(seed % 2 == 0 ? 1 : 2));
    run.model.prediction_modules = 0;
    if (!test::fold_experts(run, seed)) continue;
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, run.plan);
    const Sizes s(run);
    const AxisList axes = expert_axes(run.plan);
    const Mixture& m = *run.model.mixture;
    const bool over_tensor = folds_tensor(run.plan), over_context = contains(axes, Axis::context);
    const bool mixtures_alone = m.first_dense == 0 && m.every == 1 && m.dense.empty();
    for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
      const std::uint64_t layers = test::mixtures_on(run, c) * p.microbatches / stage_map(run.plan).pipes();
      const std::uint64_t again = test::recomputed_layers(p, c);
      std::uint64_t sent = 0, scattered = 0;
      for (const CollectiveTotal& t : totals_of(p, c).collectives) {
        if (t.kind == Collective::Kind::all_to_all && p[t.group].axes == axes) sent += t.sent;
        if (t.kind == Collective::Kind::reduce_scatter && p[t.group].axes == AxisList{Axis::tensor})
          scattered += t.count;
      }
      const std::uint64_t one = s.slots * run.model.hidden * s.bytes / s.expert * (s.expert - 1);
      const std::uint64_t numbers = s.learned ? s.slots * 4 / s.expert * (s.expert - 1) : 0;
      CHECK(sent == (4 * layers + 2 * again) * one + (layers + again) * numbers);
      const bool inside = c > 0 && c + 1 < p.classes.size() && stage_map(run.plan).chunks == 1;
      if (over_tensor && inside && mixtures_alone && m.shared_ffn == 0 && !run.model.latent && again == 0) {
        CHECK(scattered == 2 * layers);
      }
    }
    tensor += over_tensor ? 1 : 0, context += over_context ? 1 : 0, both += over_tensor && over_context ? 1 : 0;
    if (seed % 5 != 0) continue;
    for (const Violation& v : verify(p)) {
      CAPTURE(v.code, v.message);
      CHECK(v.code.empty());
    }
    CHECK(parameter_elements(p) == parameter_count(run.model));
    Diagnostics none;
    CHECK(read_program(write_program(p), "memory", none) == p);
  }
  CHECK(tensor > 50);
  CHECK(context > 30);
  CHECK(both > 3);
}

// A row of a grid's ranks gathers the rows of its tokens, T h w bytes: forward and, for the shared experts' weights,
// again; backward their gradient. The results of both are summed and scattered. Nothing else of 2D does either over
// columns.
TEST_CASE("Experts on a grid take all features of their tokens as the closed form says", "[property][mixture]") {
  int shared = 0, runs = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    test::RandomRunLimits limits = limits_of(seed % 2 == 0 ? 2 : 1);
    limits.tensor = TensorAlgorithm::two_d;
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, run.plan);
    const std::vector<Violation> found = verify(p);
    INFO(render(found));
    REQUIRE(found.empty());
    const Sizes s(run);
    const std::uint64_t rows = s.tokens * run.model.hidden * s.bytes;
    for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
      const std::uint64_t layers = test::mixtures_on(run, c) * p.microbatches / stage_map(run.plan).pipes();
      const std::uint64_t again = test::recomputed_layers(p, c);
      std::uint64_t gathered = 0, scattered = 0;
      for (const CollectiveTotal& t : totals_of(p, c).collectives) {
        if (p[t.group].axes != AxisList{Axis::column}) continue;
        if (t.kind == Collective::Kind::all_gather) gathered += t.payload;
        if (t.kind == Collective::Kind::reduce_scatter) scattered += t.payload;
      }
      CHECK(scattered == (2 * layers + again) * rows);
      CHECK(gathered == (2 * layers + again + (run.model.mixture->shared_ffn > 0 ? layers : 0)) * rows);
    }
    shared += run.model.mixture->shared_ffn > 0 ? 1 : 0;
    ++runs;
  }
  CHECK(runs == 60);
  CHECK(shared > 5);
}

// A mixture keeps of a microbatch, in elements of the working type: its rows as they arrive (h) and return (h), and
// before (2 f or f) and after (f) the activation, for every slot; the logits in the type of the states. Layers below
// the first mixture keep what dense ones do.
TEST_CASE("A mixture layer keeps what the closed form says", "[property][mixture]") {
  int checked = 0, checked_dense = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    const PlannedRun run = test::random_run(seed, limits_of(seed % 2 == 0 ? 1 : 2));
    const Plan& plan = run.plan;
    if (plan.recompute != Recompute::none || plan.attention != AttentionKernel::flash ||
        plan.mesh.size(Axis::context) > 1 || rules_of(plan.schedule).splits_backward) {
      continue;
    }
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, plan);
    const Sizes s(run);
    const ModelSpec& m = run.model;
    const Mixture& x = *m.mixture;
    const std::uint64_t t = plan.mesh.size(Axis::tensor);
    const std::uint64_t rows = plan.sequence_parallel ? s.tokens / t : s.tokens;
    const std::uint64_t gate = m.activation == Activation::swiglu ? 3 : 2;
    const std::uint64_t attention = s.tokens * (2 * m.heads + 2 * m.kv_heads) * m.head_dim / t;  // qkv and context
    const std::uint64_t stream = 4 * rows * m.hidden;  // input, two norms' results, the middle
    const std::uint64_t masks = run.workload.hidden_dropout > 0 ? 2 * rows * m.hidden : 0;
    const std::uint64_t experts = s.slots * (2 * m.hidden + gate * x.ffn / t) + s.tokens * gate * x.shared_ffn / t;
    const std::uint64_t logits = rows * x.experts * size_of(wide_dtype(run.workload));
    const std::uint64_t expected = (attention + stream + experts) * s.bytes + masks + logits;
    const std::uint64_t dense = (attention + stream + s.tokens * gate * m.ffn / t) * s.bytes + masks;
    for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
      const ClassTotals totals = totals_of(p, c);
      const std::uint32_t stage = test::stages_on(plan, c).front();
      for (std::uint32_t l = first_layer(plan, stage); l < first_layer(plan, stage + 1); ++l) {
        CHECK(totals.saved[l].activations == (is_mixture(m, l) ? expected : dense));
        ++(is_mixture(m, l) ? checked : checked_dense);
      }
    }
  }
  CHECK(checked > 40);
  CHECK(checked_dense > 10);
}

// 2 h f_e for every matrix of an expert, kept choice and token; three times
// that in a step, and once more where it is recomputed.
TEST_CASE("Experts multiply what their tokens need", "[property][mixture]") {
  for (std::uint64_t seed = 500; seed <= 620; ++seed) {
    const PlannedRun run = test::random_run(seed, limits_of(seed % 2 == 0 ? 1 : 2));
    if (run.plan.recompute == Recompute::full) continue;
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, run.plan);
    const Mixture& x = *run.model.mixture;
    double counted = 0.0;
    for (std::uint32_t c = 0; c < p.classes.size(); ++c) {
      double of_rank = 0.0;
      for_each_op(p, p.classes[c].step, [&](const OpRun& op) {
        const auto* compute = std::get_if<Compute>(&op.op->action);
        if (compute == nullptr) return;
        const Kernel& k = op.block->kernels[compute->kernel];
        if (k.kind != KernelKind::expert_gemm) return;
        of_rank += flops_of(k).counted;
        CHECK(flops_of(k).counted <= busiest_flops(k) * (1.0 + 1e-12));  // a mean over layers, which rounds
      });
      counted += of_rank * static_cast<double>(p.mesh.size() / p.classes.size());
    }
    const double tokens = static_cast<double>(run.workload.global_batch * run.workload.sequence_length);
    const double matrices = run.model.activation == Activation::swiglu ? 3.0 : 2.0;
    const double expected = 3.0 * static_cast<double>(Sizes(run).mixtures) * tokens * Sizes(run).kept_share * matrices *
                            2.0 * static_cast<double>(run.model.hidden * x.ffn);
    CHECK(counted == Approx(expected).epsilon(1e-9));
  }
}

TEST_CASE("Programs of mixtures are sound", "[property][mixture]") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const PlannedRun run = test::random_run(seed, limits_of(seed % 3 == 0 ? 1 : seed % 3 == 1 ? 2 : 4));
    CAPTURE(seed, test::describe(run));
    const Program p = lower(run.model, run.workload, run.plan);
    for (const Violation& v : verify(p)) {
      CAPTURE(v.code, v.message);
      CHECK(v.code.empty());
    }
    CHECK(parameter_elements(p) == parameter_count(run.model));
  }
}

}  // namespace orrery
