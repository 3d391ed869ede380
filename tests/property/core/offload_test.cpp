#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdint>

#include "core/plan/schedule_rules.hpp"
#include "core/program/factored.hpp"
#include "core/program/lower/lower.hpp"
#include "core/program/program_text.hpp"
#include "core/program/verify.hpp"
#include "core/record/tier_memory.hpp"
#include "tests/property/core/program_oracle.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/shares.hpp"

using namespace orrery;

namespace {

/// Bytes that one rank of a class copies in a step.
struct Copied {
  std::uint64_t down = 0, up = 0;  ///< from the device to host memory, and back
  std::uint64_t to_disk = 0, from_disk = 0;
};
Copied copied(const Program& program, std::uint32_t rank_class) {
  Copied bytes;
  for_each_op(program, program.classes[rank_class].step, [&](const OpRun& run) {
    const auto* copy = std::get_if<Copy>(&run.op->action);
    if (copy == nullptr) return;
    std::uint64_t& way = copy->from == Tier::disk ? bytes.from_disk
                         : copy->to == Tier::disk ? bytes.to_disk
                         : copy->to == Tier::host ? bytes.down
                                                  : bytes.up;
    for (std::uint32_t i = 1; i < run.op->views.count; i += 2) {
      const View& v = run.block->views[run.op->views.first + i];
      way += v.count * size_of(program[v.buffer].dtype);
    }
  });
  return bytes;
}

/// Elements of a rank's modules whose states are in host memory, and of the largest of these modules; bytes of masters
/// and moments.
struct OnHost {
  std::uint64_t all = 0, largest = 0;
  std::uint64_t states = 0, most_states = 0;
};
/// Bytes of one module's part: masters, moments, and where these have scales two f32 for every 128 of a segment's part,
/// or every 256 of moments in codes; Adafactor's statistics are whole.
std::uint64_t state_bytes(const Workload& w, const ParameterTable& t, const Mesh& mesh, bool zero) {
  std::uint64_t each = has_master_weights(w) ? size_of(state_dtype(w)) : 0;
  const bool codes = moment_dtype(w) == DType::u8;
  each +=
      has_scaled_moments(w) && !codes ? 3 : static_cast<std::uint64_t>(optimizer_moments(w)) * size_of(moment_dtype(w));
  std::uint64_t bytes = test::share_of(mesh, t, zero) * each;
  for (const ParameterSegment& s : t.segments) {
    const std::uint64_t count = zero ? s.count / test::shares(mesh, t, s) : s.count;
    if (has_scaled_moments(w)) bytes += 8 * (codes ? (count + 255) / 256 : (count + 127) / 128);
    if (has_factored_moments(w)) bytes += factored(t, s, mesh).count * size_of(wide_dtype(w));
  }
  return bytes;
}
OnHost on_host(const PlannedRun& run, const Program& program, std::uint32_t rank) {
  const Mesh& mesh = run.plan.mesh;
  const bool zero = run.plan.zero_stage > 0;
  OnHost out;
  const auto add = [&](const char* module, std::uint64_t times) {
    for (const ParameterTable& t : program.parameter_tables) {
      if (t.module != module || times == 0) continue;
      const std::uint64_t share = test::share_of(mesh, t, zero);
      out.all += times * share;
      out.largest = std::max(out.largest, share);
      const std::uint64_t states = state_bytes(run.workload, t, mesh, zero);
      out.states += times * states;
      out.most_states = std::max(out.most_states, states);
    }
  };
  const std::vector<std::uint32_t> stages = test::stages_on(run.plan, rank);
  const std::uint32_t eighths = *run.plan.offload_states;
  for (const std::uint32_t s : stages) {
    const std::uint32_t end = first_layer(run.plan, s + 1);
    const std::uint32_t taken = ((*run.plan.stage_layers)[s] * eighths + 7) / 8;
    for (std::uint32_t l = end - taken; l < end; ++l) {
      add(!run.model.mixture || is_mixture(run.model, l) ? "layer" : "layer.dense", 1);
    }
  }
  if (eighths < 8) return out;
  const auto holds = [&](std::size_t stage) { return std::find(stages.begin(), stages.end(), stage) != stages.end(); };
  if (holds(0)) add("embedding", 1);
  if (holds(run.plan.stage_layers->size() - 1)) add("head", 1);
  return out;
}

/// Elements of one layer and of a rank's share of it, and of the rank's layers whose weights are in host memory.
struct Remote {
  std::uint64_t layer = 0, share = 0, layers = 0;
};
Remote remote_on(const PlannedRun& run, const Program& program, std::uint32_t rank) {
  Remote out;
  for (const ParameterTable& t : program.parameter_tables) {
    if (t.module == "layer") {
      out.layer = t.count;
      out.share = test::share_of(run.plan.mesh, t, run.plan.zero_stage > 0);
    }
  }
  for (const std::uint32_t s : test::stages_on(run.plan, rank)) {
    out.layers += ((*run.plan.stage_layers)[s] * *run.plan.offload_parameters + 7) / 8;
  }
  return out;
}

/// Bytes that the offloaded layers of a pipeline rank keep for one microbatch: over all layers, and the most of two
/// neighbours in one chunk.
struct Kept {
  std::uint64_t all = 0, neighbours = 0;
};
/// Where backward is split, results that a recomputed layer computes again for its weight gradients do not count:
/// everything but its input (full), or the attention core's result (selective; with Ulysses that travels before it is
/// kept).
Kept kept_on(const PlannedRun& run, const Program& program, const ClassTotals& totals, std::uint32_t rank) {
  const auto size_of_one = [&](const char* name) {
    const auto b = std::find_if(program.buffers.begin(), program.buffers.end(),
                                [&](const Buffer& buffer) { return buffer.name == name; });
    return bytes_of(*b);
  };
  const bool ulysses = run.plan.mesh.size(Axis::context) > 1 && run.plan.context == ContextAlgorithm::ulysses;
  Kept bytes;
  for (const std::uint32_t s : test::stages_on(run.plan, rank)) {
    const std::uint32_t low = first_layer(run.plan, s);
    std::uint64_t before = 0;
    const std::uint32_t taken = ((*run.plan.stage_layers)[s] * *run.plan.offload_activations + 7) / 8;
    for (std::uint32_t l = low; l < low + taken; ++l) {
      const bool again = splits_backward(run.plan) && test::recomputes(run.plan, l);
      const std::uint64_t saved = totals.saved[l].activations + totals.saved[l].statistics;
      const std::uint64_t kept = again && run.plan.recompute == Recompute::full
                                     ? size_of_one("hidden")
                                     : saved - (again && !ulysses ? size_of_one("context") : 0);
      bytes.all += kept;
      bytes.neighbours = std::max(bytes.neighbours, before + kept);
      before = kept;
    }
  }
  return bytes;
}

}  // namespace

