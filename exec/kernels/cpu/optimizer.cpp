#include <algorithm>
#include <cmath>
#include <optional>

#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/cpu/update_operands.hpp"

namespace orrery::cpu {
namespace {

void initialize_scale(const Kernel&, const Operands& o, const KernelContext& context) {
  write_scalar(o[N::loss_scale], context.workload->loss_scale, 0);
  write_scalar(o[N::loss_scale], 0.0, 1);
}

template <class T>
void sum_squares(const Kernel& k, const Operands& o, const KernelContext&) {
  const Operand& norm = o[N::norm];
  double total = 0.0;
  T buffer[tile];
  for (const Operand& gradient : o.all(N::gradient)) {
    for (std::uint64_t at = 0; at < gradient.count; at += tile) {
      const std::uint64_t n = std::min(tile, gradient.count - at);
      const T* g = read(gradient, at, n, buffer);
      // In double: squares of f32 gradients may leave the range of f32.
      total +=
          sum_over<double>(n, [&](std::uint64_t i) { return static_cast<double>(g[i]) * static_cast<double>(g[i]); });
    }
  }
  write_scalar(norm, read_scalar(norm) + k.parameter * total);
}

void clip_factor(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Operand& out = o[N::factor];
  const double scale = k.options.scaled ? read_scalar(o[N::loss_scale], 0) : 1.0;
  const double norm = std::sqrt(read_scalar(o[N::norm])) / scale;
  const double clip = k.parameter > 0.0 ? std::min(1.0, k.parameter / (norm + 1e-6)) : 1.0;
  const bool skip = k.options.scaled && !std::isfinite(norm);
  write_scalar(out, clip / scale, 0);
  write_scalar(out, skip ? 1.0 : 0.0, 1);
  if (!k.options.scaled) return;
  const double good = read_scalar(o[N::loss_scale], 1) + 1.0;
  if (skip) {
    write_scalar(o[N::loss_scale], scale / 2.0, 0);
    write_scalar(o[N::loss_scale], 0.0, 1);
  } else if (good >= static_cast<double>(context.workload->loss_scale_window)) {
    write_scalar(o[N::loss_scale], scale * 2.0, 0);
    write_scalar(o[N::loss_scale], 0.0, 1);
  } else {
    write_scalar(o[N::loss_scale], good, 1);
  }
}

void advance_step(const Kernel&, const Operands& o, const KernelContext&) {
  if (Factor(o).skip) return;
  write_scalar(o[N::steps], read_scalar(o[N::steps]) + 1.0);
}

template <class T>
void sgd_update(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Update u(o);
  const Factor factor(o);
  if (factor.skip) return;
  const Workload& w = *context.workload;
  const auto rate = static_cast<T>(learning_rate(w, static_cast<std::uint64_t>(read_scalar(o[N::steps]))));
  const auto momentum = static_cast<T>(w.optimizer.momentum);
  const T decay = k.options.decay ? static_cast<T>(w.optimizer.weight_decay) : T{0};
  T m_buffer[tile];
  for_each_tile<T>(u, o[N::gradient], static_cast<T>(factor.multiplier),
                   [&](const T* g, T* weight, std::uint64_t at, std::uint64_t n) {
                     if (!k.options.momentum) {
                       for (std::uint64_t i = 0; i < n; ++i) weight[i] -= rate * (g[i] + decay * weight[i]);
                       return;
                     }
                     T* m = update(o[N::m], at, n, m_buffer);
#pragma GCC ivdep
                     for (std::uint64_t i = 0; i < n; ++i) {
                       m[i] = momentum * m[i] + g[i];
                       weight[i] -= rate * (m[i] + decay * weight[i]);
                     }
                     finish(o[N::m], at, n, m);
                   });
}

// Kingma and Ba, "Adam", ICLR 2015, with the decoupled decay of Loshchilov and
// Hutter, ICLR 2019.
template <class T>
void adam_update(const Kernel& k, const Operands& o, const KernelContext& context) {
  const Update u(o);
  const Factor factor(o);
  if (factor.skip) return;
  const Workload& w = *context.workload;
  const double step = read_scalar(o[N::steps]);
  const auto rate = static_cast<T>(learning_rate(w, static_cast<std::uint64_t>(step)));
  const auto beta1 = static_cast<T>(w.optimizer.beta1);
  const auto beta2 = static_cast<T>(w.optimizer.beta2);
  // 1 - beta is in double: 1 - 0.95f carries an error of f32's last place of 1.
  const auto rest1 = static_cast<T>(1.0 - w.optimizer.beta1);
  const auto rest2 = static_cast<T>(1.0 - w.optimizer.beta2);
  const auto correct1 = static_cast<T>(1.0 / (1.0 - std::pow(w.optimizer.beta1, step)));
  const auto correct2 = static_cast<T>(1.0 / (1.0 - std::pow(w.optimizer.beta2, step)));
  const auto epsilon = static_cast<T>(w.optimizer.epsilon);
  const T decay = k.options.decay ? static_cast<T>(w.optimizer.weight_decay) : T{0};
  const Operand& m_of = o[N::m];
  const Operand& v_of = o[N::v];
  T m_buffer[tile];
  T v_buffer[tile];
  static_assert(tile % longest_moment_block == 0);
  std::optional<MomentScales> scales;
  if (k.options.scaled) scales.emplace(o[N::scales], m_of.dtype);
  for_each_tile<T>(u, o[N::gradient], static_cast<T>(factor.multiplier),
                   [&](const T* g, T* weight, std::uint64_t at, std::uint64_t n) {
                     T* m = update(m_of, at, n, m_buffer);
                     T* v = update(v_of, at, n, v_buffer);
                     if (scales) {
                       scales->apply(0, m_of.dtype, at, n, m);
                       scales->apply(1, v_of.dtype, at, n, v);
                     }
#pragma GCC ivdep
                     for (std::uint64_t i = 0; i < n; ++i) {
                       m[i] = beta1 * m[i] + rest1 * g[i];
                       v[i] = beta2 * v[i] + rest2 * g[i] * g[i];
                       weight[i] -=
                           rate * (m[i] * correct1 / (std::sqrt(v[i] * correct2) + epsilon) + decay * weight[i]);
                     }
                     if (scales) {
                       scales->divide(0, m_of.dtype, at, n, m);
                       scales->divide(1, v_of.dtype, at, n, v);
                     }
                     finish(m_of, at, n, m);
                     finish(v_of, at, n, v);
                   });
}

}  // namespace

std::span<const HostKernel> optimizer_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::initialize_scale, initialize_scale, initialize_scale},
      {KernelKind::sum_squares, sum_squares<float>, sum_squares<double>},
      {KernelKind::clip_factor, clip_factor, clip_factor},
      {KernelKind::advance_step, advance_step, advance_step},
      {KernelKind::sgd_update, sgd_update<float>, sgd_update<double>},
      {KernelKind::adam_update, adam_update<float>, adam_update<double>},
  };
  return list;
}

}  // namespace orrery::cpu
