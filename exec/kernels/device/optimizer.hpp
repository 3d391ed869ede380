#pragma once

#include <cmath>
#include <numbers>

#include "core/program/moment_scales.hpp"
#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/dynamic_map.hpp"

/// The global norm, the clip factor, and updates of weights.
namespace orrery::device {

/// The function learning_rate (core/spec/workload.hpp) where the step's number is in the device's memory.
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

/// Number of blocks for a sum over a long vector, whatever the device, so that there is one order of additions.
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

/// factor {multiplier, skip}; also updates a loss scale {scale, good steps}.
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

  /// The names of gradient, weight and moments in the update's row, which may have one of the moments or none.
  UpdateOperands(const NamedOperands& o, N of_gradient, N of_weight, N first, N second)
      : gradient(o[of_gradient]),
        steps(o[N::steps]),
        factor(elements_if(o, N::factor)),
        weight(o[of_weight]),
        master(elements_if(o, N::master)),
        moments{elements_if(o, first), elements_if(o, second)},
        count(o[of_gradient].count) {}
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
struct AdamStep {
  T rate, keep1, keep2, rest1, rest2, correct1, correct2, multiplier, epsilon, decay;
  /// Takes element i: the moments after it, and the weight.
  ORRERY_ON_DEVICE void take(const UpdateOperands& u, std::uint64_t i, T& m, T& v) const {
    const T g = u.gradient.load<T>(i) * multiplier;
    m = keep1 * m + rest1 * g;
    v = keep2 * v + rest2 * g * g;
    const T w = u.exact<T>(i);
    u.put(i, w - rate * (m * correct1 / (std::sqrt(v * correct2) + epsilon) + decay * w));
  }
};
/// Finds out once, for all threads of an update, what follows from the step's number.
template <class T>
struct FindAdamStep {
  UpdateOperands u;
  LearningRate schedule;
  double beta1, beta2;
  T epsilon, decay;
  AdamStep<T>* one;
  ORRERY_ON_DEVICE void operator()(std::uint64_t) const {
    if (u.skips()) return;
    const double step = u.steps.load<double>(0);
    *one = {static_cast<T>(schedule.at(step)),
            static_cast<T>(beta1),
            static_cast<T>(beta2),
            static_cast<T>(1.0 - beta1),
            static_cast<T>(1.0 - beta2),
            static_cast<T>(1.0 / (1.0 - std::pow(beta1, step))),
            static_cast<T>(1.0 / (1.0 - std::pow(beta2, step))),
            u.multiplier<T>(),
            epsilon,
            decay};
  }
};
template <class T>
struct AdamUpdate {
  UpdateOperands u;
  const AdamStep<T>* at_step;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    if (u.skips()) return;
    const AdamStep<T> one = *at_step;
    for (std::uint64_t i = b.index() * b.threads() + b.thread(); i < u.count; i += b.blocks() * b.threads()) {
      T m = u.moments[0].template load<T>(i);
      T v = u.moments[1].template load<T>(i);
      one.take(u, i, m, v);
      u.moments[0].store(i, m);
      u.moments[1].store(i, v);
    }
  }
};

