#pragma once

#include "exec/kernels/device/elementwise.hpp"
#include "exec/kernels/device/flash_shape.hpp"

/// The gradient of sinks (exec/kernels/cpu/attention_sinks.cpp has the formula).
namespace orrery::device {

/// Minus p dC C of one query for add_column_sums: a line is a (position, sequence), a column a head.
template <class T>
struct SinkTerm {
  FlashShape s;
  Elements dcontext, context, lse, sinks;
  ORRERY_ON_DEVICE T operator()(std::uint64_t line, std::uint64_t head) const {
    const std::uint64_t position = line / s.batch, sequence = line % s.batch;
    const std::uint64_t at = s.context_at(position, sequence, head);
    T sum{0};
    for (std::uint64_t f = 0; f < s.value; ++f) sum += context.load<T>(at + f) * dcontext.load<T>(at + f);
    return -std::exp(sinks.load<T>(head) - lse.load<T>((sequence * s.heads + head) * s.length + position)) * sum;
  }
};

template <class T, class Launcher>
bool run_attention_sinks(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  if (k.kind != KernelKind::attention_sinks_backward) return false;
  const FlashShape s(k, 1);
  const SinkTerm<T> term{s, Elements(o[N::dcontext]), Elements(o[N::context]), Elements(o[N::lse]),
                         Elements(o[N::sinks])};
  add_column_sums<T>(l, term, Elements(o[N::dsinks]), k.rows, s.heads);
  return true;
}

}  // namespace orrery::device
