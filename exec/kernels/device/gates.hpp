#pragma once

#include <algorithm>
#include <cmath>

#include "core/spec/routing.hpp"
#include "exec/kernels/device/launcher.hpp"

/// Weights of what experts return, from the router's logits, and the gate of the experts that every token visits.
namespace orrery::device {

inline constexpr std::uint32_t gate_threads = 32;  ///< for a token: it has some tens or hundreds of experts

template <class T>
[[nodiscard]] ORRERY_ON_DEVICE inline T logistic(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// The scores of one token. A gate is u / sum of u over the choices (or over all experts, with softmax_all), where u is
/// e^(logit - largest) or the logistic function of the logit.
template <class T>
struct TokenScores {
  Elements logits, choice;
  std::uint64_t experts, choices;
  Mixture::Scores kind;

  [[nodiscard]] ORRERY_ON_DEVICE T logit(std::uint64_t token, std::uint64_t expert) const {
    return logits.load<T>(token * experts + expert);
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t chosen(std::uint64_t token, std::uint64_t j) const {
    return static_cast<std::uint64_t>(choice.whole(token * choices + j));
  }
  [[nodiscard]] ORRERY_ON_DEVICE T score(T x, T most) const {
    return kind == Mixture::Scores::sigmoid ? logistic(x) : std::exp(x - most);
  }
  /// Derivative of the score's logarithm.
  [[nodiscard]] ORRERY_ON_DEVICE T slope(T x) const {
    return kind == Mixture::Scores::sigmoid ? T{1} - logistic(x) : T{1};
  }
  struct Divisor {
    T most, sum;
  };
  /// Over all experts.
  template <class Block>
  ORRERY_KERNEL_BODY Divisor over_all(Block& b, std::uint64_t token) const {
    T most = -std::numeric_limits<T>::infinity(), sum{0};
    for (std::uint64_t e = b.thread(); e < experts; e += b.threads()) {
      const T x = logit(token, e);
      most = most < x ? x : most;
    }
    most = b.largest(most);
    for (std::uint64_t e = b.thread(); e < experts; e += b.threads()) sum += score(logit(token, e), most);
    return {most, b.sum(sum)};
  }
  template <class Block>
  ORRERY_KERNEL_BODY Divisor over_choices(Block& b, std::uint64_t token) const {
    T most = -std::numeric_limits<T>::infinity(), sum{0};
    for (std::uint64_t j = b.thread(); j < choices; j += b.threads()) {
      const T x = logit(token, chosen(token, j));
      most = most < x ? x : most;
    }
    most = b.largest(most);
    for (std::uint64_t j = b.thread(); j < choices; j += b.threads()) {
      sum += score(logit(token, chosen(token, j)), most);
    }
    return {most, b.sum(sum)};
  }
};

template <class T>
struct GatesForward {
  TokenScores<T> of;
  Elements gates;
  T scale;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t token) const {
    const auto by = of.kind == Mixture::Scores::softmax_all ? of.over_all(b, token) : of.over_choices(b, token);
    for (std::uint64_t j = b.thread(); j < of.choices; j += b.threads()) {
      const T u = of.score(of.logit(token, of.chosen(token, j)), by.most);
      gates.store(token * of.choices + j, u / by.sum * scale);
    }
  }
};

/// Weight of each expert's mean score in the auxiliary loss, less the mean of all weights, as on the host:
///     (chosen - k g / E) each        with `chosen` of the g tokens' k choices
/// The mean is known, since a group's choices are k g together.
struct BalanceWeight {
  const std::int32_t* chosen = nullptr;  ///< [groups, experts], or [experts] for all groups; null: no such loss
  Elements loss_scale;                   ///< without memory: 1
  double each = 0.0;                     ///< of one choice: auxiliary_weight(1)
  double mean = 0.0;                     ///< k g / E
  std::uint64_t experts = 0, first_row = 0, sequences = 0, positions = 0;  ///< positions 0: the same for all groups
  [[nodiscard]] ORRERY_ON_DEVICE double operator()(std::uint64_t token, std::uint64_t expert) const {
    const std::uint64_t row = first_row + token;
    const std::uint64_t group = positions == 0 ? 0 : row / sequences / positions * sequences + row % sequences;
    const double scale = loss_scale.data != nullptr ? loss_scale.load<double>(0) : 1.0;
    return scale * each * (static_cast<double>(chosen[group * experts + expert]) - mean);
  }
};

/// With p = u / sum of u and slope = d log u / dx:  dx = p (dp - sum of dp p) slope, of the gates and of the loss that
/// balances loads.
template <class T>
struct GatesBackward {
  TokenScores<T> of;
  Elements dgates, dlogits;
  BalanceWeight balance;
  T scale;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t token) const {
    using Divisor = typename TokenScores<T>::Divisor;
    const bool of_all = of.kind == Mixture::Scores::softmax_all, balances = balance.chosen != nullptr;
    const Divisor all = of_all || balances ? of.over_all(b, token) : Divisor{};
    const Divisor by = of_all ? all : of.over_choices(b, token);
    const auto dgate = [&](std::uint64_t j) { return dgates.load<T>(token * of.choices + j) * scale; };
    T dot{0}, of_balance{0};
    for (std::uint64_t j = b.thread(); j < of.choices; j += b.threads()) {
      dot += dgate(j) * (of.score(of.logit(token, of.chosen(token, j)), by.most) / by.sum);
    }
    dot = b.sum(dot);
    if (balances) {
      for (std::uint64_t e = b.thread(); e < of.experts; e += b.threads()) {
        of_balance += static_cast<T>(balance(token, e)) * (of.score(of.logit(token, e), all.most) / all.sum);
      }
      of_balance = b.sum(of_balance);
    }
    for (std::uint64_t e = b.thread(); e < of.experts; e += b.threads()) {
      const T x = of.logit(token, e);
      T dp{0};
      bool chosen = of_all;
      for (std::uint64_t j = 0; j < of.choices; ++j) {
        if (of.chosen(token, j) != e) continue;
        dp = dgate(j);
        chosen = true;
      }
      T d = chosen ? of.score(x, by.most) / by.sum * (dp - dot) : T{0};
      if (balances) {
        d += of.score(x, all.most) / all.sum * (static_cast<T>(balance(token, e)) - of_balance);
      }
      dlogits.store(token * of.experts + e, d * of.slope(x));
    }
  }
};

/// Brings numbers that the host knows to the device, as arguments of a kernel, which takes 4 KiB of them.
struct PutNumbers {
  static constexpr std::uint32_t most = 512;
  std::int32_t* to;
  std::int32_t numbers[most];
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { to[i] = numbers[i]; }
};

template <class Launcher>
BalanceWeight balance_weight(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  BalanceWeight w;
  if (c.workload->routing.auxiliary_loss <= 0.0) return w;
  const auto experts = static_cast<std::uint32_t>(k.columns);
  if (k.options.scaled) w.loss_scale = Elements(o[N::loss_scale]);
  w.each = auxiliary_weight(*c.workload, experts, k.batch, 1);
  w.mean = static_cast<double>(routing_group(*c.workload)) * k.batch / experts;
  w.experts = experts;
  if (k.options.loads) {
    w.chosen = static_cast<const std::int32_t*>(o[N::loads].data);
    w.sequences = o[N::choice].place.box.extent[1];
    w.positions = routing_group(*c.workload);
    w.first_row = o[N::choice].place.first / k.batch;
    return w;
  }
  const ExpertGroups groups = k.kv_heads > 0 ? ExpertGroups{k.kv_heads, k.head_dim} : ExpertGroups{};
  const LayerRouting routing(*c.workload, experts, k.batch, c.layer, groups);
  auto* chosen = static_cast<std::int32_t*>(l.scratch(experts * sizeof(std::int32_t)));
  for (std::uint32_t first = 0; first < experts; first += PutNumbers::most) {
    PutNumbers put{chosen + first, {}};
    const std::uint32_t n = std::min(PutNumbers::most, experts - first);
    for (std::uint32_t i = 0; i < n; ++i) put.numbers[i] = static_cast<std::int32_t>(routing.chosen(first + i));
    for_each(l, n, put);
  }
  w.chosen = chosen;
  return w;
}

template <class T>
struct GateForward {
  Elements x, logits, y;
  std::uint64_t columns;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const T gate = logistic(logits.load<T>(row));
    for (std::uint64_t i = row * columns + b.thread(); i < (row + 1) * columns; i += b.threads()) {
      y.store(i, gate * x.load<T>(i));
    }
  }
};

