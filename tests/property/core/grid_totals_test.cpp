#include <catch2/catch.hpp>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

constexpr std::uint64_t cases = 120;

/// The symbols of the tables: a grid of q x q ranks, d deep; one rank's rows of a microbatch; a linear layer of K
/// inputs and N outputs.
struct Symbols {
  explicit Symbols(const PlannedRun& r)
      : plan(r.plan),
        model(r.model),
        workload(r.workload),
        q(r.plan.mesh.size(Axis::row)),
        d(r.plan.mesh.size(Axis::depth)),
        p(r.plan.mesh.size(Axis::pipeline)),
        m(microbatches(r.plan, r.workload) / stage_map(r.plan).pipes()),
        rows(r.plan.microbatch_size * r.workload.sequence_length),
        h(r.model.hidden),
        qkv(r.model.head_dim * (r.model.heads + 2 * r.model.kv_heads)),
        context(r.model.heads * r.model.head_dim),
        up(r.model.activation == Activation::swiglu ? 2 * r.model.ffn : r.model.ffn),
        f(r.model.ffn),
        V(padded_vocabulary(r.plan, r.model)),
        full(r.plan.recompute == Recompute::full ? 1 : 0),
        centered(r.model.norm == Norm::layer_norm ? 1 : 0),
        w(size_of(weight_dtype(r.workload))),
        g(size_of(gradient_dtype(r.workload))),
        st(size_of(wide_dtype(r.workload))) {}

  const Plan& plan;
  const ModelSpec& model;
  const Workload& workload;
  std::uint64_t q, d, p, m, rows, h, qkv, context, up, f, V, full, centered;
  std::uint64_t w, g, st;  ///< bytes of a weight, a gradient, a state

  /// Whether the rank holds the embedding, and the head: with pipelines in both directions either end does.
  [[nodiscard]] bool first(std::uint64_t stage) const { return stage == 0 || (both_ways() && stage + 1 == p); }
  [[nodiscard]] bool last(std::uint64_t stage) const {
    const StageMap map = stage_map(plan);
    return stage == map.rank(map.stages() - 1) || (both_ways() && stage == 0);
  }
  [[nodiscard]] bool both_ways() const { return stage_map(plan).two_way(); }
  /// Sums over the four linear layers of K and of K N.
  [[nodiscard]] std::uint64_t inputs() const { return h + context + h + f; }
  [[nodiscard]] std::uint64_t weights() const { return h * qkv + context * h + h * up + f * h; }
  /// A rank's part of the stream, and what the attention core keeps of it, where it is not computed again.
  [[nodiscard]] std::uint64_t stream() const { return rows * h / q; }
  [[nodiscard]] std::uint64_t core_bytes() const {
    if (*plan.attention == AttentionKernel::flash) return 0;
    const std::uint64_t scores = model.heads / q * rows * workload.sequence_length;
    return scores * (w + (workload.attention_dropout > 0 ? 1 + w : 0));
  }
  [[nodiscard]] std::uint64_t mask_bytes() const { return workload.hidden_dropout > 0 ? 2 * stream() : 0; }
};

struct Volume {
  std::uint64_t count = 0, payload = 0;
  bool operator==(const Volume&) const = default;
};

Volume volume(const Program& p, const ClassTotals& totals, Collective::Kind kind, const AxisList& axes) {
  Volume v;
  for (const CollectiveTotal& c : totals.collectives) {
    if (c.kind == kind && p[c.group].axes == axes) v.count += c.count, v.payload += c.payload;
  }
  return v;
}

/// One run of each is a layer's whole way, with its weight gradients in a block of their own where backward is split.
bool is_layer(const Block& block) {
  return block.name == "layer.forward" || block.name == "layer.backward" || block.name == "layer.weight";
}

PlannedRun grid_run(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.tensor = seed % 2 == 0 ? TensorAlgorithm::two_d : TensorAlgorithm::two_half_d;
  limits.max_ranks = 18;
  limits.context = limits.mixture = false;
  return test::random_run(seed, limits);
}

PlannedRun cube_run(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.tensor = TensorAlgorithm::three_d;
  limits.context = limits.mixture = false;
  return test::random_run(seed, limits);
}

void as_drawn(Plan&) {}
void without_recomputation(Plan& plan) {
  plan.recompute = Recompute::none;
  plan.recompute_layers.reset();
}

/// Calls check(symbols, program) for every case, its plan changed.
template <class Check>
void for_each_run(PlannedRun (*make)(std::uint64_t), void (*change)(Plan&), Check check) {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    PlannedRun run = make(seed);
    change(run.plan);
    CAPTURE(seed, test::describe(run));
    check(Symbols(run), lower(run.model, run.workload, run.plan));
  }
}

