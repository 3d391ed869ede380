#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>

#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/totals.hpp"
#include "tests/property/core/closed_forms.hpp"

using namespace orrery;
using namespace orrery::closed_forms;

namespace {

Volume volume(const Program& p, const ClassTotals& totals, Collective::Kind kind, const Group& group) {
  Volume v;
  for (const CollectiveTotal& c : totals.collectives) {
    if (c.kind == kind && p[c.group] == group) v.count += c.count, v.payload += c.payload;
  }
  return v;
}

/// Sums for updates that look at whole tensors. Norms take one message per segment of matrices, with two f64 for each
/// of them.
Volume tensor_norms(const Symbols& x, std::uint64_t stage) {
  if (has_factored_moments(x.workload)) return statistics(x, stage).messages;
  Volume v;
  if (!has_trust_ratio(x.workload)) return v;
  v.add(x.layers_of(stage), 16 * 4);
  if (x.first(stage)) v.add(x.model.positions == PositionEncoding::learned ? 2 : 1, 16);
  if (x.last(stage) && (!x.tied || x.copied())) v.add(1, 16);
  return v;
}

const Group tensor_group{{Axis::tensor}, {}};

}  // namespace

// Per layer and microbatch 1D tensor parallelism sums 2 vectors of wsbh forward and 2 backward (again forward in full
// recomputation). Sequence parallelism gathers and scatters instead, with 2 more gathers for weight gradients. Where
// the loss is made in pieces, each has its sums, and the head gathers its input for the backward pass alone.
TEST_CASE("tensor-parallel traffic equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    if (x.t == 1) continue;
    const Program program = lower(run.model, run.workload, run.plan);
    const std::uint64_t stream = x.w * x.s * x.b * x.h / x.c;
    const std::uint64_t tokens = x.s * x.b / x.c, pieces = x.plan.loss_chunks;
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const std::uint64_t layers = x.layers_of(stage) * x.m;
      const std::uint64_t forwards = layers + (x.full() ? x.again_on(stage) * x.m : 0);
      Volume reduce, gather, scatter;
      if (x.sp) {
        gather.add(2 * forwards + 4 * layers, stream);
        scatter.add(2 * forwards + 2 * layers, stream);
        if (x.first(stage)) gather.add(x.m, stream), scatter.add(x.m, stream);
        if (x.last(stage)) gather.add((pieces > 1 ? 1 : 2) * x.m, stream), scatter.add(x.m, stream);
      } else {
        reduce.add(2 * forwards + 2 * layers, stream);
        if (x.first(stage)) reduce.add(x.m, stream);
        if (x.last(stage)) reduce.add(x.m, stream);
      }
      if (x.last(stage)) {  // cross-entropy: the maximum, then sum and target together
        reduce.add(pieces * x.m, x.st * tokens / pieces);
        reduce.add(pieces * x.m, 2 * x.st * tokens / pieces);
      }
      // Under ZeRO they are sums over the ranks that share, too.
      const Volume norms = x.zero ? Volume{} : tensor_norms(x, stage);
      reduce.count += norms.count;
      reduce.payload += norms.payload;
      const ClassTotals totals = totals_of(program, stage);
      CHECK(volume(program, totals, Collective::Kind::all_gather, tensor_group) == gather);
      CHECK(volume(program, totals, Collective::Kind::reduce_scatter, tensor_group) == scatter);
      Volume measured = volume(program, totals, Collective::Kind::all_reduce, tensor_group);
      // Sequence parallelism also sums the gradients of replicated parameters, in
      // as many messages as there are buckets: their bytes are known.
      if (x.sp) {
        // With ZeRO-2 and 3 it sums their parts, once they are scattered.
        const auto padded = [&](std::uint64_t n) {
          const std::uint64_t parts = x.zero ? (n + x.shares - 1) / x.shares : n;
          return x.zero == 1 ? parts * x.shares : parts;
        };
        std::uint64_t replicated = x.layers_of(stage) * padded(layer_held(x).replicated);
        if (x.first(stage)) replicated += padded(embedding_held(x).replicated);
        if (x.last(stage)) replicated += padded(head_held(x).replicated);
        CHECK(measured.payload == reduce.payload + replicated * x.g);
      } else {
        CHECK(measured == reduce);
      }
    }
  }
}