// With the gate s = sigmoid(a):  dx = s dy,  da = s (1 - s) sum of dy x.
template <class T>
struct GateBackward {
  Elements dy, x, logits, dx, dlogits;
  std::uint64_t columns;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const T gate = logistic(logits.load<T>(row));
    T sum{0};
    for (std::uint64_t i = row * columns + b.thread(); i < (row + 1) * columns; i += b.threads()) {
      const T d = dy.load<T>(i);
      sum += d * x.load<T>(i);
      dx.store(i, gate * d);
    }
    sum = b.sum(sum);
    if (b.thread() == 0) dlogits.store(row, gate * (T{1} - gate) * sum);
  }
};

template <class T, class Launcher>
bool run_gates(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto scores = [&] {
    return TokenScores<T>{Elements(o[N::logits]), Elements(o[N::choice]), k.columns, k.batch,
                          static_cast<Mixture::Scores>(k.site)};
  };
  const auto scale = static_cast<T>(k.parameter);
  switch (k.kind) {
    case KernelKind::gates_forward:
      for_each_row(l, k.rows, GatesForward<T>{scores(), Elements(o[N::gates]), scale}, gate_threads);
      return true;
    case KernelKind::gates_backward:
      for_each_row(l, k.rows,
                   GatesBackward<T>{scores(), Elements(o[N::dgates]), Elements(o[N::dlogits]),
                                    balance_weight(l, k, o, c), scale},
                   gate_threads);
      return true;
    case KernelKind::gate_forward:
      for_each_row(l, k.rows, GateForward<T>{Elements(o[N::x]), Elements(o[N::logits]), Elements(o[N::y]), k.columns});
      return true;
    case KernelKind::gate_backward:
      for_each_row(l, k.rows,
                   GateBackward<T>{Elements(o[N::dy]), Elements(o[N::x]), Elements(o[N::logits]), Elements(o[N::dx]),
                                   Elements(o[N::dlogits]), k.columns});
      return true;
    default: return false;
  }
}

}  // namespace orrery::device
