#include "exec/train/single_device.hpp"

#include <algorithm>
#include <cmath>

#include "exec/train/dynamic_codes.hpp"
#include "exec/train/parameters.hpp"

namespace orrery {

TrainingState initial_state(const ModelSpec& model, const Workload& workload) {
  TrainingState state;
  state.parameters = initial_parameters(model, workload);
  for (const ReferenceParameter& p : trained_parameters_of(model, workload)) {
    if (optimizer_moments(workload) >= 1) state.moment1.emplace(p.name, Matrix(p.rows, p.columns));
    if (optimizer_moments(workload) >= 2) state.moment2.emplace(p.name, Matrix(p.rows, p.columns));
    if (has_factored_moments(workload)) state.factored.emplace(p.name, adafactor_moments(model, p));
  }
  if (workload.precision == Precision::fp16) state.loss_scale = workload.loss_scale;
  return state;
}

ParameterSet working_weights(const Workload& workload, const ParameterSet& parameters) {
  return rounded(parameters, weight_dtype(workload));
}

double global_norm(const ParameterSet& gradients) {
  double squares = 0.0;
  for (const auto& [name, tensor] : gradients) {
    for (const double g : tensor.values) squares += g * g;
  }
  return std::sqrt(squares);
}

namespace {

/// The type to which a moment is rounded between steps. A wide moment keeps all digits, as the parameters with masters
/// do. Moments with scales are rounded together.
DType stored_moment(const Workload& w) {
  return moment_dtype(w) == wide_dtype(w) || has_scaled_moments(w) ? DType::f64 : moment_dtype(w);
}

double norm_of(const std::vector<double>& x) {
  double squares = 0.0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares);
}

/// Updates one matrix by LAMB (You et al., "Large batch optimization for deep learning", ICLR 2020, algorithm 2) or
/// LARS (You et al., "Large batch training of convolutional networks", 2017, algorithm 1). A norm of 0 makes the ratio
/// 1.
void update_by_trust(const Workload& workload, const std::vector<double>& raw, const UpdateResult& step, double t,
                     TrainingState& state, const std::string& name) {
  const Optimizer& o = workload.optimizer;
  std::vector<double>& w = state.parameters.at(name).values;
  std::vector<double>& m = state.moment1.at(name).values;
  const DType kept = stored_moment(workload);
  std::vector<double> direction(w.size());
  for (std::size_t i = 0; i < w.size(); ++i) direction[i] = step.clip * raw[i];
  const double weight_norm = norm_of(w);
  if (o.kind == OptimizerKind::lars) {
    const double gradient_norm = norm_of(direction);
    const double ratio = weight_norm > 0.0 && gradient_norm > 0.0
                             ? o.trust_coefficient * weight_norm / (gradient_norm + o.weight_decay * weight_norm)
                             : 1.0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      m[i] = o.momentum * m[i] + step.learning_rate * ratio * (direction[i] + o.weight_decay * w[i]);
      w[i] -= m[i];
      m[i] = rounded(m[i], kept);
    }
    return;
  }
  std::vector<double>& v = state.moment2.at(name).values;
  for (std::size_t i = 0; i < w.size(); ++i) {
    const double g = direction[i];
    m[i] = o.beta1 * m[i] + (1.0 - o.beta1) * g;
    v[i] = o.beta2 * v[i] + (1.0 - o.beta2) * g * g;
    const double mean = m[i] / (1.0 - std::pow(o.beta1, t));
    const double square = v[i] / (1.0 - std::pow(o.beta2, t));
    direction[i] = mean / (std::sqrt(square) + o.epsilon) + o.weight_decay * w[i];
  }
  const double length = norm_of(direction);
  const double trusted = o.trust_clip ? std::min(weight_norm, *o.trust_clip) : weight_norm;
  const double ratio = weight_norm > 0.0 && length > 0.0 ? trusted / length : 1.0;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] -= step.learning_rate * ratio * direction[i];
}

}  // namespace

