#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <set>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/verify.hpp"
#include "tests/property/core/program_mutation.hpp"
#include "tests/property/core/program_oracle.hpp"
#include "tests/support/attention_kinds.hpp"
#include "tests/support/coverage.hpp"
#include "tests/support/gathered_tokens.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

/// Whether the rule is about what a sound list computes.
bool about_values(const std::string& code) {
  return code == "program.repeated" || code == "program.stale" || code == "program.partial" ||
         code == "program.pairing" || code == "program.update" || code == "program.targets" || code == "program.norm";
}

/// Blocks that some class runs.
std::set<std::uint32_t> used_blocks(const Program& p) {
  std::set<std::uint32_t> used;
  for (const RankClass& c : p.classes) {
    for (const auto* slots : {&c.setup, &c.step}) {
      for (const Slot& s : *slots) used.insert(index(s.block));
    }
  }
  return used;
}

bool is_kernel(const Block& block, const Op& op, KernelKind kind, Pass pass) {
  const auto* c = std::get_if<Compute>(&op.action);
  return c != nullptr && block.kernels[c->kernel].kind == kind && block.kernels[c->kernel].pass == pass;
}

}  // namespace

// The verifier folds ranks into classes, prunes comparisons and simulates without times. The judge looks at every rank,
// element and pair of ops. Both must say the same of every changed Program as a list. The judge does not know what a
// list computes (sums that are made, values that are fresh).
TEST_CASE("the verifier agrees with brute force on mutated Programs", "[property][verify]") {
  test::RandomRunLimits limits;
  limits.max_ranks = 4;
  limits.dropout = false;
  std::size_t rejected = 0, all = 0;
  for (std::uint64_t seed = 1; seed <= 56; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    const Program program = lower(run.model, run.workload, run.plan);
    CAPTURE(seed, test::describe(run));
    REQUIRE(test::brute_force_fault(program).empty());
    std::mt19937_64 random(seed);
    for (int i = 0; i < 12; ++i) {
      Program changed = program;
      const std::string what = mutate(changed, random);
      if (what.empty()) continue;
      const auto found = verify(changed);
      const std::string fault = test::brute_force_fault(changed);
      CAPTURE(what, fault);
      INFO(render(found));
      REQUIRE((found.empty() || about_values(found[0].code)) == fault.empty());
      ++all;
      rejected += found.empty() ? 0U : 1U;
    }
  }
  CAPTURE(rejected, all);
  CHECK(all > 400);
  // The rest are independent neighbours in another order.
  CHECK(rejected * 2 > all);
}

// Tests one op less, or one op twice, in a block that all its ranks share. Four kinds of op have no effect that anybody
// uses, so losing them is no fault. They are a fill in setup of what each step fills anew; the last sum of a recomputed
// layer, which is the next layer's input that the backward pass does not need; with full recomputation, the second of
// two gathers of the same tensor; and the backward gather of a chunk of vectors that only the forward pass reads.
namespace {

using test::long_tests;
/// Number of random Programs among so many that are changed op by op; all where the long tests run.
std::uint64_t sample(std::uint64_t all) { return long_tests() ? all : all / 6; }
/// The distance between changed ops; every op is changed where the long tests run.
std::size_t stride() { return long_tests() ? 1 : 6; }

struct Losses {
  std::size_t lost = 0, harmless = 0, repeated = 0;
};

/// Whether the op gathers weights that the layer's backward block does not read. This is the own layer, or where it
/// gathers ahead a block of such layers (those that recompute read more).
bool gathers_unread(const Program& program, const Block& block, const Op& op) {
  const auto* c = std::get_if<Collective>(&op.action);
  if (c == nullptr || c->kind != Collective::Kind::all_gather) return false;
  const auto reads = [](const Block& by, const View& gathered) {
    return std::any_of(by.views.begin(), by.views.end(), [&](const View& v) {
      return v.buffer == gathered.buffer && v.use == View::Use::read && v.offset < gathered.offset + gathered.count &&
             gathered.offset < v.offset + v.count;
    });
  };
  for (std::uint32_t i = 1; i < op.views.count; i += 2) {
    const View& gathered = block.views[op.views.first + i];
    bool unread = gathered.layer_shift == 0 && !reads(block, gathered);
    for (const Block& other : program.blocks) {
      const bool layer = gathered.layer_shift != 0 && other.name.starts_with("layer.") &&
                         other.name.find(".backward") != std::string::npos;
      unread = unread || (layer && !reads(other, gathered));
    }
    if (!unread) return false;
  }
  return true;
}

void lose_and_repeat(std::uint64_t seed, const PlannedRun& run, Losses& count) {
  const Program program = lower(run.model, run.workload, run.plan);
  CAPTURE(seed, test::describe(run));
  for (const std::uint32_t b : used_blocks(program)) {
    const Block& block = program.blocks[b];
    const std::vector<std::string> texts = op_texts(program, block, block.ops);
    for (std::size_t i = (seed + b) % stride(); i < block.ops.size(); i += stride()) {
      const Op& op = block.ops[i];
      CAPTURE(block.name, i, texts[i]);
      Program changed = program;
      std::vector<Item> items = items_of(block);
      items.erase(items.begin() + static_cast<std::ptrdiff_t>(i));
      assemble(changed.blocks[b], items);
      if (verify(changed).empty()) {
        const auto* c = std::get_if<Collective>(&op.action);
        // Recomputation has left the tensors that would be gathered again for weights' gradients.
        const bool grid = run.plan.tensor != TensorAlgorithm::one_d && run.model.mixture;
        const bool gathers = (c != nullptr && c->kind == Collective::Kind::all_gather) ||
                             (grid && is_kernel(block, op, KernelKind::swap_blocks, Pass::weight_gradient));
        const bool gathered_again =
            gathers && run.plan.recompute == Recompute::full && (run.plan.sequence_parallel || grid);
        REQUIRE((gathered_again || gathers_unread(program, block, op) ||
                 is_kernel(block, op, KernelKind::fill, Pass::setup) ||
                 is_kernel(block, op, KernelKind::residual_forward, Pass::recompute)));
        ++count.harmless;
      }
      ++count.lost;

      changed = program;
      items = items_of(block);
      Item twin = items[i];
      twin.from = ~0U;
      items.insert(items.begin() + static_cast<std::ptrdiff_t>(i) + 1, twin);
      assemble(changed.blocks[b], items);
      REQUIRE(!verify(changed).empty());
      ++count.repeated;
    }
  }
}

}  // namespace