// For each parameter that the host updates, its gradient goes down and its weight comes up, 2 + 2 bytes with 16-bit
// gradients (Ren et al., ATC 2021: 2M and 2M). Host memory has the states, the weight, and the gradients of one module
// at a time.
TEST_CASE("offloaded states move and take what the closed form says", "[property][offload]") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(seed);
    const std::uint64_t moments = static_cast<std::uint64_t>(optimizer_moments(run.workload));
    const bool masters = has_master_weights(run.workload);
    if (moments == 0 && !masters) continue;
    if (has_trust_ratio(run.workload) || has_factored_moments(run.workload))
      continue;  // their sums over ranks come up too
    run.plan.offload_activations = 0;
    run.plan.offload_parameters = 0;
    run.plan.states_tier = OffloadTier::host;
    run.plan.offload_states = static_cast<std::uint32_t>(1 + seed % 8);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const std::uint64_t g = size_of(gradient_dtype(run.workload)), w = size_of(weight_dtype(run.workload));
    const bool factor = run.workload.clip_norm || run.workload.precision == Precision::fp16;
    const std::uint64_t scalars = factor ? 24 : 8;  // the step count; multiplier and skip
    const std::vector<TierBytes> peaks = tier_peaks(program);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const OnHost host = on_host(run, program, c);
      const Copied bytes = copied(program, c);
      CHECK(bytes.down == host.all * g + scalars);
      CHECK(bytes.up == host.all * w);
      CHECK(peaks[c][index(Tier::host)] == host.all * w + host.states + host.largest * g + scalars);
      CHECK(peaks[c][index(Tier::disk)] == 0);
      const ClassTotals totals = totals_of(program, c);
      for (std::size_t tier = 0; tier < tier_count; ++tier) CHECK(peaks[c][tier] == totals.peak[tier]);
    }
  }
}

