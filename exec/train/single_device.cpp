#include "exec/train/single_device.hpp"

#include <algorithm>
#include <cmath>

#include "exec/train/parameters.hpp"

namespace orrery {

TrainingState initial_state(const ModelSpec& model, const Workload& workload) {
  TrainingState state;
  state.parameters = initial_parameters(model, workload);
  if (optimizer_moments(workload) >= 1) state.moment1 = zeros_like(state.parameters);
  if (optimizer_moments(workload) >= 2) state.moment2 = zeros_like(state.parameters);
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

  for (const ReferenceParameter& p : parameters_of(model)) {
    std::vector<double>& w = state.parameters.at(p.name).values;
    const std::vector<double>& raw = gradients.at(p.name).values;
    const double decay = p.decay ? o.weight_decay : 0.0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = result.clip * raw[i];
      double direction = g;
      switch (o.kind) {
        case OptimizerKind::adam: {
          double& m = state.moment1.at(p.name).values[i];
          double& v = state.moment2.at(p.name).values[i];
          m = o.beta1 * m + (1.0 - o.beta1) * g;
          v = o.beta2 * v + (1.0 - o.beta2) * g * g;
          direction = m / (1.0 - std::pow(o.beta1, t)) / (std::sqrt(v / (1.0 - std::pow(o.beta2, t))) + o.epsilon);
          break;
        }
        case OptimizerKind::lamb:
        case OptimizerKind::lars:
        case OptimizerKind::adafactor: break;
        case OptimizerKind::sgd:
          if (o.momentum != 0.0) {
            double& m = state.moment1.at(p.name).values[i];
            m = o.momentum * m + g;
            direction = m;
          }
          break;
      }
      w[i] -= result.learning_rate * (direction + decay * w[i]);
    }
  }
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
