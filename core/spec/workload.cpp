#include "core/spec/workload.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/spec/model_spec.hpp"

namespace orrery {

DType weight_dtype(const Workload& w) {
  switch (w.precision) {
    case Precision::fp64: return DType::f64;
    case Precision::fp32: return DType::f32;
    case Precision::bf16: return DType::bf16;
    case Precision::fp16: return DType::f16;
    case Precision::fp8: return DType::bf16;
  }
  return DType::f32;
}

DType product_dtype(const Workload& w) { return w.precision == Precision::fp8 ? DType::f8 : weight_dtype(w); }

DType wide_dtype(const Workload& w) { return w.precision == Precision::fp64 ? DType::f64 : DType::f32; }

DType state_dtype(const Workload& w) { return has_master_weights(w) ? wide_dtype(w) : weight_dtype(w); }

DType gradient_dtype(const Workload& w) { return w.gradient_dtype.value_or(state_dtype(w)); }

DType moment_dtype(const Workload& w, int moment) {
  if (w.moment_dtype == DType::f8) return moment == 0 ? DType::f8 : DType::f16;
  const bool wide = w.optimizer.kind == OptimizerKind::lamb || has_factored_moments(w);
  return w.moment_dtype.value_or(wide ? wide_dtype(w) : state_dtype(w));
}

bool has_scaled_moments(const Workload& w) { return w.moment_dtype == DType::f8 || w.moment_dtype == DType::u8; }

bool has_master_weights(const Workload& w) { return w.master_weights && weight_dtype(w) != wide_dtype(w); }

int optimizer_moments(const Workload& w) {
  switch (w.optimizer.kind) {
    case OptimizerKind::adam: return 2;
    case OptimizerKind::lamb: return 2;
    case OptimizerKind::lars: return 1;
    case OptimizerKind::adafactor: return 0;
    case OptimizerKind::sgd: return w.optimizer.momentum != 0.0 ? 1 : 0;
  }
  return 0;
}

bool has_factored_moments(const Workload& w) { return w.optimizer.kind == OptimizerKind::adafactor; }

bool has_trust_ratio(const Workload& w) {
  return w.optimizer.kind == OptimizerKind::lamb || w.optimizer.kind == OptimizerKind::lars;
}

double prediction_weight(const ModelSpec& m, const Workload& w) {
  return w.prediction_loss_weight.value_or(usual_prediction_loss_weight) /
         static_cast<double>(std::max<std::uint64_t>(1, m.prediction_modules));
}

double learning_rate(const Workload& w, std::uint64_t step) {
  const LearningRateSchedule& s = w.schedule;
  const double peak = w.optimizer.learning_rate;
  const auto at = static_cast<double>(step);
  const auto warmup = static_cast<double>(s.warmup_steps);
  if (at < warmup) return peak * at / warmup;
  if (s.kind == ScheduleKind::constant || s.total_steps <= s.warmup_steps) return peak;
  const double progress = std::clamp((at - warmup) / (static_cast<double>(s.total_steps) - warmup), 0.0, 1.0);
  const double fall =
      s.kind == ScheduleKind::linear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return peak * (s.minimum_ratio + (1.0 - s.minimum_ratio) * fall);
}

}  // namespace orrery