TEST_CASE("the device holds fewer states, and the rest is as without", "[property][offload]") {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (run.plan.offload_states == 0U) continue;
    CAPTURE(seed, test::describe(run));
    const Program with = lower(run.model, run.workload, run.plan);
    REQUIRE(verify(with).empty());
    // Ranks with a part each gather, for each use, the weights in host memory.
    const bool gathers_weights =
        run.plan.offload_parameters != 0U && run.plan.zero_stage > 0 && !shard_axes_of(run.plan).empty();
    run.plan.offload_states = 0;
    run.plan.offload_parameters = 0;
    run.plan.states_tier = OffloadTier::host;
    const Program without = lower(run.model, run.workload, run.plan);
    for (std::uint32_t c = 0; c < with.classes.size(); ++c) {
      const ClassTotals a = totals_of(with, c), b = totals_of(without, c);
      CHECK(a.peak[index(Tier::device)] < b.peak[index(Tier::device)]);
      if (!gathers_weights) CHECK(a.collectives == b.collectives);
      CHECK(a.message_bytes == b.message_bytes);
    }
  }
}

// Masters and moments are read once and written once a step. In host memory they take the room that one module needs.
TEST_CASE("states on disk move and take what the closed form says", "[property][offload]") {
  std::size_t runs = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (run.plan.offload_states == 0U) continue;
    run.plan.offload_activations = 0;
    run.plan.offload_parameters = 0;
    run.plan.states_tier = OffloadTier::host;
    const Program without = lower(run.model, run.workload, run.plan);
    run.plan.states_tier = OffloadTier::disk;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    if (seed % 4 == 0) REQUIRE(verify(program).empty());
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const OnHost host = on_host(run, program, c);
      const Copied moved = copied(program, c);
      CHECK(moved.from_disk == host.states);
      CHECK(moved.to_disk == host.states);
      const ClassTotals with = totals_of(program, c), plain = totals_of(without, c);
      CHECK(with.peak[index(Tier::disk)] == host.states);
      CHECK(with.peak[index(Tier::device)] == plain.peak[index(Tier::device)]);
      CHECK(with.peak[index(Tier::host)] == plain.peak[index(Tier::host)] - (host.states - host.most_states));
      CHECK(moved.down == copied(without, c).down);
      CHECK(moved.up == copied(without, c).up);
      ++runs;
    }
  }
  CHECK(runs > 60);
}

