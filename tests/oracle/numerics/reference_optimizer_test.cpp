#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "exec/train/parameters.hpp"
#include "exec/train/single_device.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery {
namespace {

/// The smallest model: one layer, everything of width 1 or 2.
ModelSpec model() {
  return test::tiny_gpt({.layers = 1, .hidden = 2, .heads = 1, .ffn = 2, .vocabulary = 3, .positions = 2});
}

Workload workload() {
  Workload w;
  w.global_batch = 1;
  w.sequence_length = 2;
  w.precision = Precision::fp64;
  w.optimizer.learning_rate = 0.1;
  w.optimizer.weight_decay = 0.0;
  return w;
}

/// All gradients 0 but one element of the token table.
ParameterSet one_gradient(const TrainingState& state, double g) {
  ParameterSet gradients = zeros_like(state.parameters);
  gradients.at("embedding.word.weight").values[0] = g;
  return gradients;
}

double first_weight(const TrainingState& state) { return state.parameters.at("embedding.word.weight").values[0]; }

}  // namespace

// The first step of Adam moves every weight by lr g / (|g| + eps), whatever
// the betas: both corrected moments are g and g^2.
TEST_CASE("Adam's first step has the length of the learning rate", "[oracle][train]") {
  const double g = GENERATE(3.0, -0.01);
  TrainingState state = initial_state(model(), workload());
  const double start = first_weight(state);
  const UpdateResult result = apply_update(model(), workload(), one_gradient(state, g), state);
  CHECK(result.norm == Approx(std::abs(g)));
  CHECK(first_weight(state) - start == Approx(-0.1 * g / (std::abs(g) + 1e-8)).epsilon(1e-12));
  CHECK(state.moment1.at("embedding.word.weight").values[0] == Approx(0.1 * g));
  CHECK(state.moment2.at("embedding.word.weight").values[0] == Approx(0.05 * g * g));
}

// Second step with g = 1 then g = 2, b1 = 0.9, b2 = 0.95:
//   m = 0.9 * 0.1 + 0.1 * 2 = 0.29,     mhat = 0.29 / 0.19
//   v = 0.95 * 0.05 + 0.05 * 4 = 0.2475, vhat = 0.2475 / 0.0975
TEST_CASE("Adam's second step corrects both moments by the number of steps", "[oracle][train]") {
  TrainingState state = initial_state(model(), workload());
  apply_update(model(), workload(), one_gradient(state, 1.0), state);
  const double before = first_weight(state);
  apply_update(model(), workload(), one_gradient(state, 2.0), state);
  CHECK(before - first_weight(state) ==
        Approx(0.1 * (0.29 / 0.19) / (std::sqrt(0.2475 / 0.0975) + 1e-8)).epsilon(1e-12));
}

// g = 1 twice with momentum 0.9: steps of 0.1 and 0.19.
TEST_CASE("SGD adds momentum, and without momentum keeps no moment", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = OptimizerKind::sgd;
  TrainingState state = initial_state(model(), w);
  const double start = first_weight(state);
  apply_update(model(), w, one_gradient(state, 1.0), state);
  CHECK(start - first_weight(state) == Approx(0.1).epsilon(1e-12));
  apply_update(model(), w, one_gradient(state, 1.0), state);
  CHECK(start - first_weight(state) == Approx(0.29).epsilon(1e-12));

  w.optimizer.momentum = 0.0;
  TrainingState plain = initial_state(model(), w);
  CHECK(plain.moment1.empty());
  apply_update(model(), w, one_gradient(plain, 1.0), plain);
  apply_update(model(), w, one_gradient(plain, 1.0), plain);
  CHECK(start - first_weight(plain) == Approx(0.2).epsilon(1e-12));
}

namespace {

double norm_of(const std::vector<double>& x) {
  double squares = 0.0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares);
}

}  // namespace

// The table (3 x 2) has norm n. At LAMB's first step the direction is g / (|g| + eps), which is 1 where the gradient is
// not 0. Its norm is 1, so the element moves by lr n. A clip below n takes its place.
TEST_CASE("LAMB's first step has the length of the tensor times the learning rate", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = OptimizerKind::lamb;
  TrainingState state = initial_state(model(), w);
  const double n = norm_of(state.parameters.at("embedding.word.weight").values);
  const double start = first_weight(state);
  apply_update(model(), w, one_gradient(state, 3.0), state);
  CHECK(start - first_weight(state) == Approx(0.1 * n).epsilon(1e-12));

  w.optimizer.trust_clip = n / 4.0;
  TrainingState clipped = initial_state(model(), w);
  apply_update(model(), w, one_gradient(clipped, 3.0), clipped);
  CHECK(start - first_weight(clipped) == Approx(0.1 * n / 4.0).epsilon(1e-12));
}

