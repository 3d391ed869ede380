#include <algorithm>
#include <cmath>

#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/cpu/update_operands.hpp"
#include "exec/kernels/tensor_runs.hpp"

// LAMB: You et al., "Large batch optimization for deep learning: training BERT
// in 76 minutes", ICLR 2020, algorithm 2.  LARS: You et al., "Large batch
// training of convolutional networks", 2017, algorithm 1.
namespace orrery::cpu {
namespace {

/// Calls step(first, count) for tiles of at most `tile` elements.
template <class Step>
void for_each_piece(const TensorRun& run, Step step) {
  for (std::uint64_t at = 0; at < run.count; at += tile) step(run.first + at, std::min(tile, run.count - at));
}

template <class T>
double squares(std::uint64_t n, const T* x) {
  // The sum is in double, because squares of f32 values may leave the range of f32.
  return sum_over<double>(n, [&](std::uint64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

void add_pair(const Operand& norms, std::uint64_t tensor, double share, double first, double second) {
  write_scalar(norms, read_scalar(norms, 2 * tensor) + share * first, 2 * tensor);
  write_scalar(norms, read_scalar(norms, 2 * tensor + 1) + share * second, 2 * tensor + 1);
}

/// Adam's direction and the decay.
template <class T>
struct Direction {
  T correct1, correct2, epsilon, decay;
  Direction(const Optimizer& o, double step)
      : correct1(static_cast<T>(1.0 / (1.0 - std::pow(o.beta1, step)))),
        correct2(static_cast<T>(1.0 / (1.0 - std::pow(o.beta2, step)))),
        epsilon(static_cast<T>(o.epsilon)),
        decay(static_cast<T>(o.weight_decay)) {}
  T operator()(T m, T v, T w) const { return m * correct1 / (std::sqrt(v * correct2) + epsilon) + decay * w; }
};

template <class T>
void lamb_moments(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Factor factor(o);
  if (factor.skip) return;
  const Operand& gradient = o[N::gradient];
  const Operand& exact = o[N::exact];
  const Operand& m_of = o[N::m];
  const Operand& v_of = o[N::v];
  const Optimizer& optimizer = context.workload->optimizer;
  const Direction<T> direction(optimizer, read_scalar(o[N::steps]));
  const auto multiplier = static_cast<T>(factor.multiplier);
  const auto beta1 = static_cast<T>(optimizer.beta1);
  const auto beta2 = static_cast<T>(optimizer.beta2);
  // 1 - beta is in double, as in adam_update.
  const auto rest1 = static_cast<T>(1.0 - optimizer.beta1);
  const auto rest2 = static_cast<T>(1.0 - optimizer.beta2);
  for (const TensorRun& run : tensor_runs(exact, context)) {
    double of_weight = 0.0, of_direction = 0.0;
    for_each_piece(run, [&](std::uint64_t at, std::uint64_t n) {
      T g_buffer[tile], w_buffer[tile], m_buffer[tile], v_buffer[tile], u[tile];
      const T* g = read(gradient, at, n, g_buffer);
      const T* w = read(exact, at, n, w_buffer);
      T* m = update(m_of, at, n, m_buffer);
      T* v = update(v_of, at, n, v_buffer);
      for (std::uint64_t i = 0; i < n; ++i) {
        const T scaled = g[i] * multiplier;
        m[i] = beta1 * m[i] + rest1 * scaled;
        v[i] = beta2 * v[i] + rest2 * scaled * scaled;
        u[i] = direction(m[i], v[i], w[i]);
      }
      finish(m_of, at, n, m);
      finish(v_of, at, n, v);
      of_weight += squares(n, w);
      of_direction += squares(n, u);
    });
    add_pair(o[N::norms], run.tensor, k.parameter, of_weight, of_direction);
  }
}

template <class T>
void lamb_update(const Kernel&, const Operands& o, const KernelContext& context) {
  const Factor factor(o);
  if (factor.skip) return;
  const Update u(o);
  const Operand& m_of = o[N::m];
  const Operand& v_of = o[N::v];
  const Optimizer& optimizer = context.workload->optimizer;
  const double step = read_scalar(o[N::steps]);
  const double rate = learning_rate(*context.workload, static_cast<std::uint64_t>(step));
  const Direction<T> direction(optimizer, step);
  for (const TensorRun& run : tensor_runs(u.weight, context)) {
    const double weight = std::sqrt(read_scalar(o[N::norms], 2 * run.tensor));
    const double length = std::sqrt(read_scalar(o[N::norms], 2 * run.tensor + 1));
    const double trusted = std::min(weight, optimizer.trust_clip.value_or(weight));
    const auto scale = static_cast<T>(rate * (weight > 0.0 && length > 0.0 ? trusted / length : 1.0));
    for_each_piece(run, [&](std::uint64_t at, std::uint64_t n) {
      T w_buffer[tile], m_buffer[tile], v_buffer[tile];
      T* w = update(u.exact, at, n, w_buffer);
      const T* m = read(m_of, at, n, m_buffer);
      const T* v = read(v_of, at, n, v_buffer);
      for (std::uint64_t i = 0; i < n; ++i) w[i] -= scale * direction(m[i], v[i], w[i]);
      finish(u.exact, at, n, w);
      u.round(at, n, w);
    });
  }
}

template <class T>
void lars_norms(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Factor factor(o);
  if (factor.skip) return;
  const Operand& exact = o[N::exact];
  // A scaled gradient's squares: the factor is taken off after the sum.
  const double share = k.parameter * factor.multiplier * factor.multiplier;
  for (const TensorRun& run : tensor_runs(exact, context)) {
    double of_weight = 0.0, of_gradient = 0.0;
    for_each_piece(run, [&](std::uint64_t at, std::uint64_t n) {
      T g_buffer[tile], w_buffer[tile];
      of_gradient += squares(n, read(o[N::gradient], at, n, g_buffer));
      of_weight += squares(n, read(exact, at, n, w_buffer));
    });
    add_pair(o[N::norms], run.tensor, 1.0, k.parameter * of_weight, share * of_gradient);
  }
}

template <class T>
void lars_update(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Update u(o);
  const Factor factor(o);
  if (factor.skip) return;
  const Optimizer& optimizer = context.workload->optimizer;
  const double rate = learning_rate(*context.workload, static_cast<std::uint64_t>(read_scalar(o[N::steps])));
  const Operand& m_of = o[N::m];
  const double decay = k.options.decay ? optimizer.weight_decay : 0.0;
  const auto apply = [&](const TensorRun& run, double ratio) {
    const auto scale = static_cast<T>(rate * ratio);
    const auto multiplier = static_cast<T>(factor.multiplier);
    const auto momentum = static_cast<T>(optimizer.momentum);
    for_each_piece(run, [&](std::uint64_t at, std::uint64_t n) {
      T g_buffer[tile], w_buffer[tile], m_buffer[tile];
      const T* g = read(o[N::gradient], at, n, g_buffer);
      T* w = update(u.exact, at, n, w_buffer);
      T* m = update(m_of, at, n, m_buffer);
      for (std::uint64_t i = 0; i < n; ++i) {
        m[i] = momentum * m[i] + scale * (g[i] * multiplier + static_cast<T>(decay) * w[i]);
        w[i] -= m[i];
      }
      finish(m_of, at, n, m);
      finish(u.exact, at, n, w);
      u.round(at, n, w);
    });
  };
  if (k.depth == 0) return apply({0, 0, o[N::gradient].count}, 1.0);
  const Operand& norms = o[N::norms];
  for (const TensorRun& run : tensor_runs(u.weight, context)) {
    const double weight = std::sqrt(read_scalar(norms, 2 * run.tensor));
    const double gradient = std::sqrt(read_scalar(norms, 2 * run.tensor + 1));
    apply(run,
          weight > 0.0 && gradient > 0.0 ? optimizer.trust_coefficient * weight / (gradient + decay * weight) : 1.0);
  }
}

}  // namespace

std::span<const HostKernel> trust_ratio_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::lamb_moments, lamb_moments<float>, lamb_moments<double>},
      {KernelKind::lamb_update, lamb_update<float>, lamb_update<double>},
      {KernelKind::lars_norms, lars_norms<float>, lars_norms<double>},
      {KernelKind::lars_update, lars_update<float>, lars_update<double>},
  };
  return list;
}

}  // namespace orrery::cpu
