#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "core/record/traffic.hpp"
#include "tests/support/attention_kinds.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

constexpr std::uint64_t cases = 400;

/// Random runs with a context axis, as many as there are among the first seeds.
template <class Visit>
void for_each_run(Visit&& visit, bool kinds = false) {
  std::uint64_t seen = 0;
  for (std::uint64_t seed = 1; seen < cases; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (run.plan.mesh.size(Axis::context) == 1) continue;
    ++seen;
    // ZeRO's messages may go along the same axis.
    run.plan.zero_stage = 0;
    run.plan.reshard_after_forward = true;
    run.plan.prefetch = 1;
    run.plan.parameter_chunk = Plan{}.parameter_chunk;
    if (kinds) test::add_attention_kinds(seed, run);
    CAPTURE(seed, test::describe(run));
    visit(run, lower(run.model, run.workload, run.plan));
  }
}

struct Moved {
  std::uint64_t count = 0, payload = 0, sent = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
};

/// Collectives of one kind over the context axis.
Moved moved(const Program& program, std::uint32_t stage, Collective::Kind kind) {
  Moved m;
  for (const CollectiveTotal& c : totals_of(program, stage).collectives) {
    if (c.kind != kind || !(program[c.group] == Group{{Axis::context}, {}})) continue;
    m.count += c.count, m.payload += c.payload, m.sent += c.sent;
  }
  return m;
}

/// Number of collectives in a step for which `counts` is true, over all microbatches and layers of a stage.
template <class Counts>
Moved counted(const Program& program, std::uint32_t stage, Counts counts) {
  Moved m;
  const Rank rank = representative(program, stage);
  for_each_op(program, program.classes[stage].step, [&](const OpRun& run) {
    const auto* c = std::get_if<Collective>(&run.op->action);
    if (c == nullptr || !counts(run, *c)) return;
    ++m.count;
    m.payload += payload_bytes(program, *run.block, *run.op);
    m.sent += sent_bytes(program, *run.block, *run.op, rank);
  });
  return m;
}

/// Sums of the gradients of all keys and values; other sums over the context axis are those of parameters.
Moved sums_of_keys(const Program& program, std::uint32_t stage) {
  return counted(program, stage, [&](const OpRun& run, const Collective& c) {
    const Buffer& first = program[run.block->views[run.op->views.first].buffer];
    return c.kind == Collective::Kind::all_reduce && first.name == "keys_values.all.gradient";
  });
}

/// Global positions of a rank, from the cut of its tokens.
std::vector<std::uint64_t> positions_of(const Program& program, Rank rank) {
  const auto tokens =
      std::find_if(program.buffers.begin(), program.buffers.end(), [](const Buffer& b) { return b.name == "tokens"; });
  const Shard& shard = *tokens->shard;
  const Box box = box_of(shard, program.mesh, rank, 0, program.microbatches);
  std::vector<std::uint64_t> list;
  for (std::uint64_t row = 0; row < tokens->count; row += box.extent[1]) {
    list.push_back(global_index(shard, box, row) / shard.dims[1].extent);
  }
  return list;
}

}  // namespace

// Per layer and microbatch, with w bytes per element, c ranks, and t that share heads (of the tensor axis, or a grid's
// side). all_gather: 2 w s b k d / t gathered forward (again in recomputation), as much scattered backward, (c-1)/c of
// it sent. ring: 2 w (s/c) b k d / t passed on c - 1 times forward, and backward c - 1 times with its gradient in the
// state type. Ulysses: queries, keys, values and the context of s/c positions, w (s/c) b d (2a + 2k) / t in two
// messages, the same backward. With a = k, w = 2 and t = 1 that is 8 s b h (c-1)/c^2, the "four all-to-alls". Ring
// self-attention: keys and values apart, forward and backward (c-1) w (s/c) b k d / t each, and backward an all-reduce
// of both gradients. A double ring passes as often as one ring does.
TEST_CASE("context-parallel traffic equals the closed form", "[property][totals][context]") {
  std::uint64_t grids = 0;
  for_each_run([&](const PlannedRun& run, const Program& program) {
    const ModelSpec& m = run.model;
    const std::uint64_t c = run.plan.mesh.size(Axis::context);
    const std::uint64_t t = run.plan.mesh.size(Axis::tensor) * run.plan.mesh.size(Axis::column);
    grids += run.plan.tensor != TensorAlgorithm::one_d ? 1 : 0;
    const std::uint64_t w = size_of(weight_dtype(run.workload));
    const std::uint64_t sb = run.workload.sequence_length * run.plan.microbatch_size;
    const std::uint64_t st = size_of(wide_dtype(run.workload));
    const bool ulysses = run.plan.context == ContextAlgorithm::ulysses;
    const std::uint64_t count = program.microbatches / stage_map(run.plan).pipes();  // that a stage on a rank runs
    for (std::uint32_t stage = 0; stage < program.classes.size(); ++stage) {
      CAPTURE(stage);
      const std::uint64_t runs = test::layers_on(run.plan, stage) * count;
      const std::uint64_t again =
          run.plan.recompute == Recompute::full ? test::recomputed_on(run.plan, stage) * count : 0;
      const std::uint64_t forwards = runs + again;
      Moved gather, scatter, exchange, pass, sum;
      if (ulysses) {
        const std::uint64_t bytes = w * (sb / c) * m.head_dim * (2 * m.heads + 2 * m.kv_heads) / t;
        exchange = {2 * (forwards + runs), (forwards + runs) * bytes, (forwards + runs) * bytes / c * (c - 1)};
      } else if (run.plan.context == ContextAlgorithm::ring) {
        const std::uint64_t elements = 2 * (sb / c) * m.kv_heads * m.head_dim / t;
        const std::uint64_t bytes = (c - 1) * elements * ((forwards + runs) * w + runs * st);
        pass = {(c - 1) * (forwards + 2 * runs), bytes, bytes};
      } else if (run.plan.context == ContextAlgorithm::ring_self_attention) {
        const std::uint64_t elements = (sb / c) * m.kv_heads * m.head_dim / t;
        const std::uint64_t bytes = 2 * (c - 1) * elements * (forwards + runs) * w;
        pass = {2 * (c - 1) * (forwards + runs), bytes, bytes};
        sum = {runs, runs * 2 * c * elements * w, runs * 4 * (c - 1) * elements * w};
      } else {
        const std::uint64_t bytes = 2 * w * sb * m.kv_heads * m.head_dim / t;
        gather = {forwards, forwards * bytes, forwards * bytes / c * (c - 1)};
        scatter = {runs, runs * bytes, runs * bytes / c * (c - 1)};
      }
      CHECK(moved(program, stage, Collective::Kind::all_gather) == gather);
      CHECK(moved(program, stage, Collective::Kind::reduce_scatter) == scatter);
      CHECK(moved(program, stage, Collective::Kind::all_to_all) == exchange);
      CHECK(moved(program, stage, Collective::Kind::permute) == pass);
      CHECK(sums_of_keys(program, stage) == sum);
      // In a ring of r inner rings r - 1 passes leave these: passes of keys and values forward and backward, and of
      // gradients.
      if (const std::uint64_t w_of_ring = run.plan.inner_ring; w_of_ring != 0) {
        const Moved wide = counted(program, stage, [](const OpRun&, const Collective& op) {
          return op.kind == Collective::Kind::permute && op.width == 0;
        });
        CHECK(wide.count == (c / w_of_ring - 1) * (forwards + 2 * runs));
      }
    }
  });
  CHECK(grids > 20);
}