// With decay 0.5 and w = (w0, rest): u = (1 + 0.5 w0, 0.5 rest).
TEST_CASE("LAMB's direction has the decay in its norm", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = OptimizerKind::lamb;
  w.optimizer.weight_decay = 0.5;
  TrainingState state = initial_state(model(), w);
  const std::vector<double> start = state.parameters.at("embedding.word.weight").values;
  std::vector<double> u = start;
  for (double& x : u) x *= 0.5;
  u[0] += 2.0 / (2.0 + 1e-8);
  apply_update(model(), w, one_gradient(state, 2.0), state);
  const std::vector<double>& now = state.parameters.at("embedding.word.weight").values;
  for (std::size_t i = 0; i < u.size(); ++i) {
    CHECK(start[i] - now[i] == Approx(0.1 * norm_of(start) / norm_of(u) * u[i]).epsilon(1e-12));
  }
}

// With coefficient 0.01 and no decay, the first step is lr 0.01 n for g of any size. The second has 0.9 of it besides
// its own, with the norm that the first step left.
TEST_CASE("LARS moves a tensor by a share of its norm, and keeps momentum of steps", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = OptimizerKind::lars;
  w.optimizer.trust_coefficient = 0.01;
  TrainingState state = initial_state(model(), w);
  const double n = norm_of(state.parameters.at("embedding.word.weight").values);
  const double start = first_weight(state);
  apply_update(model(), w, one_gradient(state, 5.0), state);
  const double first = 0.1 * 0.01 * n;
  CHECK(start - first_weight(state) == Approx(first).epsilon(1e-12));
  const double after = norm_of(state.parameters.at("embedding.word.weight").values);
  apply_update(model(), w, one_gradient(state, 7.0), state);
  CHECK(start - first_weight(state) == Approx(first + 0.9 * first + 0.1 * 0.01 * after).epsilon(1e-12));
}

// A norm weight is a vector: LAMB moves it as Adam does, LARS by lr g.
TEST_CASE("LAMB and LARS leave vectors without a trust ratio", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = GENERATE(OptimizerKind::lamb, OptimizerKind::lars);
  w.optimizer.weight_decay = 0.5;
  TrainingState state = initial_state(model(), w);
  ParameterSet gradients = zeros_like(state.parameters);
  gradients.at("head.norm.weight").values[0] = 2.0;
  apply_update(model(), w, gradients, state);
  const double moved = w.optimizer.kind == OptimizerKind::lamb ? 0.1 * 2.0 / (2.0 + 1e-8) : 0.1 * 2.0;
  CHECK(1.0 - state.parameters.at("head.norm.weight").values[0] == Approx(moved).epsilon(1e-12));
}

// The table's gradient is (1 2 / 3 4 / 5 6): rows sum up to 5, 25 and 61 in squares, columns to 35 and 56, all to 91.
// At the first step nothing from before is kept (1 - 1^-0.8 = 0), so an element's second moment is R C / 91. The
// squares of the six updates G^2 91 / (R C) are 0.52 1.3 0.936 1.04 1.0656 0.9590 to four digits, so their mean is
// below 1.
TEST_CASE("Adafactor divides by rows' and columns' shares of the squares", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = OptimizerKind::adafactor;
  w.optimizer.weight_decay = 0.5;
  TrainingState state = initial_state(model(), w);
  const std::vector<double> start = state.parameters.at("embedding.word.weight").values;
  ParameterSet gradients = zeros_like(state.parameters);
  gradients.at("embedding.word.weight").values = {1, 2, 3, 4, 5, 6};
  apply_update(model(), w, gradients, state);
  const double rows[] = {5, 25, 61}, columns[] = {35, 56};
  for (std::size_t i = 0; i < 6; ++i) {
    const double u = static_cast<double>(i + 1) / std::sqrt(rows[i / 2] * columns[i % 2] / 91.0);
    CHECK(start[i] - state.parameters.at("embedding.word.weight").values[i] ==
          Approx(0.1 * (u + 0.5 * start[i])).epsilon(1e-12));
  }
  CHECK(state.moment1.empty());
  CHECK(state.factored.at("embedding.word.weight").rows.values.size() == 3);
  CHECK(state.factored.at("embedding.word.weight").columns.values.size() == 2);
  CHECK(state.factored.at("head.norm.weight").rows.values.empty());
}