/// Adam with moments that are multiples of scales (core/program/moment_scales.hpp): a block of threads for each block
/// of moments.
template <class T>
struct ScaledAdamUpdate {
  AdamUpdate<T> adam;
  Elements scales;
  std::uint64_t size;  ///< of a block
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    if (adam.u.skips()) return;
    const AdamStep<T> one = *adam.at_step;
    const std::uint64_t first = row * size;
    const std::uint64_t count = adam.u.count - first < size ? adam.u.count - first : size;
    T* moments = b.template shared<T>();  // [2][size]
    const T scale[2] = {scales.load<T>(2 * row), scales.load<T>(2 * row + 1)};
    T most[2] = {T{0}, T{0}};
    for (std::uint64_t i = b.thread(); i < count; i += b.threads()) {
      T m = load(0, first + i) * scale[0];
      T v = load(1, first + i) * scale[1];
      one.take(adam.u, first + i, m, v);
      moments[i] = m;
      moments[size + i] = v;
      const T magnitude = m < T{0} ? -m : m;
      most[0] = most[0] < magnitude ? magnitude : most[0];
      most[1] = most[1] < v ? v : most[1];
    }
    for (std::uint32_t j = 0; j < 2; ++j) {
      const Elements& stored = adam.u.moments[j];
      const auto now = static_cast<float>(static_cast<double>(b.largest(most[j])) / largest_of(stored.dtype));
      if (b.thread() == 0) scales.store(2 * row + j, now);
      for (std::uint64_t i = b.thread(); i < count; i += b.threads()) {
        store(j, first + i, now > 0.0F ? moments[j * size + i] / static_cast<T>(now) : T{0});
      }
    }
  }

 private:
  [[nodiscard]] ORRERY_ON_DEVICE T load(std::uint32_t moment, std::uint64_t i) const {
    const Elements& stored = adam.u.moments[moment];
    return moment_of_stored(stored.dtype, moment == 1, stored.template load<T>(i));
  }
  ORRERY_ON_DEVICE void store(std::uint32_t moment, std::uint64_t i, T over_scale) const {
    const Elements& stored = adam.u.moments[moment];
    if (stored.dtype == DType::u8) {
      stored.bytes()[i] = dynamic_code(static_cast<double>(over_scale), moment == 1);
    } else {
      stored.store(i, over_scale);
    }
  }
};

template <class T, class Launcher>
bool run_optimizer(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto x = [&](N name) { return Elements(o[name]); };
  const auto long_vector = [&](std::uint64_t count, const auto& body) {
    // Each thread takes four elements, so that scalars are read once for them.
    const std::uint64_t blocks = (count + 4 * usual_threads - 1) / (4 * usual_threads);
    if (count > 0) l.launch(body, std::min(most_blocks, blocks), usual_threads, 0);
  };
  switch (k.kind) {
    case KernelKind::sum_squares: {
      const std::span<const Operand> gradients = o.all(N::gradient);
      const std::uint64_t parts = gradients.size();
      auto* partial = static_cast<double*>(l.scratch(parts * sum_blocks * sizeof(double)));
      for (std::uint64_t p = 0; p < parts; ++p) {
        l.launch(PartialSquares<T>{Elements(gradients[p]), gradients[p].count, partial + p * sum_blocks}, sum_blocks,
                 usual_threads, 0);
      }
      l.launch(AddSquares{partial, parts * sum_blocks, x(N::norm), k.parameter}, 1, usual_threads, 0);
      return true;
    }
    case KernelKind::clip_factor:
      for_each(l, 1,
               ClipFactor{x(N::norm), elements_if(o, N::loss_scale), x(N::factor), k.parameter,
                          static_cast<double>(c.workload->loss_scale_window)});
      return true;
    case KernelKind::advance_step: for_each(l, 1, AdvanceStep{x(N::steps), elements_if(o, N::factor)}); return true;
    case KernelKind::sgd_update: {
      const Optimizer& how = c.workload->optimizer;
      long_vector(o[N::gradient].count,
                  SgdUpdate<T>{UpdateOperands(o, N::gradient, N::weight, N::m, N::v), LearningRate(*c.workload),
                               static_cast<T>(how.momentum), k.options.decay ? static_cast<T>(how.weight_decay) : T{0},
                               k.options.momentum});
      return true;
    }
    case KernelKind::adam_update: {
      const Optimizer& how = c.workload->optimizer;
      const UpdateOperands operands(o, N::gradient, N::weight, N::m, N::v);
      auto* one = static_cast<AdamStep<T>*>(l.scratch(sizeof(AdamStep<T>)));
      const T decay = k.options.decay ? static_cast<T>(how.weight_decay) : T{0};
      for_each(l, 1,
               FindAdamStep<T>{operands, LearningRate(*c.workload), how.beta1, how.beta2, static_cast<T>(how.epsilon),
                               decay, one});
      const AdamUpdate<T> adam{operands, one};
      if (k.options.scaled) {
        const std::uint64_t block = moment_block(o[N::m].dtype);
        for_each_row(l, (o[N::gradient].count + block - 1) / block, ScaledAdamUpdate<T>{adam, x(N::scales), block},
                     static_cast<std::uint32_t>(block), 2 * block * sizeof(T));
      } else {
        long_vector(o[N::gradient].count, adam);
      }
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