/// Calls check(symbols, program, stage, totals of its ranks) for every stage of every case.
template <class Check>
void for_each_stage(PlannedRun (*make)(std::uint64_t), void (*change)(Plan&), Check check) {
  for_each_run(make, change, [&](const Symbols& x, const Program& program) {
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      check(x, program, stage, totals_of(program, stage));
    }
  });
}

/// Calls visit(collective, its views) for the collectives of a layer's whole way.
template <class Visit>
void for_each_collective_of_a_layer(const Program& program, Visit visit) {
  for (const Block& block : program.blocks) {
    if (!is_layer(block)) continue;
    for (const Op& op : block.ops) {
      if (const auto* c = std::get_if<Collective>(&op.action)) visit(*c, &block.views[op.views.first]);
    }
  }
}

}  // namespace

// A linear layer Y = X W: forward q broadcasts of a block of X along the row (the ranks of the axis column) and q of a
// block of W along the column; for dX q broadcasts of W and q sums of blocks like X; for dW q of X and q sums of blocks
// like W. A block of X has rows K / q elements, one of W K N / q^2. The head multiplies by its transposed matrix, so it
// moves the logits instead of its input. Full recomputation repeats the layers' forward.
TEST_CASE("SUMMA's volume and steps equal the closed form", "[property][totals]") {
  for_each_stage(grid_run, as_drawn,
                 [](const Symbols& x, const Program& program, std::uint32_t stage, const ClassTotals& totals) {
                   const std::uint64_t layers = test::layers_on(x.plan, stage) * x.m;
                   const std::uint64_t heads = x.last(stage) ? x.m : 0;
                   const std::uint64_t X = x.rows * x.inputs() / x.q, W = x.weights() / (x.q * x.q);
                   const std::uint64_t L = x.rows * x.V / x.q, T = x.V * x.h / (x.q * x.q);
                   const std::uint64_t forwards = layers + x.full * test::recomputed_on(x.plan, stage) * x.m;
                   CHECK(volume(program, totals, Collective::Kind::broadcast, {Axis::column}) ==
                         Volume{x.q * (4 * (forwards + layers) + heads * 2),
                                x.q * (X * x.w * (forwards + layers) + heads * 2 * L * x.st)});
                   CHECK(volume(program, totals, Collective::Kind::broadcast, {Axis::row}) ==
                         Volume{x.q * (4 * (forwards + layers) + heads * 2),
                                x.q * (W * x.w * (forwards + layers) + heads * 2 * T * x.w)});
                   CHECK(volume(program, totals, Collective::Kind::reduce, {Axis::column}) ==
                         Volume{x.q * (layers * 4 + heads), x.q * (layers * X * x.w + heads * L * x.st)});
                   CHECK(volume(program, totals, Collective::Kind::reduce, {Axis::row}) ==
                         Volume{x.q * (layers * 4 + heads), x.q * (layers * W + heads * T) * x.g});
                 });
}

// The sum of everything that the grid's devices receive for one layer and microbatch, forward and backward: 3 (q - 1)
// (S_X + d S_W), with S_X = T K over the T = d q rows tokens of the grid and S_W = K N, summed over the linear layers.
// A broadcast or reduce of n elements among q brings n to q - 1 of them.
TEST_CASE("a layer's total volume on a grid equals the table", "[property][totals]") {
  for_each_run(grid_run, without_recomputation, [](const Symbols& x, const Program& program) {
    std::uint64_t received = 0;
    for_each_collective_of_a_layer(program, [&](const Collective& c, const View* views) {
      if (c.kind != Collective::Kind::broadcast && c.kind != Collective::Kind::reduce) return;
      const std::uint64_t groups = x.d * x.q;  // of q ranks each
      received += groups * (x.q - 1) * views[0].count;
    });
    const std::uint64_t tokens = x.d * x.q * x.rows;
    CHECK(received == 3 * (x.q - 1) * (tokens * x.inputs() + x.d * x.weights()));
  });
}