// In addition to the traffic of states, w bytes of weights come up for the forward and for the backward pass of each
// microbatch instead of once after the update. With ZeRO this is the rank's part, and the rest is gathered then. The
// device holds at most two of the layers' weights instead of all; host memory holds nothing more.
TEST_CASE("offloaded parameters move and take what the closed form says", "[property][offload]") {
  std::size_t sharded = 0, smaller = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (optimizer_moments(run.workload) == 0 && !has_master_weights(run.workload)) continue;
    if (has_trust_ratio(run.workload) || has_factored_moments(run.workload) || run.plan.zero_stage == 3) continue;
    if (mixes_kinds(run.model)) continue;  // only states leave the device
    run.plan.offload_activations = 0;
    run.plan.offload_parameters = 0;
    run.plan.offload_states = 8;
    run.plan.parameters_tier = OffloadTier::host;
    const Program without = lower(run.model, run.workload, run.plan);
    run.plan.offload_parameters = static_cast<std::uint32_t>(1 + seed % 8);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    if (seed % 4 == 0) REQUIRE(verify(program).empty());
    const std::uint64_t w = size_of(weight_dtype(run.workload));
    const std::uint64_t m = program.microbatches / stage_map(run.plan).pipes();
    const bool shares = run.plan.zero_stage > 0 && !shard_axes_of(run.plan).empty();
    sharded += shares ? 1 : 0;
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const ClassTotals with = totals_of(program, c), plain = totals_of(without, c);
      const Remote host = remote_on(run, program, c);
      const std::uint64_t layer = host.layer, remote = host.layers * layer, share = host.layers * host.share;
      const Copied moved = copied(program, c), before = copied(without, c);
      CHECK(moved.down == before.down);
      CHECK(moved.up == before.up - share * w + 2 * m * share * w);
      CHECK(with.peak[index(Tier::host)] == plain.peak[index(Tier::host)]);
      CHECK(with.state[index(Role::weight)] == plain.state[index(Role::weight)] - remote * w);
      CHECK(with.message_bytes == plain.message_bytes);
      const AxisList all = shard_axes_of(run.plan);
      const auto gathered = [&](const ClassTotals& t, const Program& p) {
        std::uint64_t bytes = 0;
        for (const CollectiveTotal& total : t.collectives) {
          const AxisList& axes = p[total.group].axes;
          const bool of_shares = std::all_of(axes.begin(), axes.end(), [&](Axis a) { return contains(all, a); });
          bytes += total.kind == Collective::Kind::all_gather && of_shares ? total.payload : 0;
        }
        return bytes;
      };
      // Experts that no rank shares are not gathered.
      std::uint64_t apart = 0;
      for (const ParameterTable& t : program.parameter_tables) {
        for (const ParameterSegment& s : t.segments) {
          if (t.module == "layer" && test::shares(program.mesh, t, s) == 1) apart += s.count * host.layers;
        }
      }
      const std::uint64_t together = remote - apart;
      if (shares) CHECK(gathered(with, program) == gathered(plain, without) - together * w + 2 * m * together * w);
      // Weights come up two layers at a time, where there are more.
      if (remote > 2 * layer) {
        CHECK(with.peak[index(Tier::device)] < plain.peak[index(Tier::device)]);
        ++smaller;
      }
    }
  }
  CHECK(sharded > 20);
  CHECK(smaller > 20);
}

