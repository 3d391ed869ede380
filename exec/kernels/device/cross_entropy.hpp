#pragma once

#include <cmath>

#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/vocabulary_part.hpp"

/// Cross-entropy over a vocabulary of which this rank holds a part, with a block for each row; and scalars of the loss.
namespace orrery::device {

/// x = cap tanh(scale x / cap), or scale x without a cap.
template <class T>
struct ScaleLogits {
  Elements x;
  T scale, cap;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const T v = scale * x.load<T>(i);
    x.store(i, cap > T{0} ? cap * std::tanh(v / cap) : v);
  }
};

/// Reads the logits again, where the kernel before left no sums (loss_once.hpp, which has the kernel of the largest).
template <class T>
struct CrossEntropySum {
  Elements logits, largest, targets, sums, target_logits;
  VocabularyPart part;
  std::uint64_t columns;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const T most = largest.load<T>(row);
    T sum{0};
    for (std::uint64_t c = b.thread(); c < part.valid; c += b.threads()) {
      sum += std::exp(logits.load<T>(row * columns + c) - most);
    }
    sum = b.sum(sum);
    if (b.thread() != 0) return;
    const std::int64_t target = targets.whole(row);
    sums.store(row, sum);
    target_logits.store(row, part.holds(target) ? logits.load<T>(row * columns + part.column(target)) : T{0});
  }
};

/// loss += log(sum) + max - logit of the target, over rows that have one; one block sums in double.
struct CrossEntropyLoss {
  Elements largest, sums, target_logits, targets, loss;
  std::uint64_t rows;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b) const {
    double sum = 0.0;
    for (std::uint64_t row = b.thread(); row < rows; row += b.threads()) {
      if (targets.whole(row) < 0) continue;
      sum += std::log(sums.load<double>(row)) + largest.load<double>(row) - target_logits.load<double>(row);
    }
    sum = b.sum(sum);
    if (b.thread() == 0) loss.store(0, loss.load<double>(0) + sum);
  }
};

template <class T>
struct CrossEntropyBackward {
  Elements logits, largest, sums, targets, count, scale;  ///< scale: of the loss, none where data is null
  VocabularyPart part;
  std::uint64_t columns;
  double share;
  T logit_scale, inverse_cap;  ///< of ScaleLogits; 0: no cap
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t row) const {
    const std::int64_t target = targets.whole(row);
    const double scaled = scale.data != nullptr ? scale.load<double>(0) : 1.0;
    const double weight = share * scaled / count.load<double>(0);
    const T most = largest.load<T>(row);
    const auto factor = static_cast<T>(weight / sums.load<double>(row));
    for (std::uint64_t c = b.thread(); c < columns; c += b.threads()) {
      const std::uint64_t i = row * columns + c;
      T d{0};
      if (target >= 0 && c < part.valid) {
        const T y = logits.load<T>(i);
        d = std::exp(y - most) * factor;
        if (part.holds(target) && part.column(target) == c) d -= static_cast<T>(weight);
        d *= logit_scale * (T{1} - y * inverse_cap * (y * inverse_cap));
      }
      logits.store(i, d);
    }
  }
};

struct MeanLoss {
  Elements loss, count;
  ORRERY_ON_DEVICE void operator()(std::uint64_t) const { loss.store(0, loss.load<double>(0) / count.load<double>(0)); }
};

struct AddLosses {
  Elements losses, loss;
  std::uint64_t rows;
  double weight;
  ORRERY_ON_DEVICE void operator()(std::uint64_t) const {
    double sum = 0.0;
    for (std::uint64_t i = 0; i < rows; ++i) sum += losses.load<double>(i);
    loss.store(0, loss.load<double>(0) + weight * sum);
  }
};

template <class T, class Launcher>
bool run_losses(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  const auto x = [&](N name) { return Elements(o[name]); };
  const auto scale = static_cast<T>(k.scale == 0.0 ? 1.0 : k.scale);
  switch (k.kind) {
    case KernelKind::scale_logits:
      for_each(l, k.rows * k.columns, ScaleLogits<T>{x(N::logits), scale, static_cast<T>(k.softcap)});
      return true;
    case KernelKind::cross_entropy_sum:
      for_each_row(l, k.rows,
                   CrossEntropySum<T>{x(N::logits), x(N::max), x(N::targets), x(N::sum), x(N::target_logit),
                                      VocabularyPart(k, o[N::logits].place), k.columns});
      return true;
    case KernelKind::cross_entropy_loss:
      l.launch(CrossEntropyLoss{x(N::max), x(N::sum), x(N::target_logit), x(N::targets), x(N::loss), k.rows}, 1,
               usual_threads, 0);
      return true;
    case KernelKind::cross_entropy_backward:
      for_each_row(l, k.rows,
                   CrossEntropyBackward<T>{x(N::logits), x(N::max), x(N::sum), x(N::targets), x(N::count),
                                           elements_if(o, N::loss_scale), VocabularyPart(k, o[N::logits].place),
                                           k.columns, k.parameter > 0.0 ? k.parameter : 1.0, scale,
                                           static_cast<T>(k.softcap > 0.0 ? 1.0 / k.softcap : 0.0)});
      return true;
    case KernelKind::mean_loss: for_each(l, 1, MeanLoss{x(N::loss), x(N::count)}); return true;
    case KernelKind::add_losses: for_each(l, 1, AddLosses{x(N::losses), x(N::loss), k.rows, k.parameter}); return true;
    default: return false;
  }
}

}  // namespace orrery::device