// Norms: forward one sum per token over the row of ranks for RMS norm, two for
// layer norm, backward one of one or two.  Cross-entropy: maximum, then sum and
// target.  The word table: tokens and rows gathered and scattered over a column.
TEST_CASE("the other collectives of a grid equal the closed form", "[property][totals]") {
  for_each_stage(
      grid_run, as_drawn, [](const Symbols& x, const Program& program, std::uint32_t stage, const ClassTotals& totals) {
        const std::uint64_t layers = test::layers_on(x.plan, stage) * x.m;
        const std::uint64_t heads = x.last(stage) ? x.m : 0;
        const std::uint64_t sums = 1 + x.centered;
        const std::uint64_t norms =  // forward
            2 * (layers + x.full * test::recomputed_on(x.plan, stage) * x.m) + heads;
        const std::uint64_t back = 2 * layers + heads;
        CHECK(volume(program, totals, Collective::Kind::all_reduce, {Axis::column}) ==
              Volume{norms * sums + back + 2 * heads, x.rows * x.st * (norms * sums + back * sums + 3 * heads)});
        const std::uint64_t first = x.first(stage) ? x.m : 0;
        const std::uint64_t words = x.q * x.rows * x.h / x.q * x.w;
        CHECK(volume(program, totals, Collective::Kind::all_gather, {Axis::row}) ==
              Volume{first * 3, first * (2 * x.q * x.rows * 4 + words)});
        CHECK(volume(program, totals, Collective::Kind::reduce_scatter, {Axis::row}) == Volume{first, first * words});
      });
}

// Matrices are cut q^2 ways; vectors that are added to or multiplied with a row of features are cut q ways. A ZeRO part
// is padded, so those runs are left out.
TEST_CASE("weights on a grid equal the closed form", "[property][totals]") {
  const auto whole_states = [](Plan& plan) {
    plan.zero_stage = 0;
    plan.offload_states = plan.offload_parameters = 0;
    plan.states_tier = OffloadTier::host;
  };
  for_each_stage(grid_run, whole_states,
                 [](const Symbols& x, const Program&, std::uint32_t stage, const ClassTotals& totals) {
                   const std::uint64_t norm = (1 + x.centered) * x.h;
                   const std::uint64_t biases = x.model.biases.in_layers() ? x.qkv + x.h + x.up + x.h : 0;
                   std::uint64_t matrices = test::layers_on(x.plan, stage) * x.weights();
                   std::uint64_t rows = test::layers_on(x.plan, stage) * (2 * norm + biases);
                   if (x.first(stage)) {
                     matrices += x.V * x.h;
                     if (x.model.positions == PositionEncoding::learned) rows += x.model.max_positions * x.h;
                   }
                   if (x.last(stage)) {
                     rows += norm;
                     if (!x.model.tied_embeddings || !x.first(stage)) matrices += x.V * x.h;
                   }
                   CHECK(totals.state[index(Role::weight)] == (matrices / (x.q * x.q) + rows / x.q) * x.w);
                   CHECK(totals.state[index(Role::gradient)] == (matrices / (x.q * x.q) + rows / x.q) * x.g);
                 });
}

// ZeRO on a grid is that of each rank's own blocks, with every segment padded to equal parts. Gradients are scattered
// once a step, or with ZeRO-2 and 3 once a microbatch. Weights are gathered once, or with ZeRO-3 forward and backward
// for each microbatch, except for the embedding, which the backward pass does not read. A table that is tied on one
// stage is gathered for the head too; weights that 3D keeps are not gathered again.
TEST_CASE("a rank of a grid scatters and gathers its own blocks over the data axis", "[property][totals]") {
  std::size_t runs = 0;
  const auto on_device = [](Plan& plan) { plan.offload_states = plan.offload_parameters = 0; };
  const auto check = [&](const Symbols& x, const Program& program, std::uint32_t stage, const ClassTotals& totals) {
    const std::uint64_t parts = x.plan.mesh.size(Axis::data), zero = parts > 1 ? x.plan.zero_stage : 0;
    if (zero == 0) return;
    const auto padded = [&](std::uint64_t n) { return (n + parts - 1) / parts * parts; };
    const std::uint64_t blocks = x.q * x.q * (x.plan.tensor == TensorAlgorithm::three_d ? x.d : 1);
    const std::uint64_t norm = (1 + x.centered) * x.h, bias = x.model.biases.in_layers() ? 1 : 0;
    const std::uint64_t layer =
        padded(x.weights() / blocks) + padded(bias * (x.qkv + x.up) / x.q) + padded((2 * norm + bias * 2 * x.h) / x.q);
    const std::uint64_t table = padded(x.V * x.h / blocks);
    std::uint64_t embedding = 0, head = 0;
    if (x.first(stage)) {
      embedding =
          table + padded(x.model.positions == PositionEncoding::learned ? x.model.max_positions * x.h / x.q : 0);
    }
    const bool own_table = !x.model.tied_embeddings || !x.first(stage);
    if (x.last(stage)) head = padded(norm / x.q) + (own_table ? table : 0);
    const std::uint64_t all = test::layers_on(x.plan, stage) * layer + embedding + head;
    // A tied table's gradient is scattered for each of its two chunks on a rank.
    const bool several = test::stages_on(x.plan, stage).size() > 1;
    const std::uint64_t twice = zero >= 2 && x.first(stage) && x.last(stage) && !own_table && several ? table : 0;
    std::uint64_t gathered = all;
    if (zero == 3 && x.plan.reshard_after_forward) {
      gathered = 2 * all - embedding;
      if (x.last(stage) && !own_table) gathered += (x.plan.save_gathered ? 1 : 2) * embedding;
      gathered *= x.m;
    }
    CHECK(volume(program, totals, Collective::Kind::reduce_scatter, {Axis::data}).payload ==
          (all + twice) * x.g * (zero >= 2 ? x.m : 1));
    CHECK(volume(program, totals, Collective::Kind::all_gather, {Axis::data}).payload == gathered * x.w);
    runs += zero >= 2 ? 1 : 0;
  };
  for_each_stage(grid_run, on_device, check);
  for_each_stage(cube_run, on_device, check);
  CHECK(runs > 25);
}

