#pragma once

#include <cmath>
#include <numbers>

#include "exec/kernels/device/launcher.hpp"

/// The global norm, the clip factor, and updates of weights.
namespace orrery::device {

/// learning_rate (core/spec/workload.hpp) where the step's number is in the device's memory.
struct LearningRate {
  double peak, minimum_ratio;
  std::uint64_t warmup_steps, total_steps;
  ScheduleKind kind;

  explicit LearningRate(const Workload& w)
      : peak(w.optimizer.learning_rate),
        minimum_ratio(w.schedule.minimum_ratio),
        warmup_steps(w.schedule.warmup_steps),
        total_steps(w.schedule.total_steps),
        kind(w.schedule.kind) {}

  [[nodiscard]] ORRERY_ON_DEVICE double at(double step) const {
    const auto warmup = static_cast<double>(warmup_steps);
    if (step < warmup) return peak * step / warmup;
    if (kind == ScheduleKind::constant || total_steps <= warmup_steps) return peak;
    double progress = (step - warmup) / (static_cast<double>(total_steps) - warmup);
    progress = progress < 0.0 ? 0.0 : (progress > 1.0 ? 1.0 : progress);
    const double fall =
        kind == ScheduleKind::linear ? 1.0 - progress : 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
    return peak * (minimum_ratio + (1.0 - minimum_ratio) * fall);
  }
};

/// Blocks that a sum over a long vector has, whatever the device, so that its order of additions is one.
inline constexpr std::uint64_t sum_blocks = 512;

/// partial[block] = sum of squares of the block's elements, in double: squares of f32 gradients may leave its range.
template <class T>
struct PartialSquares {
  Elements x;
  std::uint64_t count;
  double* partial;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    double sum = 0.0;
    for (std::uint64_t i = b.index() * b.threads() + b.thread(); i < count; i += b.blocks() * b.threads()) {
      const auto v = static_cast<double>(x.load<T>(i));
      sum += v * v;
    }
    sum = b.sum(sum);
    if (b.thread() == 0) partial[b.index()] = sum;
  }
};
struct AddSquares {
  const double* partial;
  std::uint64_t count;
  Elements norm;
  double share;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    double sum = 0.0;
    for (std::uint64_t i = b.thread(); i < count; i += b.threads()) sum += partial[i];
    sum = b.sum(sum);
    if (b.thread() == 0) norm.store(0, norm.load<double>(0) + share * sum);
  }
};

/// factor {multiplier, skip}; with a loss scale {scale, good steps}, which follows.
struct ClipFactor {
  Elements norm, scale, factor;  ///< scale: none where data is null
  double clip_norm, window;
  ORRERY_ON_DEVICE void operator()(std::uint64_t) const {
    const bool scaled = scale.data != nullptr;
    const double by = scaled ? scale.load<double>(0) : 1.0;
    const double length = std::sqrt(norm.load<double>(0)) / by;
    const double wanted = clip_norm / (length + 1e-6);
    const double clip = clip_norm > 0.0 ? (wanted < 1.0 ? wanted : 1.0) : 1.0;
    const bool skip = scaled && !(length - length == 0.0);  // neither infinite nor NaN
    factor.store(0, clip / by);
    factor.store(1, skip ? 1.0 : 0.0);
    if (!scaled) return;
    const double good = scale.load<double>(1) + 1.0;
    const bool grows = !skip && good >= window;
    if (skip) scale.store(0, by / 2.0);
    if (grows) scale.store(0, by * 2.0);
    scale.store(1, skip || grows ? 0.0 : good);
  }
};

struct AdvanceStep {
  Elements steps, factor;  ///< factor: none where data is null
  ORRERY_ON_DEVICE void operator()(std::uint64_t) const {
    if (factor.data != nullptr && factor.load<double>(1) != 0.0) return;
    steps.store(0, steps.load<double>(0) + 1.0);
  }
};

/// Operands that updates share.  The weight is the master where there is one,
/// and the stored weight its rounded copy.
struct UpdateOperands {
  Elements gradient, steps, factor, weight, master, moments[2];
  std::uint64_t count;

  UpdateOperands(const Kernel& k, std::span<const Operand> o) : gradient(o[0]), steps(o[1]), count(o[0].count) {
    std::size_t next = 2;
    if (k.options.factor) factor = Elements(o[next++]);
    weight = Elements(o[next++]);
    if (k.options.master) master = Elements(o[next++]);
    for (Elements& m : moments) {
      if (next < o.size()) m = Elements(o[next++]);
    }
  }
  [[nodiscard]] ORRERY_ON_DEVICE bool skips() const { return factor.data != nullptr && factor.load<double>(1) != 0.0; }
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE T multiplier() const {
    return factor.data != nullptr ? static_cast<T>(factor.load<double>(0)) : T{1};
  }
  template <class T>
  [[nodiscard]] ORRERY_ON_DEVICE T exact(std::uint64_t i) const {
    return master.data != nullptr ? master.load<T>(i) : weight.load<T>(i);
  }
  template <class T>
  ORRERY_ON_DEVICE void put(std::uint64_t i, T value) const {
    if (master.data != nullptr) master.store(i, value);
    weight.store(i, value);
  }
};

