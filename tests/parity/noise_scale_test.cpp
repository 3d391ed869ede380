#include "core/record/noise_scale.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <optional>
#include <random>

#include "core/program/lower/lower.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/data.hpp"
#include "exec/train/single_device.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;

namespace {

/// Some sequences of other data: sequence 0 is number `first`, and with `repeated` all others are, too.
class SomeSequences final : public DataSource {
 public:
  SomeSequences(const DataSource& of, std::uint64_t first, bool repeated = false)
      : of_(of), first_(first), repeated_(repeated) {}
  [[nodiscard]] std::int32_t token(std::uint64_t step, std::uint64_t s, std::uint64_t at) const override {
    return of_.token(step, number(s), at);
  }
  [[nodiscard]] std::int32_t target(std::uint64_t step, std::uint64_t s, std::uint64_t at) const override {
    return of_.target(step, number(s), at);
  }

 private:
  [[nodiscard]] std::uint64_t number(std::uint64_t s) const { return repeated_ ? first_ : first_ + s; }
  const DataSource& of_;
  std::uint64_t first_;
  bool repeated_;
};

PlannedRun four_replicas(std::uint32_t pipeline, std::uint32_t zero, std::uint32_t batch) {
  Mesh mesh;
  mesh.axes = {{Axis::pipeline, pipeline}, {Axis::data, 4}};
  PlannedRun run = test::tiny_run(mesh, batch);
  run.workload.precision = Precision::fp64;
  run.plan.zero_stage = zero;
  run.plan.microbatch_size = 1;
  run.model.tied_embeddings = pipeline == 1;  // two stages would each have a part of its gradient
  return run;
}

NoiseEvent measured(const PlannedRun& run, const DataSource& data, bool lanes = false) {
  RunOptions options;
  options.concurrent_lanes = lanes;
  options.noise = NoiseBatches{static_cast<double>(run.workload.global_batch) / 4.0,
                               static_cast<double>(run.workload.global_batch)};
  const Program program = lower(run.model, run.workload, run.plan);
  return execute(program, run.model, run.workload, run.plan, data, options).noise.value();
}

/// The square of the gradient's norm in the first step, by the single-device reference.
double square(const PlannedRun& run, std::uint64_t batch, const DataSource& data) {
  Workload workload = run.workload;
  workload.global_batch = batch;
  TrainingState state = initial_state(run.model, workload);
  return std::pow(train_step(run.model, workload, data, 1, state).update.norm, 2.0);
}

}  // namespace

// With |G|^2 = 4 and S = 10 the mean square over B sequences is 4 + 10 / B (McCandlish et al., 2018, equation A.2).
TEST_CASE("the noise scale is that of gradients whose mean and variance are known", "[parity][noise]") {
  NoiseScale exact(2.0, 8.0);
  CHECK_FALSE(exact.scale().has_value());
  exact.add(4.0 + 10.0 / 2.0, 4.0 + 10.0 / 8.0);
  CHECK(exact.true_square() == Approx(4.0).epsilon(1e-14));
  CHECK(exact.noise() == Approx(10.0).epsilon(1e-14));
  CHECK(exact.scale().value() == Approx(2.5).epsilon(1e-14));
  exact.add(std::nan(""), 1.0);
  CHECK(exact.steps() == 1);

  // Gradients of 50 numbers with mean 0.3 and variance 0.04 each: |G|^2 = 4.5, S = 2, scale 4/9.
  std::mt19937_64 random(7);
  std::normal_distribution<double> element(0.3, 0.2);
  NoiseScale drawn(1.0, 4.0);
  constexpr int steps = 20000;
  for (int i = 0; i < steps; ++i) {
    double means[50] = {}, small = 0.0, large = 0.0;
    for (int replica = 0; replica < 4; ++replica) {
      for (double& mean : means) {
        const double g = element(random);
        small += g * g / 4.0;
        mean += g / 4.0;
      }
    }
    for (const double mean : means) large += mean * mean;
    drawn.add(small, large);
  }
  // S has a standard error of about sqrt(2 S^2 / 50 / steps) / sqrt(3), |G|^2 one of 2 |G| 0.2 / sqrt(4 steps).
  CHECK(drawn.noise() == Approx(2.0).margin(5.0 * 0.002));
  CHECK(drawn.true_square() == Approx(4.5).margin(5.0 * 0.004));
  CHECK(drawn.scale().value() == Approx(4.0 / 9.0).epsilon(0.01));

  // Pure noise has no gradient that a scale could refer to.
  NoiseScale hidden(1.0, 4.0);
  hidden.add(1.0, 0.2);
  CHECK_FALSE(hidden.scale().has_value());
}

// Doubles in another order: 1e-9 is a million times their rounding.
TEST_CASE("the executor's two squares are those of the single-device reference", "[parity][noise]") {
  const std::uint32_t zero = GENERATE(0U, 1U), pipeline = GENERATE(1U, 2U);
  const bool lanes = GENERATE(false, true);
  CAPTURE(zero, pipeline, lanes);
  const PlannedRun run = four_replicas(pipeline, zero, 4);
  const auto data = data_of(run.model, run.workload);
  const NoiseEvent got = measured(run, *data, lanes);
  double apart = 0.0;
  for (std::uint64_t s = 0; s < 4; ++s) apart += square(run, 1, SomeSequences(*data, s)) / 4.0;
  CHECK(got.small_batch == 1.0);
  CHECK(got.large_batch == 4.0);
  CHECK(got.small_square == Approx(apart).epsilon(1e-9));
  CHECK(got.large_square == Approx(square(run, 4, *data)).epsilon(1e-9));
}

TEST_CASE("equal data on all replicas has no noise", "[parity][noise]") {
  const PlannedRun run = four_replicas(1, 0, 8);
  const auto data = data_of(run.model, run.workload);
  const NoiseEvent got = measured(run, SomeSequences(*data, 3, true));
  CHECK(got.small_square == Approx(got.large_square).epsilon(1e-12));
  CHECK(got.large_square > 0.0);
}