// Korthikanti's table with every tensor cut: by sequences q (times d) ways, which `rows` has already, and by features
// or heads q ways.
TEST_CASE("saved activations on a grid are all cut", "[property][totals]") {
  for_each_stage(
      grid_run, as_drawn, [](const Symbols& x, const Program&, std::uint32_t stage, const ClassTotals& totals) {
        const std::uint64_t wide = x.rows * (x.qkv + x.context + x.up + x.f) / x.q;
        // Where backward is split, results computed again for the input gradients stay for the weight gradients: the
        // inputs of the four products.
        const std::uint64_t inputs = splits_backward(x.plan) ? 2 * x.stream() + x.rows * (x.context + x.f) / x.q : 0;
        for (const std::uint32_t part : test::stages_on(x.plan, stage)) {
          for (std::uint32_t layer = first_layer(x.plan, part); layer < first_layer(x.plan, part + 1); ++layer) {
            CAPTURE(layer);
            const bool again = test::recomputes(x.plan, layer);
            CHECK(totals.saved[layer].activations ==
                  (again && x.full != 0
                       ? (x.stream() + inputs) * x.w
                       : (4 * x.stream() + wide) * x.w + x.mask_bytes() + (again ? 0 : x.core_bytes())));
          }
        }
      });
}

// Forward gather X and W, scatter Y; backward gather dY, scatter dX and dW; and
// gather X and W again unless they are kept.  A gather of parts of n elements
// among q brings (q - 1) n to each, a scatter to parts of n takes as much.
TEST_CASE("3D's volume equals the table", "[property][totals]") {
  for_each_run(cube_run, without_recomputation, [](const Symbols& x, const Program& program) {
    std::uint64_t received = 0, steps = 0;
    for_each_collective_of_a_layer(program, [&](const Collective& c, const View* views) {
      const bool gather = c.kind == Collective::Kind::all_gather;
      if (!gather && c.kind != Collective::Kind::reduce_scatter) return;
      if (program[c.group].axes == AxisList{Axis::data}) return;              // ZeRO's
      received += x.q * x.q * x.q * (x.q - 1) * views[gather ? 0 : 1].count;  // over all ranks
      steps += x.q - 1;
    });
    const std::uint64_t tokens = x.q * x.q * x.rows;
    const std::uint64_t X = tokens * x.inputs(), Y = tokens * (x.qkv + x.h + x.up + x.h), W = x.weights();
    const std::uint64_t again = x.plan.save_gathered ? 0 : X + W;
    CHECK(received == (x.q - 1) * (2 * (X + W + Y) + again));
    CHECK(steps == (x.q - 1) * 4 * (x.plan.save_gathered ? 6 : 8));
    // What one layer keeps: shards cut q^3 ways, or the gathered operands of its products.
    const std::uint64_t kept = totals_of(program, 0).saved[0].activations;
    const std::uint64_t wide = x.rows * (x.qkv + x.up) / x.q;
    const std::uint64_t inner = x.rows * (x.context + x.f) / x.q;
    if (!x.plan.save_gathered) {
      CHECK(kept == (4 * x.stream() + wide + inner) * x.w + x.mask_bytes() + x.core_bytes());
    } else {
      // The gathered inputs of the products replace their shards, except for the context that flash needs.
      const std::uint64_t gathered = x.q * x.rows * x.inputs() / x.q + x.weights() / (x.q * x.q);
      const std::uint64_t context = *x.plan.attention == AttentionKernel::flash ? x.rows * x.context / x.q : 0;
      CHECK(kept == (2 * x.stream() + wide + context + gathered) * x.w + x.mask_bytes() + x.core_bytes());
    }
  });
}