// All elements have gradients 1, then 10. With b = 1 - 2^-0.8 their second moment is b + 100 (1 - b) = 57.9, so an
// update would be 1.31 long; it is cut to 1. The same for a vector.
TEST_CASE("Adafactor's second step decays by 1 - 2^-0.8, and is no longer than 1", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = OptimizerKind::adafactor;
  TrainingState state = initial_state(model(), w);
  ParameterSet gradients = zeros_like(state.parameters);
  const char* const name = GENERATE("embedding.word.weight", "head.norm.weight");
  std::vector<double>& g = gradients.at(name).values;
  for (double& x : g) x = 1.0;
  apply_update(model(), w, gradients, state);
  const double after = state.parameters.at(name).values[0];
  for (double& x : g) x = 10.0;
  TrainingState longer = state;
  apply_update(model(), w, gradients, longer);
  CHECK(after - longer.parameters.at(name).values[0] == Approx(0.1).epsilon(1e-12));
  // Gradients are 0.5: 0.5 / sqrt(b + (1 - b) / 4) is below 1.
  for (double& x : g) x = 0.5;
  apply_update(model(), w, gradients, state);
  const double b = 1.0 - std::pow(2.0, -0.8);
  CHECK(after - state.parameters.at(name).values[0] ==
        Approx(0.1 * 0.5 / std::sqrt(b + 0.25 * (1.0 - b))).epsilon(1e-12));
}

// m = 0.1 after a gradient of 1, which bf16 has as 0.10009765625; v = 0.05 as 0.050048828125.  The first step still has
// all digits.  At the second, with gradient 1: m = 0.9 0.10009765625 + 0.1, v = 0.95 0.050048828125 + 0.05.
TEST_CASE("moments in bf16 are rounded where they are kept", "[oracle][train]") {
  Workload w = workload();
  w.precision = Precision::fp32;
  w.moment_dtype = DType::bf16;
  TrainingState state = initial_state(model(), w);
  const double start = first_weight(state);
  apply_update(model(), w, one_gradient(state, 1.0), state);
  const double first = first_weight(state);
  CHECK(start - first == Approx(0.1).epsilon(1e-7));
  CHECK(state.moment1.at("embedding.word.weight").values[0] == 0.10009765625);
  CHECK(state.moment2.at("embedding.word.weight").values[0] == 0.050048828125);
  apply_update(model(), w, one_gradient(state, 1.0), state);
  const double m = (0.9 * 0.10009765625 + 0.1) / 0.19, v = (0.95 * 0.050048828125 + 0.05) / 0.0975;
  CHECK(first - first_weight(state) == Approx(0.1 * m / (std::sqrt(v) + 1e-8)).epsilon(1e-12));
}

// bf16's neighbours between 1 and 2 are 2^-7 apart: 1 - 0.003 rounds to 1 - 2^-8 (below 1 they are 2^-8 apart), and
// 1.5 - 0.003 stays 1.5, step after step.
TEST_CASE("weights without masters are rounded to bf16 after every step", "[oracle][train]") {
  Workload w = workload();
  w.precision = Precision::bf16;
  w.master_weights = false;
  w.optimizer.learning_rate = 0.003;
  w.optimizer.weight_decay = 0.0;
  CHECK(gradient_dtype(w) == DType::bf16);
  CHECK(moment_dtype(w) == DType::bf16);
  CHECK(wide_dtype(w) == DType::f32);
  TrainingState state = initial_state(model(), w);
  CHECK(state.parameters == working_weights(w, state.parameters));
  const auto weight = [&](std::size_t i) -> double& { return state.parameters.at("embedding.word.weight").values[i]; };
  weight(0) = 1.0;
  weight(1) = 1.5;
  ParameterSet gradients = one_gradient(state, 1.0);
  gradients.at("embedding.word.weight").values[1] = 1.0;
  for (int step = 0; step < 2; ++step) {
    apply_update(model(), w, gradients, state);
    CHECK(weight(0) == 1.0 - (step + 1) * 0x1p-8);
    CHECK(weight(1) == 1.5);
  }
  CHECK(state.moment1.at("embedding.word.weight").values[0] != 0.0);
}