TEST_CASE("the verifier rejects every lost and every repeated op", "[property][verify]") {
  Losses count;
  const std::uint64_t seeds = sample(40);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) lose_and_repeat(seed, test::random_run(seed), count);
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 125 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

TEST_CASE("the verifier rejects every lost and every repeated op of other architectures", "[property][verify]") {
  Losses count;
  test::RandomRunLimits limits;
  limits.architectures = true;
  const std::uint64_t seeds = sample(36);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    if (seed % 6 == 0) {
      limits.tensor = seed % 12 == 0 ? TensorAlgorithm::three_d : TensorAlgorithm::two_d;
    } else {
      limits.tensor.reset();
    }
    lose_and_repeat(seed, test::random_run(seed, limits), count);
  }
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 100 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

TEST_CASE("the verifier rejects every lost and every repeated op where adapters are trained", "[property][verify]") {
  Losses count;
  test::RandomRunLimits limits;
  limits.adapters = true;
  limits.mixture = false;
  limits.tensor = TensorAlgorithm::one_d;
  std::uint64_t met = 0;
  const std::uint64_t seeds = sample(36);
  for (std::uint64_t seed = 1; met < seeds; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    if (splits_backward(run.plan) || run.model.layers < 2) continue;
    // A lost gather in front of a frozen product without an adapter is not seen: nothing tells whose input is there.
    if (run.plan.sequence_parallel) continue;
    lose_and_repeat(seed, run, count);
    ++met;
  }
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 100 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

TEST_CASE("the verifier rejects every lost and every repeated op of kinds of attention", "[property][verify]") {
  Losses count;
  const std::uint64_t seeds = sample(60);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    test::RandomRunLimits limits;
    limits.cut_positions = seed % 2 == 0;
    PlannedRun run = test::random_run(seed, limits);
    test::add_attention_kinds(seed, run);
    lose_and_repeat(seed, run, count);
  }
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 100 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

TEST_CASE("the verifier rejects every lost and every repeated op where experts' tokens are gathered",
          "[property][verify]") {
  Losses count;
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  limits.tensor = TensorAlgorithm::one_d;
  std::uint64_t met = 0;
  const std::uint64_t seeds = sample(36);
  for (std::uint64_t seed = 1; met < seeds; ++seed) {
    limits.expert = seed % 2 == 0 ? 2 : 4;
    PlannedRun run = test::random_run(seed, limits);
    if (!test::gather_tokens(run, seed)) continue;
    // A lost copy of Adafactor's momentum back to disk is not seen.
    if (run.plan.states_tier == OffloadTier::disk && run.workload.optimizer.kind == OptimizerKind::adafactor) continue;
    lose_and_repeat(seed, run, count);
    ++met;
  }
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 125 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

TEST_CASE("the verifier rejects every lost and every repeated op where ranks share key-value heads",
          "[property][verify]") {
  Losses count;
  test::RandomRunLimits limits;
  limits.shared_kv_heads = true;
  std::uint64_t met = 0;
  const std::uint64_t seeds = sample(36);
  for (std::uint64_t seed = 1; met < seeds; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    const std::uint64_t ranks = run.plan.mesh.size(Axis::tensor) * run.plan.mesh.size(Axis::context);
    if (ranks <= run.model.kv_heads || run.model.kv_heads == run.model.heads) continue;
    lose_and_repeat(seed, run, count);
    ++met;
  }
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 100 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

// Forward and backward kernels make the same scores of the same keys.
TEST_CASE("the verifier rejects a kernel with other scores than its layer's", "[property][verify]") {
  std::size_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    PlannedRun run = test::random_run(seed);
    test::add_attention_kinds(seed, run);
    const Program program = lower(run.model, run.workload, run.plan);
    CAPTURE(seed, test::describe(run));
    for (const std::uint32_t b : used_blocks(program)) {
      for (std::size_t i = 0; i < program.blocks[b].kernels.size(); ++i) {
        const Kernel& k = program.blocks[b].kernels[i];
        const bool backward = k.kind == KernelKind::attention_flash_backward ||
                              k.kind == KernelKind::attention_unfused_backward ||
                              k.kind == KernelKind::attention_part_backward;
        if (!backward || !k.options.causal) continue;
        Program changed = program;
        Kernel& other = changed.blocks[b].kernels[i];
        switch (changes % 5) {
          case 0: other.window += 1; break;
          case 1: other.scale += 0.1; break;
          case 2: other.softcap += 1.0; break;
          case 3: other.options.alibi = !other.options.alibi; break;
          default:
            other.window = other.window == 0 ? 2 : 0;
            other.options.chunked = false;
            break;
        }
        const std::vector<Violation> found = verify(changed);
        REQUIRE(!found.empty());
        CHECK(found[0].code == "program.scores");
        ++changes;
      }
    }
  }
  CHECK(changes > 60);
}

// These Programs have, beside the grid's products, experts, a context axis, latent attention, and BERT's head.
TEST_CASE("the verifier rejects every lost and every repeated op on grids", "[property][verify]") {
  Losses count;
  const std::uint64_t seeds = sample(24);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    test::RandomRunLimits limits;
    limits.tensor = seed % 3 == 0 ? TensorAlgorithm::three_d : TensorAlgorithm::two_d;
    limits.expert = 1 + seed % 2;
    limits.architectures = seed % 4 == 0;
    limits.cut_positions = seed % 4 == 1;
    lose_and_repeat(seed, test::random_run(seed, limits), count);
  }
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 200 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

namespace {

PlannedRun predicting_run(std::uint64_t seed) {
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  limits.tensor = TensorAlgorithm::one_d;
  limits.predictions = true;
  return test::random_run(seed, limits);
}

}  // namespace

TEST_CASE("the verifier rejects every lost and every repeated op of prediction modules", "[property][verify]") {
  Losses count;
  const std::uint64_t seeds = sample(30);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) lose_and_repeat(seed, predicting_run(seed), count);
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 125 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

// A list that trains on other targets, or tokens, than it says is sound in every other respect. Each kernel that counts
// or loads those further ahead is made to take those of the next token but `modules`, and each loss is made another's.
TEST_CASE("the verifier rejects targets, tokens and counts of another module", "[property][verify]") {
  std::size_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PlannedRun run = predicting_run(seed);
    const Program program = lower(run.model, run.workload, run.plan);
    CAPTURE(seed, test::describe(run));
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
      for (const Op& op : program.blocks[b].ops) {
        const auto* c = std::get_if<Compute>(&op.action);
        if (c == nullptr) continue;
        const Kernel& k = program.blocks[b].kernels[c->kernel];
        CAPTURE(program.blocks[b].name, name_of(k.kind));
        Program changed = program;
        Kernel& other = changed.blocks[b].kernels[c->kernel];
        if (k.kind == KernelKind::load_targets || k.kind == KernelKind::count_targets ||
            (k.kind == KernelKind::load_tokens && k.site > 0)) {
          other.site = static_cast<std::uint8_t>(k.site + 1);
        } else if (k.kind == KernelKind::add_losses) {
          changed.blocks[b].views[op.views.first].count = k.rows - 1;
          other.rows = k.rows - 1;
          if (other.rows == 0) continue;
        } else {
          continue;
        }
        // Another rank's class may have lists without either.
        REQUIRE(!verify(changed).empty());
        ++changes;
      }
    }
  }
  CHECK(changes > 100);
}

