#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "exec/checkpoint/reshard.hpp"
#include "exec/checkpoint/restore.hpp"
#include "exec/train/parameters.hpp"
#include "exec/train/single_device.hpp"
#include "tests/oracle/numerics/check_numerics.hpp"
#include "tests/oracle/numerics/collect.hpp"
#include "tests/support/memory_disk.hpp"
#include "tests/support/other_plan.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/training.hpp"

namespace orrery::test {
namespace {

using Gathered = std::map<std::string, GlobalTensors>;

/// How far apart the losses of two plans may be that start from the same weights: each is within the bound of
/// check_numerics from the single device's.
double loss_bound(const PlannedRun& run, const GlobalTensors& weights, const DataSource& data, std::uint64_t step) {
  const double bound = gradient_bound(run.workload.precision);
  if (weight_dtype(run.workload) == wide_dtype(run.workload)) return 2.0 * bound;
  ParameterSet set;
  for (const ReferenceParameter& p : parameters_of(run.model)) {
    Matrix m(p.rows, p.columns);
    m.values = weights.at(p.name).values;
    set.emplace(p.name, std::move(m));
  }
  const double exact = reference_gradients(run.model, run.workload, set, data, step).loss;
  double spread = 0.0;
  for (std::uint64_t draw = 0; draw < 3; ++draw) {
    const StorageRounding rounding{weight_dtype(run.workload), 1.0,
                                   gradient_dtype(run.workload) == weight_dtype(run.workload), draw};
    spread = std::max(spread,
                      std::abs(reference_gradients(run.model, run.workload, set, data, step, rounding).loss - exact));
  }
  return 2.0 * (bound + 6.0 * spread / std::abs(exact));
}

/// Compares element by element. They are equal, or, for moments with scales, rounded once more to the scale of another
/// block: half a unit of E4M3 (2^-4 of a number, 2^-10 of the scale where that is larger), or of f16 (2^-11, 2^-25). A
/// code of a byte is off by at most half a part of the highest decade, 0.9 / 128 or 0.9 / 256 of the largest of its
/// block.
void check_equal(const Workload& w, const Gathered& was, const Gathered& is) {
  for (const auto& [what, tensors] : was) {
    CAPTURE(what);
    if (!what.starts_with("moment") || !has_scaled_moments(w)) {
      CHECK(is.at(what).size() == tensors.size());
      for (const auto& [name, tensor] : tensors) {
        CAPTURE(name);
        CHECK((is.at(what).at(name).values == tensor.values));  // shapes may join dimensions
      }
      continue;
    }
    const bool first = what == "moment1";
    const double most_number = first ? 448.0 : 65504.0;
    double most = 0.0;
    for (const auto& [name, t] : tensors) {
      for (const double x : t.values) most = std::max(most, std::abs(x));
    }
    const bool codes = moment_dtype(w) == DType::u8;
    const double relative = codes ? 0.0 : first ? 0x1p-4 : 0x1p-11;
    const double absolute =
        codes ? (first ? 0.9 / 128 : 0.9 / 256) * most : (first ? 0x1p-10 : 0x1p-25) * most / most_number;
    for (const auto& [name, t] : tensors) {
      const std::vector<double>& values = is.at(what).at(name).values;
      REQUIRE(values.size() == t.values.size());
      std::size_t off = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        // A scale is an f32, which adds 2^-23.
        off += std::abs(values[i] - t.values[i]) > (relative * std::abs(t.values[i]) + absolute) * 1.000001 ? 1 : 0;
      }
      CAPTURE(name);
      CHECK(off == 0);
    }
  }
}

Gathered scalars_and_tensors(const Training& t, const RunBuffers& buffers) {
  Gathered all = gathered(t.program, buffers);
  for (const Rank rank : all_ranks(t.program)) {
    GlobalTensor& scalars = all["scalars"]["of every rank"];
    scalars.values = {scalar_on(t.program, buffers, rank, "steps")};
    if (t.run.workload.precision == Precision::fp16) {
      for (const std::uint64_t i : {0, 1}) {
        scalars.values.push_back(scalar_on(t.program, buffers, rank, "loss_scale", i));
      }
    }
  }
  return all;
}

// Runs a chain of plans. Each goes on from the state that the one before saved after one step, while that one trains
// two more.
void check_chains(std::uint64_t seed, std::size_t count, std::uint32_t max_ranks) {
  for (const PlannedRun& subject : subjects()) {
    const Workload& w = subject.workload;
    MemoryDisk disk;
    std::optional<Training> before;
    std::optional<std::string> kept;
    Gathered saved;
    StateBytes saved_bytes;
    std::vector<double> expected;  // the losses behind what was saved
    double bound = 0.0;
    const std::vector<PlannedRun> plans = under_plans(subject, seed, count, max_ranks);
    REQUIRE(plans.size() == count);
    seed += 1000;
    for (std::uint64_t i = 0; i < plans.size(); ++i) {
      Training t(plans[i]);
      CAPTURE(i, describe(plans[i]), before ? describe(before->run) : "");
      auto found = newest_whole(disk, "dir");
      REQUIRE(found.damaged.empty());
      REQUIRE(found.checkpoint.has_value() == (i > 0));
      if (i > 0) {
        // Reshards without a run: to this plan, and from there back to the one before.
        const std::vector<Rank> ranks = all_ranks(t.program), old_ranks = all_ranks(before->program);
        MemoryDisk other;
        const SavedCheckpoint there =
            reshard(*found.checkpoint, other, "dir", t.program, manifest_of(t.run, found.checkpoint->manifest.step));
        Checkpoint resharded = open_checkpoint(other, "dir", there.name);
        const StateMemory direct(t.program, ranks), indirect(t.program, ranks), back(before->program, old_ranks);
        restore(*found.checkpoint, t.program, ranks, direct);
        restore(resharded, t.program, ranks, indirect);
        CHECK(state_bytes(t.program, direct) == state_bytes(t.program, indirect));
        restore(resharded, before->program, old_ranks, back);
        CHECK((has_scaled_moments(w) || state_bytes(before->program, back) == saved_bytes));
      }
      const std::vector<double> losses = t.train(i + 1, 3, [&](const RunEvent& e) {
        if (e.step == 0 && i > 0) {
          restore(*found.checkpoint, t.program, all_ranks(t.program), *e.buffers);
          check_equal(w, saved, scalars_and_tensors(t, *e.buffers));
          bound = loss_bound(t.run, saved.at("weights"), *t.data, i + 1);
        }
        if (e.step != 1) return;
        saved = scalars_and_tensors(t, *e.buffers);
        saved_bytes = state_bytes(t.program, *e.buffers);
        kept = t.save(disk, *e.buffers, i + 1, kept);
      });
      if (i > 0) {
        CHECK(std::abs(losses[0] - expected[0]) <= bound * std::abs(expected[0]));
        // An update is as far off as its gradient, except where that is only rounding, on which no loss depends.
        if (w.precision == Precision::fp64) CHECK(std::abs(losses[1] - expected[1]) <= 1e-6 * std::abs(expected[1]));
      }
      expected = {losses[1], losses[2]};
      before.emplace(std::move(t));
    }
  }
}

}  // namespace