// The gradients of two neighbours are 448 and 3, so m is 44.8 and 0.3. Its scale is 0.1, which as f32 is
// 0.100000001490116, and E4M3 has 3 / 1 = 3; with 17.3, between 16 and 18 and nearer to 18, it is 1.8. v of both is
// exact in f16's multiples to 2^-11.
TEST_CASE("moments in f8 are multiples of their block's scale", "[oracle][train]") {
  Workload w = workload();
  w.precision = Precision::fp32;
  w.moment_dtype = DType::f8;
  TrainingState state = initial_state(model(), w);
  ParameterSet gradients = one_gradient(state, 448.0);
  gradients.at("embedding.word.weight").values[1] = 3.0;
  gradients.at("embedding.word.weight").values[2] = 17.3;
  apply_update(model(), w, gradients, state);
  const std::vector<double>& m = state.moment1.at("embedding.word.weight").values;
  CHECK(m[0] == Approx(44.8).epsilon(1e-7));
  CHECK(m[1] == Approx(0.3).epsilon(1e-7));
  CHECK(m[2] == Approx(1.8).epsilon(1e-7));
  CHECK(state.moment2.at("embedding.word.weight").values[2] == Approx(0.05 * 17.3 * 17.3).epsilon(0x1p-11));
}

// The gradients of three neighbours are 100, 30 and -0.2, so m is 10, 3 and -0.02, and its scale 10. In the highest
// decade 64 parts of 0.9 / 64 begin at 0.1: 0.3 lies in part 14, whose middle is 0.1 + 0.9 * 29 / 128. Part 1
// of 16 from 1e-3 on holds 0.002: its middle is 1e-2 (0.1 + 0.9 * 3 / 32). v is 500, 45 and 0.002, over its scale 1,
// 0.09 and 4e-6: part 56 of 64 from 0.01 on, and part 1 of 4 from 1e-6 on, whose middle is 1e-5 (0.1 + 0.9 * 3 / 8).
TEST_CASE("moments in codes of a byte are values of the map times the block's largest", "[oracle][train]") {
  Workload w = workload();
  w.precision = Precision::fp32;
  w.moment_dtype = DType::u8;
  TrainingState state = initial_state(model(), w);
  ParameterSet gradients = one_gradient(state, 100.0);
  gradients.at("embedding.word.weight").values[1] = 30.0;
  gradients.at("embedding.word.weight").values[2] = -0.2;
  apply_update(model(), w, gradients, state);
  const std::vector<double>& m = state.moment1.at("embedding.word.weight").values;
  const std::vector<double>& v = state.moment2.at("embedding.word.weight").values;
  CHECK(m[0] == Approx(10.0).epsilon(1e-7));
  CHECK(m[1] == Approx(10.0 * (0.1 + 0.9 * 29 / 128)).epsilon(1e-7));
  CHECK(m[2] == Approx(-10.0 * 1e-2 * (0.1 + 0.9 * 3 / 32)).epsilon(1e-7));
  CHECK(v[0] == Approx(500.0).epsilon(1e-7));
  CHECK(v[1] == Approx(500.0 * 1e-1 * (0.1 + 0.9 * 113 / 128)).epsilon(1e-7));
  CHECK(v[2] == Approx(500.0 * 1e-5 * (0.1 + 0.9 * 3 / 8)).epsilon(1e-7));
}

// Gradients 0, decay 0.5, rate 0.1: matrices shrink by 5 %, norm weights (1) and biases (0) stay.
TEST_CASE("Weight decay shrinks matrices and leaves norms and biases", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.weight_decay = 0.5;
  TrainingState state = initial_state(model(), w);
  const ParameterSet start = state.parameters;
  apply_update(model(), w, one_gradient(state, 0.0), state);
  for (const ReferenceParameter& p : parameters_of(model())) {
    CAPTURE(p.name);
    const bool matrix = p.rows > 1;
    CHECK(p.decay == matrix);
    for (std::size_t i = 0; i < start.at(p.name).values.size(); ++i) {
      const double expected = start.at(p.name).values[i] * (matrix ? 0.95 : 1.0);
      CHECK(state.parameters.at(p.name).values[i] == Approx(expected).epsilon(1e-12));
    }
  }
}