// Whole gradients and weights live for a while. None may be forgotten, dropped with contents, gathered twice or
// gathered too late.
TEST_CASE("the verifier rejects every lost and every repeated op of ZeRO-2 and 3", "[property][verify]") {
  Losses count;
  const std::uint64_t seeds = sample(60);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    test::RandomRunLimits limits;
    limits.zero_stage = 2 + seed % 2;
    const PlannedRun run = test::random_run(seed, limits);
    if (run.plan.mesh.size(Axis::data) > 1) lose_and_repeat(seed, run, count);
  }
  CAPTURE(count.lost, count.harmless, count.repeated);
  CHECK(count.lost * stride() > 50 * seeds);
  CHECK(count.harmless * 20 < count.lost);
}

// Gradients take over the memory of weights too early or too late, or chunks are lost.
TEST_CASE("the verifier rejects every lost and every repeated op of chunked parameters", "[property][verify]") {
  Losses count;
  std::uint64_t runs = 0;
  const std::uint64_t seeds = sample(60);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    test::RandomRunLimits limits;
    limits.zero_stage = 3;
    limits.chunks = true;
    limits.mixture = false;
    const PlannedRun run = test::random_run(seed, limits);
    if (run.plan.parameter_chunk == Bytes()) continue;
    lose_and_repeat(seed, run, count);
    ++runs;
  }
  CAPTURE(runs, count.lost, count.harmless, count.repeated);
  CHECK(runs * 4 > seeds);
  CHECK(count.lost * stride() > 100 * runs);
  CHECK(count.harmless * 20 < count.lost);
}