// Counts every pair of a query and a key that it sees, one by one on every rank, for each part of the keys.
TEST_CASE("attention costs what the busiest rank multiplies, and zigzag makes all equal", "[property][context]") {
  std::uint64_t uneven = 0, even = 0, local = 0, unseen = 0;
  const auto check = [&](const PlannedRun& run, const Program& program) {
    if (run.plan.context == ContextAlgorithm::ulysses) return;
    if (run.plan.context == ContextAlgorithm::ring_self_attention) return;  // multiplies all pairs
    const std::uint64_t c = run.plan.mesh.size(Axis::context);
    std::vector<std::vector<std::uint64_t>> own;
    std::vector<std::uint64_t> all;
    for (std::uint32_t i = 0; i < c; ++i) {
      own.push_back(positions_of(program, program.mesh.moved(Rank{0}, Axis::context, i)));
      all.insert(all.end(), own[i].begin(), own[i].end());
    }
    const bool ring = run.plan.context == ContextAlgorithm::ring;
    std::vector<std::uint64_t> whole(c, 0);  // pairs of each rank
    std::uint64_t columns = 0;
    for (const Block& block : program.blocks) {
      for (const Kernel& k : block.kernels) {
        if (k.kind != KernelKind::attention_part_forward && k.kind != KernelKind::attention_part_backward) continue;
        std::vector<std::uint64_t> pairs(c, 0);
        for (std::uint64_t i = 0; i < c; ++i) {
          // In a ring of rings places count inside the inner ring first.
          const std::uint64_t w = k.ring == 0 ? c : k.ring;
          const std::uint64_t inside = (i % w + w - k.site % w) % w;
          const std::uint64_t holder = (i / w + c / w - k.site / w) % (c / w) * w + inside;
          const auto sees = [&](std::uint64_t query, std::uint64_t key) {
            if (key > query || k.window == 0) return key <= query;
            return k.options.chunked ? key / k.window == query / k.window : query - key < k.window;
          };
          for (const std::uint64_t key : ring ? own[holder] : all) {
            for (const std::uint64_t query : own[i]) pairs[i] += sees(query, key) ? 1 : 0;
          }
        }
        const auto [least, most] = std::minmax_element(pairs.begin(), pairs.end());
        const auto sum = static_cast<double>(std::accumulate(pairs.begin(), pairs.end(), std::uint64_t{0}));
        CHECK(k.columns == *most);
        CHECK(k.parameter * static_cast<double>(c) == Approx(sum).epsilon(1e-14));
        CHECK(busiest_flops(k) * sum == Approx(flops_of(k).executed * static_cast<double>(*most * c)).epsilon(1e-14));
        if (k.window > 0) {
          CHECK(k.window == run.model.local->size);
          ++local;
          unseen += *most == 0 ? 1 : 0;
          continue;
        }
        if (run.plan.zigzag) CHECK(*least == *most);
        if (k.pass != Pass::forward) continue;
        columns += k.columns;
        for (std::uint64_t i = 0; i < c; ++i) whole[i] += pairs[i];
      }
    }
    // Over all parts of the keys the busiest rank is one and the same: the last.
    CHECK(columns == *std::max_element(whole.begin(), whole.end()));
    (whole.front() == whole.back() ? even : uneven) += 1;
    // The ranks hold every position once.
    std::sort(all.begin(), all.end());
    std::vector<std::uint64_t> expected(run.workload.sequence_length);
    std::iota(expected.begin(), expected.end(), 0U);
    CHECK(all == expected);
  };
  for_each_run(check);
  CHECK(uneven > 20);
  CHECK(even > 20);
  for_each_run(check, true);
  CHECK(local > 200);
  CHECK(unseen > 20);  // no query of any rank sees a key of this part
}
