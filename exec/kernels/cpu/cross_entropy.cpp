#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/vocabulary_part.hpp"

namespace orrery::cpu {
namespace {

const std::int32_t* whole_numbers(const Operand& o) { return static_cast<const std::int32_t*>(o.data); }

/// logits = softcap tanh(scale logits / softcap), or scale logits.
template <class T>
void scale_logits(const Kernel& k, const Operands& o, const KernelContext&) {
  T buffer[tile];
  const Operand& logits = o[N::logits];
  const auto scale = static_cast<T>(k.scale == 0.0 ? 1.0 : k.scale), cap = static_cast<T>(k.softcap);
  for (std::uint64_t at = 0; at < logits.count; at += tile) {
    const std::uint64_t n = std::min(tile, logits.count - at);
    T* x = update(logits, at, n, buffer);
    for (std::uint64_t i = 0; i < n; ++i) x[i] *= scale;
    if (cap > T{0}) {
      for (std::uint64_t i = 0; i < n; ++i) x[i] = cap * std::tanh(x[i] / cap);
    }
    finish(logits, at, n, x);
  }
}

template <class T>
void cross_entropy_max(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const VocabularyPart vocabulary(k, o[N::logits].place);
  T* in = scratch.get<T>(0, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::logits], row * k.columns, vocabulary.valid, in);
    const T largest = max_over(vocabulary.valid, x, -std::numeric_limits<T>::infinity());
    write_scalar(o[N::max], static_cast<double>(largest), row);
  }
}

template <class T>
void cross_entropy_sum(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const VocabularyPart vocabulary(k, o[N::logits].place);
  T* in = scratch.get<T>(0, k.columns);
  T* e = scratch.get<T>(1, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[N::logits], row * k.columns, vocabulary.valid, in);
    const auto largest = static_cast<T>(read_scalar(o[N::max], row));
    for (std::uint64_t c = 0; c < vocabulary.valid; ++c) e[c] = x[c] - largest;
    exponentials(e, vocabulary.valid);
    const T sum = sum_over<T>(vocabulary.valid, [&](std::uint64_t c) { return e[c]; });
    const std::int64_t target_entry = whole_numbers(o[N::targets])[row];
    const bool here = vocabulary.holds(target_entry);
    write_scalar(o[N::sum], static_cast<double>(sum), row);
    write_scalar(o[N::target_logit], here ? static_cast<double>(x[vocabulary.column(target_entry)]) : 0.0, row);
  }
}

void cross_entropy_loss(const Kernel& k, const Operands& o, const KernelContext&) {
  double loss = read_scalar(o[N::loss]);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    if (whole_numbers(o[N::targets])[row] < 0) continue;
    loss += std::log(read_scalar(o[N::sum], row)) + read_scalar(o[N::max], row) - read_scalar(o[N::target_logit], row);
  }
  write_scalar(o[N::loss], loss);
}

template <class T>
void cross_entropy_backward(const Kernel& k, const Operands& o, const KernelContext& context) {
  KernelScratch& scratch = *context.scratch;
  const VocabularyPart vocabulary(k, o[N::logits].place);
  // {scale, ...}: the loss gradient is scaled so that small 16-bit gradients do not vanish.
  const double scale = k.options.scaled ? read_scalar(o[N::loss_scale]) : 1.0;
  const double part = k.parameter > 0.0 ? k.parameter : 1.0;
  const double weight = part * scale / read_scalar(o[N::count]);
  T* buffer = scratch.get<T>(0, k.columns);
  // The slope of scale_logits at each capped logit y, scale (1 - (y / softcap)^2).
  T* slope = scratch.get<T>(1, k.columns);
  const bool scales = k.scale != 0.0 || k.softcap > 0.0;
  const auto logit_scale = static_cast<T>(k.scale == 0.0 ? 1.0 : k.scale);
  const auto inverse_cap = static_cast<T>(k.softcap > 0.0 ? 1.0 / k.softcap : 0.0);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    T* x = update(o[N::logits], row * k.columns, k.columns, buffer);
    const std::int64_t target_entry = whole_numbers(o[N::targets])[row];
    if (target_entry < 0) {
      std::fill_n(x, k.columns, T{0});
    } else {
      const auto largest = static_cast<T>(read_scalar(o[N::max], row));
      const auto factor = static_cast<T>(weight / read_scalar(o[N::sum], row));
      for (std::uint64_t c = 0; scales && c < vocabulary.valid; ++c) {
        const T y = x[c] * inverse_cap;
        slope[c] = logit_scale * (T{1} - y * y);
      }
      for (std::uint64_t c = 0; c < vocabulary.valid; ++c) x[c] -= largest;
      exponentials(x, vocabulary.valid);
      for (std::uint64_t c = 0; c < vocabulary.valid; ++c) x[c] *= factor;
      std::fill(x + vocabulary.valid, x + k.columns, T{0});
      if (vocabulary.holds(target_entry)) x[vocabulary.column(target_entry)] -= static_cast<T>(weight);
      for (std::uint64_t c = 0; scales && c < vocabulary.valid; ++c) x[c] *= slope[c];
    }
    finish(o[N::logits], row * k.columns, k.columns, x);
  }
}

void mean_loss(const Kernel&, const Operands& o, const KernelContext&) {
  write_scalar(o[N::loss], read_scalar(o[N::loss]) / read_scalar(o[N::count]));
}

void add_losses(const Kernel& k, const Operands& o, const KernelContext&) {
  double sum = 0.0;
  for (std::uint64_t i = 0; i < k.rows; ++i) sum += read_scalar(o[N::losses], i);
  write_scalar(o[N::loss], read_scalar(o[N::loss]) + k.parameter * sum);
}

}  // namespace

std::span<const HostKernel> loss_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::scale_logits, scale_logits<float>, scale_logits<double>},
      {KernelKind::cross_entropy_max, cross_entropy_max<float>, cross_entropy_max<double>},
      {KernelKind::cross_entropy_sum, cross_entropy_sum<float>, cross_entropy_sum<double>},
      {KernelKind::cross_entropy_loss, cross_entropy_loss, cross_entropy_loss},
      {KernelKind::cross_entropy_backward, cross_entropy_backward<float>, cross_entropy_backward<double>},
      {KernelKind::mean_loss, mean_loss, mean_loss},
      {KernelKind::add_losses, add_losses, add_losses},
  };
  return list;
}

}  // namespace orrery::cpu