// Where the loss is made in pieces, each op that takes a piece of the head's input, of its gradient or of the targets
// is made to take the next one.
TEST_CASE("the verifier rejects rows of another piece of the loss", "[property][verify]") {
  std::size_t changes = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    const PlannedRun run = test::random_run(seed);
    if (run.plan.loss_chunks == 1) continue;
    const Program program = lower(run.model, run.workload, run.plan);
    CAPTURE(seed, test::describe(run));
    for (const std::uint32_t b : used_blocks(program)) {
      if (!program.blocks[b].name.starts_with("head.backward")) continue;
      for (const Op& op : program.blocks[b].ops) {
        if (!std::holds_alternative<Compute>(op.action)) continue;
        for (std::uint32_t v = op.views.first; v < op.views.first + op.views.count; ++v) {
          Program changed = program;
          View& view = changed.blocks[b].views[v];
          const Buffer& buffer = program[view.buffer];
          if (buffer.parameters || view.count * run.plan.loss_chunks != buffer.count) continue;
          view.offset = (view.offset + view.count) % buffer.count;
          CAPTURE(buffer.name, v);
          REQUIRE(!verify(changed).empty());
          ++changes;
        }
      }
    }
  }
  CHECK(changes > 200);
}

// Only one class changes its order: two of its collectives or messages change places.
TEST_CASE("the verifier rejects every other order of meetings in one class", "[property][verify]") {
  std::size_t swapped = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const PlannedRun run = test::random_run(seed);
    const Program program = lower(run.model, run.workload, run.plan);
    if (program.classes.size() < 2) continue;
    CAPTURE(seed, test::describe(run));
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      // Runs that hold one transfer each: neighbours of the same kind swap.
      const auto& step = program.classes[c].step;
      for (std::size_t i = 0; i + 1 < step.size(); ++i) {
        const std::string& name = program[step[i].block].name;
        std::size_t j = i + 1;
        while (j < step.size() && program[step[j].block].name != name) ++j;
        const bool transfer = name.starts_with("send.") || name.starts_with("receive.");
        if (!transfer || j == step.size()) continue;
        // Messages of one instance are the same: a gradient that chunks of a rank pass on in turn.
        const View& view = program[step[i].block].views.front();
        if (step[i].microbatch == step[j].microbatch && !per_layer(program[view.buffer].scope)) continue;
        Program changed = program;
        std::swap(changed.classes[c].step[i], changed.classes[c].step[j]);
        CAPTURE(c, name, i, j);
        REQUIRE(!verify(changed).empty());
        ++swapped;
      }
    }
  }
  CHECK(swapped > 100);
}