UpdateResult apply_update(const ModelSpec& model, const Workload& workload, const ParameterSet& gradients,
                          TrainingState& state) {
  const Optimizer& o = workload.optimizer;
  UpdateResult result;
  result.norm = global_norm(gradients);
  if (workload.precision == Precision::fp16) {
    if (!std::isfinite(result.norm)) {
      state.loss_scale /= 2.0;
      state.good_steps = 0;
      result.skipped = true;
      return result;
    }
    if (++state.good_steps == workload.loss_scale_window) {
      state.loss_scale *= 2.0;
      state.good_steps = 0;
    }
  }
  if (workload.clip_norm) result.clip = std::min(1.0, *workload.clip_norm / (result.norm + 1e-6));
  ++state.steps;
  const auto t = static_cast<double>(state.steps);
  result.learning_rate = learning_rate(workload, state.steps);

  const DType kept = stored_moment(workload);
  for (const ReferenceParameter& p : trained_parameters_of(model, workload)) {
    std::vector<double>& w = state.parameters.at(p.name).values;
    const std::vector<double>& raw = gradients.at(p.name).values;
    const double decay = p.decay ? o.weight_decay : 0.0;
    if (has_trust_ratio(workload) && p.decay) {
      update_by_trust(workload, raw, result, t, state, p.name);
      continue;
    }
    if (has_factored_moments(workload)) {
      std::vector<double> clipped = raw;
      for (double& g : clipped) g *= result.clip;
      adafactor_step(p, clipped, result.learning_rate, decay, t, state.factored.at(p.name), w);
      continue;
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = result.clip * raw[i];
      double direction = g;
      switch (o.kind) {
        case OptimizerKind::adam:
        case OptimizerKind::lamb: {  // of vectors, which have no trust ratio
          double& m = state.moment1.at(p.name).values[i];
          double& v = state.moment2.at(p.name).values[i];
          m = o.beta1 * m + (1.0 - o.beta1) * g;
          v = o.beta2 * v + (1.0 - o.beta2) * g * g;
          direction = m / (1.0 - std::pow(o.beta1, t)) / (std::sqrt(v / (1.0 - std::pow(o.beta2, t))) + o.epsilon);
          m = rounded(m, kept);
          v = rounded(v, kept);
          break;
        }
        case OptimizerKind::lars: {  // of vectors
          double& m = state.moment1.at(p.name).values[i];
          m = o.momentum * m + result.learning_rate * g;
          w[i] -= m;
          m = rounded(m, kept);
          continue;
        }
        case OptimizerKind::adafactor: break;  // above
        case OptimizerKind::sgd:
          if (o.momentum != 0.0) {
            double& m = state.moment1.at(p.name).values[i];
            m = o.momentum * m + g;
            direction = m;
            m = rounded(m, kept);
          }
          break;
      }
      w[i] -= result.learning_rate * (direction + decay * w[i]);
    }
    if (has_scaled_moments(workload)) {
      std::vector<double>& m = state.moment1.at(p.name).values;
      std::vector<double>& v = state.moment2.at(p.name).values;
      if (moment_dtype(workload) == DType::u8) {
        round_to_dynamic_values(m, false, 256);
        round_to_dynamic_values(v, true, 256);
      } else {
        round_in_blocks(m, moment_dtype(workload, 0), 128);
        round_in_blocks(v, moment_dtype(workload, 1), 128);
      }
    }
  }
  if (state_dtype(workload) != wide_dtype(workload))
    state.parameters = rounded(state.parameters, state_dtype(workload));
  return result;
}

StepResult train_step(const ModelSpec& model, const Workload& workload, const DataSource& data, std::uint64_t step,
                      TrainingState& state) {
  StepResult result;
  result.pass = reference_gradients(model, workload, working_weights(workload, state.parameters), data, step);
  result.update = apply_update(model, workload, result.pass.gradients, state);
  return result;
}

}  // namespace orrery