// Norm 4 clipped to 1: SGD moves by 0.1 * 4 / (4 + 1e-6).  Norm 0.5 stays.
TEST_CASE("Clipping scales a gradient to the clip norm and only when it is longer", "[oracle][train]") {
  Workload w = workload();
  w.optimizer.kind = OptimizerKind::sgd;
  w.clip_norm = 1.0;
  TrainingState state = initial_state(model(), w);
  const double start = first_weight(state);
  CHECK(apply_update(model(), w, one_gradient(state, 4.0), state).clip == Approx(1.0 / (4.0 + 1e-6)).epsilon(1e-12));
  CHECK(start - first_weight(state) == Approx(0.4 / (4.0 + 1e-6)).epsilon(1e-12));
  CHECK(apply_update(model(), w, one_gradient(state, 0.5), state).clip == 1.0);
}

// Warm-up over 4 steps: the second step runs at half of the peak rate.
TEST_CASE("The learning rate is that of the update's number", "[oracle][train]") {
  Workload w = workload();
  w.schedule.warmup_steps = 4;
  TrainingState state = initial_state(model(), w);
  CHECK(apply_update(model(), w, one_gradient(state, 1.0), state).learning_rate == Approx(0.025));
  CHECK(apply_update(model(), w, one_gradient(state, 1.0), state).learning_rate == Approx(0.05));
}

TEST_CASE("In fp16 an overflow skips the update and halves the scale; a window of good steps doubles it",
          "[oracle][train]") {
  Workload w = workload();
  w.precision = Precision::fp16;
  w.loss_scale = 64.0;
  w.loss_scale_window = 2;
  TrainingState state = initial_state(model(), w);
  const TrainingState start = state;
  CHECK(apply_update(model(), w, one_gradient(state, std::numeric_limits<double>::infinity()), state).skipped);
  CHECK(state.parameters == start.parameters);
  CHECK(state.moment1 == start.moment1);
  CHECK(state.steps == 0);
  CHECK(state.loss_scale == 32.0);
  CHECK_FALSE(apply_update(model(), w, one_gradient(state, 1.0), state).skipped);
  CHECK(state.loss_scale == 32.0);
  CHECK_FALSE(apply_update(model(), w, one_gradient(state, 1.0), state).skipped);
  CHECK(state.loss_scale == 64.0);
  CHECK(state.steps == 2);
}

// Loss before training is near log 3 (small weights); twenty steps on the same
// batch must learn it.
TEST_CASE("Training steps on one batch lower its loss", "[oracle][train]") {
  class OneBatch final : public DataSource {
   public:
    [[nodiscard]] std::int32_t token(std::uint64_t, std::uint64_t, std::uint64_t position) const override {
      return static_cast<std::int32_t>(position);
    }
    [[nodiscard]] std::int32_t target(std::uint64_t, std::uint64_t, std::uint64_t position) const override {
      return static_cast<std::int32_t>(position + 1);
    }
  };
  ModelSpec m = model();
  m.hidden = m.ffn = 8;  // of two features a norm leaves only a sign
  TrainingState state = initial_state(m, workload());
  const double first = train_step(m, workload(), OneBatch(), 1, state).pass.loss;
  CHECK(first == Approx(std::log(3.0)).margin(0.1));
  double last = first;
  for (std::uint64_t step = 2; step <= 20; ++step) last = train_step(m, workload(), OneBatch(), step, state).pass.loss;
  CHECK(last < 0.5 * first);
}

// bf16 has 8 significant bits: 1 + 1/256 lies between 1 and 1 + 1/128 and goes
// to the even one.  f16 has 11, and its largest finite value is 65504; half a
// unit above it (65520) is the first that becomes infinite.  Below 2^-14 its
// unit is 2^-24.
TEST_CASE("Rounding to a shorter type breaks ties to even and overflows to infinity", "[oracle][train]") {
  CHECK(rounded(1.0 + 0x1p-8, DType::bf16) == 1.0);
  CHECK(rounded(1.0 + 0x1.8p-7, DType::bf16) == 1.0 + 0x1p-6);
  CHECK(rounded(-3.0, DType::bf16) == -3.0);
  CHECK(rounded(65519.0, DType::f16) == 65504.0);
  CHECK(std::isinf(rounded(65520.0, DType::f16)));
  CHECK(rounded(0x1.8p-24, DType::f16) == 0x1p-23);
  CHECK(rounded(0x1p-25, DType::f16) == 0.0);
  CHECK(rounded(0.1, DType::f32) == static_cast<double>(0.1F));
  CHECK(rounded(0.1, DType::f64) == 0.1);
}

}  // namespace orrery