// A rank must add to a norm its share of the elements it holds: twice as much, half as much and nothing are wrong
// wherever the op stands. A sum over other ranks than those that hold parts is wrong too, unless it is over the same.
TEST_CASE("the verifier rejects every wrong share of a norm, and every other sum", "[property][verify]") {
  std::size_t shares = 0, groups = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const PlannedRun run = test::random_run(seed);
    const Program program = lower(run.model, run.workload, run.plan);
    CAPTURE(seed, test::describe(run));
    const auto joined = [&](const Group& g) {
      std::set<Axis> axes;
      for (const Axis a : g.axes) {
        if (program.mesh.size(a) > 1) axes.insert(a);
      }
      return std::pair(axes, g.members);
    };
    for (const std::uint32_t b : used_blocks(program)) {
      const Block& block = program.blocks[b];
      std::set<std::uint32_t> norms;  // buffers
      for (const Op& op : block.ops) {
        if (const auto* c = std::get_if<Compute>(&op.action)) {
          const Kernel& k = block.kernels[c->kernel];
          CAPTURE(block.name, name_of(k.kind));
          if (k.kind == KernelKind::clip_factor) norms.insert(index(block.views[op.views.first].buffer));
          if (k.kind != KernelKind::sum_squares && k.kind != KernelKind::lamb_moments &&
              k.kind != KernelKind::lars_norms && k.kind != KernelKind::adafactor_squares &&
              k.kind != KernelKind::adafactor_moments) {
            continue;
          }
          for (const double factor : {0.0, 0.5, 2.0}) {
            Program changed = program;
            Block& other = changed.blocks[b];
            // Equal kernels of a block are one entry: this op gets its own.
            other.kernels.push_back(k);
            other.kernels.back().parameter *= factor;
            const auto at = static_cast<std::size_t>(&op - block.ops.data());
            other.ops[at].action = Compute{static_cast<std::uint32_t>(other.kernels.size() - 1)};
            const auto found = verify(changed);
            REQUIRE(!found.empty());
            CHECK(found[0].code == "program.norm");
            ++shares;
          }
        }
      }
      for (const Op& op : block.ops) {
        const auto* c = std::get_if<Collective>(&op.action);
        if (c == nullptr || !norms.contains(index(block.views[op.views.first].buffer))) continue;
        for (std::uint32_t g = 0; g < program.groups.size(); ++g) {
          const Group& group = program.groups[g];
          if (joined(group) == joined(program[c->group]) || !group.members.empty()) continue;
          CAPTURE(block.name, g);
          Program changed = program;
          const auto at = static_cast<std::size_t>(&op - block.ops.data());
          std::get<Collective>(changed.blocks[b].ops[at].action).group = GroupId{g};
          REQUIRE(!verify(changed).empty());
          ++groups;
        }
      }
    }
  }
  CAPTURE(shares, groups);
  CHECK(shares > 300);
  CHECK(groups > 40);
}

// A repeated sum counts everything again, and a parameter whose elements another op has counts twice, whatever stands
// between.
TEST_CASE("nothing is taken into a norm twice", "[property][verify]") {
  std::size_t sums = 0, elements = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const PlannedRun run = test::random_run(seed);
    const Program program = lower(run.model, run.workload, run.plan);
    CAPTURE(seed, test::describe(run));
    for (const std::uint32_t b : used_blocks(program)) {
      const Block& block = program.blocks[b];
      const std::vector<Item> items = items_of(block);
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (!is_kernel(block, block.ops[i], KernelKind::sum_squares, Pass::optimizer)) continue;
        // The place is behind the next one, so that the norm has changed in between.
        std::size_t next = i + 1;
        while (next < items.size() && !is_kernel(block, block.ops[next], KernelKind::sum_squares, Pass::optimizer)) {
          ++next;
        }
        if (next == items.size()) continue;
        Program changed = program;
        std::vector<Item> more = items;
        Item twin = items[i];
        twin.from = ~0U;
        // It waits for what the next one waits for, and for that one.
        twin.waits = items[next].waits;
        more.insert(more.begin() + static_cast<std::ptrdiff_t>(next) + 1, twin);
        assemble(changed.blocks[b], more);
        CAPTURE(block.name, i, next);
        REQUIRE(!verify(changed).empty());
        ++elements;
      }
      if (block.name != "norm.reduce" || items.size() < 2) continue;
      Program changed = program;
      std::vector<Item> more = items;
      Item twin = items.front();
      twin.from = ~0U;
      more.insert(more.begin() + 1, twin);
      assemble(changed.blocks[b], more);
      REQUIRE(!verify(changed).empty());
      ++sums;
    }
  }
  CAPTURE(sums, elements);
  CHECK(sums > 5);
  CHECK(elements > 50);
}