// The activations that a layer keeps (Korthikanti et al. 2022, compared with its table in totals_test.cpp) go down and
// come up once for each microbatch; the rest of the Program is as without offloading. Host memory holds those of all
// microbatches under way: all of GPipe's, and p - i on stage i in 1F1B. The device never needs more, because two layers
// are in flight where all were kept.
TEST_CASE("offloaded activations move and take what the closed form says", "[property][offload]") {
  std::size_t smaller = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (mixes_kinds(run.model)) continue;
    run.plan.offload_states = 0;
    run.plan.offload_parameters = 0;
    run.plan.states_tier = OffloadTier::host;
    run.plan.offload_activations = 0;
    const Program without = lower(run.model, run.workload, run.plan);
    run.plan.offload_activations = static_cast<std::uint32_t>(1 + seed % 8);
    run.plan.activations_tier = OffloadTier::host;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    if (seed % 4 == 0) REQUIRE(verify(program).empty());
    const StageMap map = stage_map(run.plan);
    const std::uint64_t m = program.microbatches / map.pipes();
    const std::vector<TierBytes> peaks = tier_peaks(program);
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const ClassTotals with = totals_of(program, c), plain = totals_of(without, c);
      const std::uint64_t kept = kept_on(run, without, plain, c).all;
      const Copied bytes = copied(program, c);
      CHECK(bytes.down == m * kept);
      CHECK(bytes.up == m * kept);
      CHECK(with.collectives == plain.collectives);
      CHECK(with.message_bytes == plain.message_bytes);
      CHECK(with.saved == plain.saved);
      CHECK(with.peak[index(Tier::device)] <= plain.peak[index(Tier::device)]);
      smaller += with.peak[index(Tier::device)] < plain.peak[index(Tier::device)] ? 1 : 0;
      if (run.plan.schedule == ScheduleName::gpipe) CHECK(peaks[c][index(Tier::host)] == m * kept);
      if (run.plan.schedule == ScheduleName::one_f_one_b) {
        const std::uint64_t ranks = run.plan.mesh.size(Axis::pipeline);
        CHECK(peaks[c][index(Tier::host)] == std::min<std::uint64_t>(m, ranks - c) * kept);
      }
      for (std::size_t tier = 0; tier < tier_count; ++tier) CHECK(peaks[c][tier] == with.peak[tier]);
    }
  }
  CHECK(smaller > 100);
}

// The disk has the activations that wait in host memory without a disk. In addition, two neighbours of the layers are
// in host memory.
TEST_CASE("activations on disk move and take what the closed form says", "[property][offload]") {
  std::size_t smaller = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (mixes_kinds(run.model)) continue;
    run.plan.offload_states = 0;
    run.plan.offload_parameters = 0;
    run.plan.offload_activations = 0;
    const Program none = lower(run.model, run.workload, run.plan);
    run.plan.offload_activations = static_cast<std::uint32_t>(1 + seed % 8);
    run.plan.activations_tier = OffloadTier::host;
    const Program without = lower(run.model, run.workload, run.plan);
    run.plan.activations_tier = OffloadTier::disk;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    if (seed % 4 == 0) REQUIRE(verify(program).empty());
    const std::uint64_t m = program.microbatches / stage_map(run.plan).pipes();
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const ClassTotals with = totals_of(program, c), plain = totals_of(without, c);
      const Kept kept = kept_on(run, none, totals_of(none, c), c);
      const Copied moved = copied(program, c);
      CHECK(moved.from_disk == m * kept.all);
      CHECK(moved.to_disk == m * kept.all);
      CHECK(moved.down == m * kept.all);
      CHECK(moved.up == m * kept.all);
      CHECK(with.peak[index(Tier::disk)] == plain.peak[index(Tier::host)]);
      CHECK(with.peak[index(Tier::host)] == kept.neighbours);
      CHECK(with.peak[index(Tier::device)] == plain.peak[index(Tier::device)]);
      CHECK(with.collectives == plain.collectives);
      smaller += with.peak[index(Tier::host)] < plain.peak[index(Tier::host)] ? 1 : 0;
    }
  }
  CHECK(smaller > 100);
}