/// Elements of weights that a stage gathers in a step. ZeRO-1 and 2: all, after the update. ZeRO-3 gathers all of them
/// for each microbatch's forward and again for its backward pass, except for the embedding, which the backward pass
/// does not read; a table tied on one rank is gathered for the head as well, or for its backward pass alone where that
/// makes the loss in pieces. When kept: all, once.
std::uint64_t gathered_elements(const Symbols& x, std::uint64_t stage, std::uint64_t held) {
  if (x.zero == 0) return 0;
  // Weights in host memory are gathered for each use instead, forward and backward.
  const std::uint64_t remote = remote_held(x, stage);
  if (x.zero < 3 || !x.plan.reshard_after_forward) return held - remote + 2 * x.m * remote;
  std::uint64_t n = 2 * held;
  if (x.first(stage)) n -= embedding_held(x).total(x);
  if (x.tied && x.first(stage) && x.last(stage)) n += (x.plan.loss_chunks > 1 ? 1 : 2) * embedding_held(x).total(x);
  return n * x.m;
}

// Data parallel: all gradients once per step over data and replicas, 2(n-1)/n of them sent in a ring. ZeRO-1: gradients
// are scattered along data and context, and weights gathered, the same bytes where both have the same size. Replicas
// sum only the part (hybrid sharding), 1/n of what they would sum of the whole. ZeRO-2 and 3 scatter after each of g
// microbatches: g + 1 and, with weights gathered twice each, 3 g times (n-1)/n of the parameters. The last stage also
// sums the count of targets and the loss.
TEST_CASE("data-parallel traffic equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    if (x.dp * x.replicas * x.c == 1) continue;
    AxisList axes;
    if (x.replicas > 1) axes.axis[axes.count++] = Axis::replica;
    if (x.dp > 1) axes.axis[axes.count++] = Axis::data;
    // Positions are tokens too: gradients are sums over the context axis as well.
    if (x.c > 1) axes.axis[axes.count++] = Axis::context;
    AxisList batch;
    if (x.replicas > 1) batch.axis[batch.count++] = Axis::replica;
    if (x.dp > 1) batch.axis[batch.count++] = Axis::data;
    const AxisList shared = without(axes, Axis::replica);  // along which ZeRO scatters
    const Group rest_group{{Axis::replica}, {}}, all_group{axes, {}}, batch_group{batch, {}}, share_group{shared, {}};
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const ClassTotals totals = totals_of(program, stage);
      const std::uint64_t n = stage_held(x, stage);
      // The loss is summed over all of them, the count over those with other sequences.
      const std::uint64_t loss = x.last(stage) ? 8 : 0;
      const std::uint64_t count = x.last(stage) && !batch.empty() ? 8 : 0;
      // The norms of tensors that ZeRO cuts travel along the axes of their shares, where these are all of all_group.
      const bool along_shares = x.zero && x.t == 1 && x.replicas == 1;
      const std::uint64_t norms = along_shares ? tensor_norms(x, stage).payload : 0;
      const std::uint64_t scalars = (x.c == 1 ? loss + count : loss) + norms;
      const Volume reduce = volume(program, totals, Collective::Kind::all_reduce, all_group);
      const Volume scatter = volume(program, totals, Collective::Kind::reduce_scatter, share_group);
      const Volume gather = volume(program, totals, Collective::Kind::all_gather, share_group);
      // Ring self-attention sums the gradients of all keys and values of each layer and microbatch over the context
      // axis.
      const std::uint64_t runs =
          test::layers_on(x.plan, static_cast<std::uint32_t>(stage)) * program.microbatches / stage_map(x.plan).pipes();
      const bool scores = x.c > 1 && x.plan.context == ContextAlgorithm::ring_self_attention;
      const std::uint64_t of_keys = scores ? runs * 2 * x.s * x.b * x.k * x.d / x.t * x.w : 0;
      CHECK(reduce.payload == (x.zero ? 0 : n * x.g) + scalars + (axes.count == 1 ? of_keys : 0));
      if (x.c > 1)
        CHECK(volume(program, totals, Collective::Kind::all_reduce, batch_group).payload ==
              count + (x.zero && batch == rest_group.axes ? n / x.shares * x.g : 0));
      // A tied table's gradient is scattered for each of its two chunks on a rank.
      const bool twice = x.zero >= 2 && x.tied && x.first(stage) && x.last(stage) && x.parts(stage).size() > 1;
      const std::uint64_t table = twice ? (x.V / x.t * x.h + x.shares - 1) / x.shares * x.shares : 0;
      if (x.dp > 1 || x.c == 1) {  // else keys and values go the same way
        CHECK(scatter.payload == (x.zero ? (n + table) * x.g : 0) * (x.zero >= 2 ? x.m : 1));
        CHECK(gather.payload == gathered_elements(x, stage, n) * x.w);
      }
      if (x.zero && x.replicas > 1) {
        CHECK(volume(program, totals, Collective::Kind::all_reduce, rest_group).payload ==
              n / x.shares * x.g + (batch.count == 1 ? count : 0));
      }
      // Uneven chunks make one rank's share differ by at most two elements per message.
      for (const CollectiveTotal& c : totals.collectives) {
        if (c.kind == Collective::Kind::permute) continue;  // keys and values
        if (contains(program[c.group].axes, Axis::tensor) || contains(program[c.group].axes, Axis::pipeline)) continue;
        const auto members = static_cast<double>(group_size(program[c.group], program.mesh));
        const double factor = (c.kind == Collective::Kind::all_reduce ? 2.0 : 1.0) * (members - 1) / members;
        CHECK(std::abs(static_cast<double>(c.sent) - factor * static_cast<double>(c.payload)) <=
              2.0 * 8.0 * static_cast<double>(c.count));
      }
    }
  }
}