template <class T>
struct SgdUpdate {
  UpdateOperands u;
  LearningRate schedule;
  T momentum, decay;
  bool keeps_momentum;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (u.skips()) return;
    const auto rate = static_cast<T>(schedule.at(u.steps.load<double>(0)));
    const T multiplier = u.multiplier<T>();
    for (std::uint64_t i = b.index() * b.threads() + b.thread(); i < u.count; i += b.blocks() * b.threads()) {
      T direction = u.gradient.load<T>(i) * multiplier;
      const T w = u.exact<T>(i);
      if (keeps_momentum) {
        direction = momentum * u.moments[0].template load<T>(i) + direction;
        u.moments[0].store(i, direction);
      }
      u.put(i, w - rate * (direction + decay * w));
    }
  }
};

// Kingma and Ba, "Adam", ICLR 2015, with the decoupled decay of Loshchilov and
// Hutter, ICLR 2019.
template <class T>
struct AdamUpdate {
  UpdateOperands u;
  LearningRate schedule;
  double beta1, beta2;
  T epsilon, decay;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (u.skips()) return;
    const double step = u.steps.load<double>(0);
    const auto rate = static_cast<T>(schedule.at(step));
    const auto keep1 = static_cast<T>(beta1);
    const auto keep2 = static_cast<T>(beta2);
    const auto rest1 = static_cast<T>(1.0 - beta1);
    const auto rest2 = static_cast<T>(1.0 - beta2);
    const auto correct1 = static_cast<T>(1.0 / (1.0 - std::pow(beta1, step)));
    const auto correct2 = static_cast<T>(1.0 / (1.0 - std::pow(beta2, step)));
    const T multiplier = u.multiplier<T>();
    for (std::uint64_t i = b.index() * b.threads() + b.thread(); i < u.count; i += b.blocks() * b.threads()) {
      const T g = u.gradient.load<T>(i) * multiplier;
      const T m = keep1 * u.moments[0].template load<T>(i) + rest1 * g;
      const T v = keep2 * u.moments[1].template load<T>(i) + rest2 * g * g;
      const T w = u.exact<T>(i);
      u.put(i, w - rate * (m * correct1 / (std::sqrt(v * correct2) + epsilon) + decay * w));
      u.moments[0].store(i, m);
      u.moments[1].store(i, v);
    }
  }
};

template <class T, class Launcher>
bool run_optimizer(Launcher& l, const Kernel& k, std::span<const Operand> o, const KernelContext& c) {
  const auto x = [&](std::size_t i) { return Elements(o[i]); };
  const auto long_vector = [&](std::uint64_t count, const auto& body) {
    // Four elements a thread: what is read of scalars is read once for them.
    const std::uint64_t blocks = (count + 4 * usual_threads - 1) / (4 * usual_threads);
    if (count > 0) l.launch(body, std::min(most_blocks, blocks), usual_threads, 0);
  };
  switch (k.kind) {
    case KernelKind::sum_squares: {
      const std::uint64_t parts = o.size() - 1;
      auto* partial = static_cast<double*>(l.scratch(parts * sum_blocks * sizeof(double)));
      for (std::uint64_t p = 0; p < parts; ++p) {
        l.launch(PartialSquares<T>{x(p), o[p].count, partial + p * sum_blocks}, sum_blocks, usual_threads, 0);
      }
      l.launch(AddSquares{partial, parts * sum_blocks, x(parts), k.parameter}, 1, usual_threads, 0);
      return true;
    }
    case KernelKind::clip_factor:
      for_each(l, 1,
               ClipFactor{x(0), k.options.scaled ? x(1) : Elements{}, x(k.options.scaled ? 2 : 1), k.parameter,
                          static_cast<double>(c.workload->loss_scale_window)});
      return true;
    case KernelKind::advance_step: for_each(l, 1, AdvanceStep{x(0), k.options.factor ? x(1) : Elements{}}); return true;
    case KernelKind::sgd_update: {
      const Optimizer& how = c.workload->optimizer;
      long_vector(o[0].count,
                  SgdUpdate<T>{UpdateOperands(k, o), LearningRate(*c.workload), static_cast<T>(how.momentum),
                               k.options.decay ? static_cast<T>(how.weight_decay) : T{0}, k.options.momentum});
      return true;
    }
    case KernelKind::adam_update: {
      const Optimizer& how = c.workload->optimizer;
      long_vector(o[0].count, AdamUpdate<T>{UpdateOperands(k, o), LearningRate(*c.workload), how.beta1, how.beta2,
                                            static_cast<T>(how.epsilon),
                                            k.options.decay ? static_cast<T>(how.weight_decay) : T{0}});
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
