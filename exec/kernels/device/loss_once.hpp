#pragma once

#include <limits>

#include "exec/kernels/device/cross_entropy.hpp"

/// The largest logit of a row and its sum of exponentials, from one reading of the logits.
///
/// A Program has two kernels for them, between which the largest may become that of all ranks. Where the second follows
/// the first on a stream, it need not read the logits again: the first has summed, too, counted from this rank's own
/// largest (Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867, 2018, algorithm 3):
///
///     m' = max(m, x)        s' = s e^(m - m') + e^(x - m')        over a row's logits x
///
/// and the second corrects it: s e^(m - M), where M is the largest of all ranks.
namespace orrery::device {

/// What a launcher's last kernel left in its scratch, for the kernel that follows.
struct KeptSums {
  const void* logits = nullptr;  ///< whose rows; null: nothing is kept
  std::uint64_t rows = 0, columns = 0;
  void* memory = nullptr;  ///< largest[rows], then sums[rows]
};

template <class T>
struct CrossEntropyOnce {
  Elements logits, largest;
  T* kept;  ///< as KeptSums
  VocabularyPart part;
  std::uint64_t columns, rows;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    T most = -std::numeric_limits<T>::infinity();
    T sum{0};
    for (std::uint64_t c = b.thread(); c < part.valid; c += b.threads()) {
      const T v = logits.load<T>(row * columns + c);
      if (most < v) {
        sum = sum * std::exp(most - v) + T{1};
        most = v;
      } else if (v != -std::numeric_limits<T>::infinity()) {  // its exponential is 0; a NaN comes through
        sum += std::exp(v - most);
      }
    }
    const T of_row = b.largest(most);
    // A thread without logits has no largest, and infinity less infinity is no number.
    sum = b.sum(sum == T{0} ? T{0} : sum * std::exp(most - of_row));
    if (b.thread() != 0) return;
    largest.store(row, of_row);
    kept[row] = of_row;
    kept[rows + row] = sum;
  }
};

template <class T>
struct CrossEntropyCorrect {
  Elements logits, largest, targets, sums, target_logits;
  const T* kept;
  VocabularyPart part;
  std::uint64_t columns, rows;
  ORRERY_ON_DEVICE void operator()(std::uint64_t row) const {
    const T sum = kept[rows + row];
    const std::int64_t target = targets.whole(row);
    sums.store(row, sum == T{0} ? T{0} : sum * std::exp(kept[row] - largest.load<T>(row)));
    target_logits.store(row, part.holds(target) ? logits.load<T>(row * columns + part.column(target)) : T{0});
  }
};

/// Launches one of the two kernels where it can so; requires that it sees all kernels of the launcher, in order.
template <class T, class Launcher>
bool run_loss_once(Launcher& l, KeptSums& kept, const Kernel& k, std::span<const Operand> operands) {
  const KeptSums before = kept;
  kept = {};
  if (k.kind != KernelKind::cross_entropy_max && k.kind != KernelKind::cross_entropy_sum) return false;
  const NamedOperands o(k, operands);
  const Elements logits(o[N::logits]);
  const VocabularyPart part(k, o[N::logits].place);
  if (k.kind == KernelKind::cross_entropy_max) {
    auto* memory = static_cast<T*>(l.scratch(2 * k.rows * sizeof(T)));
    for_each_row(l, k.rows, CrossEntropyOnce<T>{logits, Elements(o[N::max]), memory, part, k.columns, k.rows});
    kept = {logits.data, k.rows, k.columns, memory};
    return true;
  }
  if (before.logits != logits.data || before.rows != k.rows || before.columns != k.columns) return false;
  for_each(l, k.rows,
           CrossEntropyCorrect<T>{logits, Elements(o[N::max]), Elements(o[N::targets]), Elements(o[N::sum]),
                                  Elements(o[N::target_logit]), static_cast<const T*>(before.memory), part, k.columns,
                                  k.rows});
  return true;
}

}  // namespace orrery::device