TEST_CASE("a run resumed under another plan has the same state and goes on with the same losses",
          "[oracle][checkpoint]") {
  std::getenv("ORRERY_LONG_TESTS") != nullptr ? check_chains(100000, 25, 16) : check_chains(100, 2, 8);
}

// Ranks that share a key-value head cut the columns of a matrix evenly, others by heads.
TEST_CASE("a state of ranks that share key-value heads goes to ranks that do not, and back", "[oracle][checkpoint]") {
  std::optional<PlannedRun> sharing, whole;
  for (const PlannedRun& subject : subjects()) {
    if (subject.model.kv_heads != 2) continue;
    for (std::uint64_t seed = 1; seed < 3000 && !(sharing && whole); ++seed) {
      const std::optional<PlannedRun> run = under_plan(subject, seed, 8);
      if (!run || run->plan.tensor != TensorAlgorithm::one_d) continue;
      (run->plan.mesh.size(Axis::tensor) > 2 ? sharing : whole) = run;
    }
  }
  REQUIRE((sharing && whole));
  MemoryDisk disk;
  Gathered saved;
  const Training first(*sharing), second(*whole);
  CAPTURE(describe(first.run), describe(second.run));
  std::optional<std::string> kept;
  static_cast<void>(first.train(1, 1, [&](const RunEvent& e) {
    if (e.step != 1) return;
    saved = scalars_and_tensors(first, *e.buffers);
    kept = first.save(disk, *e.buffers, 1, kept);
  }));
  for (const Training* t : {&second, &first}) {
    auto found = newest_whole(disk, "dir");
    REQUIRE(found.checkpoint);
    static_cast<void>(t->train(2, 1, [&](const RunEvent& e) {
      if (e.step == 0) {
        restore(*found.checkpoint, t->program, all_ranks(t->program), *e.buffers);
        check_equal(t->run.workload, saved, scalars_and_tensors(*t, *e.buffers));
      }
      if (e.step != 1) return;
      saved = scalars_and_tensors(*t, *e.buffers);
      kept = t->save(disk, *e.buffers, 2, kept);
    }));
  }
}

}  // namespace orrery::test
