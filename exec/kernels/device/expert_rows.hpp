#pragma once

#include "exec/kernels/device/launcher.hpp"

/// Rows that tokens send to experts, and what becomes of those that come back.
namespace orrery::device {

/// Elements that one thread moves at once, where rows begin at multiples of 16 bytes.
struct alignas(16) Sixteen {
  std::uint32_t x[4];
};

/// rows[slot] = x[token of the slot]; 0 where nothing stands.
template <class Unit>
struct DispatchRows {
  const Unit* x;
  Unit* rows;
  Elements slots;
  std::uint64_t units, choices;  ///< of a row; of a token
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t slot) const {
    const std::int32_t choice = slots.whole(slot);
    Unit* to = rows + slot * units;
    if (choice < 0) {
      for (std::uint64_t i = b.thread(); i < units; i += b.threads()) to[i] = Unit{};
      return;
    }
    const Unit* from = x + static_cast<std::uint64_t>(choice) / choices * units;
    for (std::uint64_t i = b.thread(); i < units; i += b.threads()) to[i] = from[i];
  }
};

/// slot_of[choice] = 1 + its slot; stays 0 where it has none.
struct SlotOfChoice {
  Elements slots;
  std::uint32_t* slot_of;
  ORRERY_ON_DEVICE void operator()(std::uint64_t slot) const {
    const std::int32_t choice = slots.whole(slot);
    if (choice >= 0) slot_of[choice] = static_cast<std::uint32_t>(slot + 1);
  }
};

/// y[token] = (residual) + sum over its slots, in the order of its choices, of (gate) * rows[slot].
template <class T>
struct GatherSum {
  Elements rows, gates, residual, y;  ///< gates and residual: without memory where there are none
  const std::uint32_t* slot_of;
  std::uint64_t columns, choices;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t token) const {
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
      T sum = residual.data != nullptr ? residual.load<T>(token * columns + i) : T{0};
      for (std::uint64_t choice = token * choices; choice < (token + 1) * choices; ++choice) {
        const std::uint64_t slot = slot_of[choice];
        if (slot == 0) continue;
        const T x = rows.load<T>((slot - 1) * columns + i);
        sum += gates.data != nullptr ? gates.load<T>(choice) * x : x;
      }
      y.store(token * columns + i, sum);
    }
  }
};

/// drows[slot] = gate * dy[token], dgates[choice] = dy[token] rows[slot]. The caller has cleared dgates.
template <class T>
struct CombineBackward {
  Elements dy, rows, slots, gates, drows, dgates;
  std::uint64_t columns, choices;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t slot) const {
    const std::int32_t stands = slots.whole(slot);
    const std::uint64_t to = slot * columns;
    if (stands < 0) {  // all threads alike
      for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) drows.store(to + i, T{0});
      return;
    }
    const auto choice = static_cast<std::uint64_t>(stands);
    const std::uint64_t from = choice / choices * columns;
    const T gate = gates.load<T>(choice);
    T dot{0};
    for (std::uint64_t i = b.thread(); i < columns; i += b.threads()) {
      const T d = dy.load<T>(from + i);
      dot += d * rows.load<T>(to + i);
      drows.store(to + i, gate * d);
    }
    dot = b.sum(dot);
    if (b.thread() == 0) dgates.store(choice, dot);
  }
};

template <class Unit, class Launcher>
void dispatch(Launcher& l, const Kernel& k, const NamedOperands& o) {
  const std::uint64_t units = k.columns * size_of(o[N::x].dtype) / sizeof(Unit);
  for_each_row(l, k.depth,
               DispatchRows<Unit>{static_cast<const Unit*>(o[N::x].data), static_cast<Unit*>(o[N::rows].data),
                                  Elements(o[N::slots]), units, k.batch});
}

template <class T, class Launcher>
void gather_sum(Launcher& l, const Kernel& k, const NamedOperands& o, N rows, N y) {
  const std::uint64_t bytes = k.rows * k.batch * sizeof(std::uint32_t);
  auto* slot_of = static_cast<std::uint32_t*>(l.scratch(bytes));
  l.clear(slot_of, bytes);
  for_each(l, k.depth, SlotOfChoice{Elements(o[N::slots]), slot_of});
  for_each_row(l, k.rows,
               GatherSum<T>{Elements(o[rows]), elements_if(o, N::gates), elements_if(o, N::residual), Elements(o[y]),
                            slot_of, k.columns, k.batch});
}

template <class T, class Launcher>
bool run_expert_rows(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  switch (k.kind) {
    case KernelKind::dispatch_forward: {
      const Operand &x = o[N::x], &rows = o[N::rows];
      ORRERY_ASSERT(x.dtype == rows.dtype, x.dtype, rows.dtype);
      const bool aligned = (k.columns * size_of(x.dtype) | reinterpret_cast<std::uintptr_t>(x.data) |
                            reinterpret_cast<std::uintptr_t>(rows.data)) %
                               sizeof(Sixteen) ==
                           0;
      aligned ? dispatch<Sixteen>(l, k, o) : dispatch<std::uint16_t>(l, k, o);
      return true;
    }
    case KernelKind::dispatch_backward: gather_sum<T>(l, k, o, N::drows, N::dx); return true;
    case KernelKind::combine_forward: gather_sum<T>(l, k, o, N::rows, N::y); return true;
    case KernelKind::combine_backward: {
      const Elements dgates(o[N::dgates]);
      l.clear(dgates.data, k.rows * k.batch * size_of(dgates.dtype));
      for_each_row(l, k.depth,
                   CombineBackward<T>{Elements(o[N::dy]), Elements(o[N::rows]), Elements(o[N::slots]),
                                      Elements(o[N::gates]), Elements(o[N::drows]), dgates, k.columns, k.batch});
      return true;
    }
    default: return false;
  }
}

}  // namespace orrery::device