// w bytes of the rank's part of a layer's weights are read for each use and for the update, which writes them back.
// Host memory no longer has them, except for two neighbours' while a microbatch passes, or one layer's beside its
// gradients while the host updates it.
TEST_CASE("parameters on disk move and take what the closed form says", "[property][offload]") {
  std::size_t runs = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    PlannedRun run = test::random_run(seed);
    if (optimizer_moments(run.workload) == 0 && !has_master_weights(run.workload)) continue;
    if (has_trust_ratio(run.workload) || has_factored_moments(run.workload) || run.plan.zero_stage == 3) continue;
    if (mixes_kinds(run.model)) continue;
    run.plan.offload_activations = 0;
    run.plan.offload_states = static_cast<std::uint32_t>(4 + seed % 5);
    run.plan.states_tier = OffloadTier::host;
    run.plan.offload_parameters = static_cast<std::uint32_t>(1 + seed % *run.plan.offload_states);
    run.plan.parameters_tier = OffloadTier::host;
    const Program without = lower(run.model, run.workload, run.plan);
    run.plan.parameters_tier = OffloadTier::disk;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    if (seed % 4 == 0) REQUIRE(verify(program).empty());
    const std::uint64_t w = size_of(weight_dtype(run.workload)), g = size_of(gradient_dtype(run.workload));
    const std::uint64_t m = program.microbatches / stage_map(run.plan).pipes();
    for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
      CAPTURE(c);
      const Remote host = remote_on(run, program, c);
      const std::uint64_t layer = host.share, remote = host.layers * host.share;
      bool neighbours = false;
      for (const std::uint32_t s : test::stages_on(run.plan, c)) {
        neighbours = neighbours || (*run.plan.stage_layers)[s] * *run.plan.offload_parameters > 8;
      }
      const Copied moved = copied(program, c);
      CHECK(moved.from_disk == (2 * m + 1) * remote * w);
      CHECK(moved.to_disk == remote * w);
      const ClassTotals with = totals_of(program, c), plain = totals_of(without, c);
      CHECK(with.peak[index(Tier::disk)] == remote * w);
      const std::uint64_t largest = on_host(run, program, c).largest;
      const std::uint64_t passing = std::max({(neighbours ? 2 : 1) * layer * w, largest * g, layer * (g + w)});
      CHECK(with.peak[index(Tier::host)] == plain.peak[index(Tier::host)] - remote * w - largest * g + passing);
      CHECK(with.peak[index(Tier::device)] == plain.peak[index(Tier::device)]);
      CHECK(with.collectives == plain.collectives);
      CHECK(moved.down == copied(without, c).down);
      CHECK(moved.up == copied(without, c).up);
      ++runs;
    }
  }
  CHECK(runs > 200);
}

// Every lost or repeated op is in mutation_test.cpp. A wait may have a twin (compute waits for a broadcast that has
// waited, or for a later way down). Then, and only then, the judge, who tries all pairs of ops, misses nothing either.
TEST_CASE("the verifier rejects a lost wait for a copied activation, unless another does the same",
          "[property][offload]") {
  std::size_t waits = 0, rejected = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    test::RandomRunLimits limits;
    limits.max_ranks = 4;
    PlannedRun run = test::random_run(seed, limits);
    if (mixes_kinds(run.model)) continue;
    run.plan.offload_states = 0;
    run.plan.offload_parameters = 0;
    run.plan.states_tier = OffloadTier::host;
    run.plan.offload_activations = 8;
    run.plan.activations_tier = seed % 2 == 0 ? OffloadTier::disk : OffloadTier::host;
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    REQUIRE(verify(program).empty());
    std::vector<bool> used(program.blocks.size());
    for (const RankClass& c : program.classes) {
      for (const Slot& s : c.step) used[index(s.block)] = true;
    }
    for (std::size_t b = 0; b < program.blocks.size(); ++b) {
      for (std::size_t i = 0; used[b] && i < program.blocks[b].ops.size(); ++i) {
        const Op& op = program.blocks[b].ops[i];
        for (std::uint32_t w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
          Program early = program;
          Wait& wait = early.blocks[b].waits[w];
          if (wait.kind != Wait::Kind::tail || wait.lane.kind != LaneKind::copy) continue;
          wait.lane = op.lane;  // which it follows anyway
          const std::vector<Violation> found = verify(early);
          CAPTURE(op_text(program, program.blocks[b], op), render(found));
          REQUIRE(found.empty() == test::brute_force_fault(early).empty());
          rejected += found.empty() ? 0 : 1;
          ++waits;
        }
      }
    }
  }
  CHECK(waits > 100);
  CHECK(rejected > 100);
}