// Per microbatch and boundary there is one message of wsbh (its part under sequence parallelism), forward and backward.
// The tied table's gradient is summed between first and last stage, and the norm over all parts.
TEST_CASE("pipeline traffic equals the closed form", "[property][totals]") {
  for (std::uint64_t seed = 1; seed <= cases; ++seed) {
    const PlannedRun run = test::random_run(seed, one_d());
    CAPTURE(seed, test::describe(run));
    const Symbols x(run);
    const Program program = lower(run.model, run.workload, run.plan);
    for (std::uint32_t stage = 0; stage < x.p; ++stage) {
      CAPTURE(stage);
      const ClassTotals totals = totals_of(program, stage);
      // Messages go where the next virtual stage lies on another rank.
      const StageMap map = stage_map(run.plan);
      std::uint64_t boundaries = 0;
      for (const std::uint32_t v : x.parts(stage)) {
        if (v > 0 && (x.two_way() || map.rank(v - 1) != stage)) ++boundaries;
        if (v + 1 < map.stages() && (x.two_way() || map.rank(v + 1) != stage)) ++boundaries;
      }
      CHECK(totals.messages == boundaries * x.m);
      CHECK(totals.message_bytes == boundaries * x.m * x.w * x.s * x.b * x.h / x.c / (x.sp ? x.t : 1));
      if (x.p == 1) continue;
      if (x.two_way()) {
        // Both stages' gradients are summed, only the own part under ZeRO-1, and with two heads the loss.
        const auto low = static_cast<std::uint32_t>(std::min<std::uint64_t>(stage, x.p - 1 - stage));
        const Group pair{{Axis::pipeline}, {low, static_cast<std::uint32_t>(x.p - 1 - low)}};
        const std::uint64_t loss = low == 0 ? 8 : 0;
        CHECK(volume(program, totals, Collective::Kind::all_reduce, pair).payload ==
              stage_held(x, stage) / (x.zero ? x.shares : 1) * x.g + loss);
        continue;
      }
      const Group tied{{Axis::pipeline}, {0, static_cast<std::uint32_t>(x.p - 1)}};
      Volume expected;
      if (x.copied() && (x.first(stage) || x.last(stage))) {
        std::uint64_t table = x.V / x.t * x.h;
        if (x.zero) table = (table + x.shares - 1) / x.shares;
        expected.add(1, table * x.g);
      }
      CHECK(volume(program, totals, Collective::Kind::all_reduce, tied) == expected);
    }
  }
}
