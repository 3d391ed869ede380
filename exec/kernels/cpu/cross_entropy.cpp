#include <algorithm>
#include <cmath>
#include <limits>

#include "exec/kernels/cpu/eigen_here.hpp"
#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/vocabulary_part.hpp"

namespace orrery::cpu {
namespace {

const std::int32_t* whole_numbers(const Operand& o) { return static_cast<const std::int32_t*>(o.data); }

}  // namespace

template <class T>
void cross_entropy_max(const Kernel& k, Operands o, KernelScratch& scratch) {
  const VocabularyPart vocabulary(k, o[0].place);
  T* in = scratch.get<T>(0, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[0], row * k.columns, vocabulary.valid, in);
    const T largest = max_over(vocabulary.valid, x, -std::numeric_limits<T>::infinity());
    write_scalar(o[1], static_cast<double>(largest), row);
  }
}

template <class T>
void cross_entropy_sum(const Kernel& k, Operands o, KernelScratch& scratch) {
  const VocabularyPart vocabulary(k, o[0].place);
  T* in = scratch.get<T>(0, k.columns);
  T* e = scratch.get<T>(1, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    const T* x = read(o[0], row * k.columns, vocabulary.valid, in);
    const auto largest = static_cast<T>(read_scalar(o[1], row));
    for (std::uint64_t c = 0; c < vocabulary.valid; ++c) e[c] = x[c] - largest;
    exponentials(e, vocabulary.valid);
    const T sum = sum_over<T>(vocabulary.valid, [&](std::uint64_t c) { return e[c]; });
    const std::int64_t target_entry = whole_numbers(o[2])[row];
    const bool here = vocabulary.holds(target_entry);
    write_scalar(o[3], static_cast<double>(sum), row);
    write_scalar(o[4], here ? static_cast<double>(x[vocabulary.column(target_entry)]) : 0.0, row);
  }
}

void cross_entropy_loss(const Kernel& k, Operands o) {
  double loss = read_scalar(o[4]);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    if (whole_numbers(o[3])[row] < 0) continue;
    loss += std::log(read_scalar(o[1], row)) + read_scalar(o[0], row) - read_scalar(o[2], row);
  }
  write_scalar(o[4], loss);
}

template <class T>
void cross_entropy_backward(const Kernel& k, Operands o, KernelScratch& scratch) {
  const VocabularyPart vocabulary(k, o[0].place);
  // The loss gradient is scaled by {scale, ...}, so that small 16-bit gradients do not vanish.
  const double scale = k.options.scaled ? read_scalar(o[5]) : 1.0;
  const double part = k.parameter > 0.0 ? k.parameter : 1.0;
  const double weight = part * scale / read_scalar(o[4]);
  T* buffer = scratch.get<T>(0, k.columns);
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    T* x = update(o[0], row * k.columns, k.columns, buffer);
    const std::int64_t target_entry = whole_numbers(o[3])[row];
    if (target_entry < 0) {
      std::fill_n(x, k.columns, T{0});
    } else {
      const auto largest = static_cast<T>(read_scalar(o[1], row));
      const auto factor = static_cast<T>(weight / read_scalar(o[2], row));
      for (std::uint64_t c = 0; c < vocabulary.valid; ++c) x[c] -= largest;
      exponentials(x, vocabulary.valid);
      for (std::uint64_t c = 0; c < vocabulary.valid; ++c) x[c] *= factor;
      std::fill(x + vocabulary.valid, x + k.columns, T{0});
      if (vocabulary.holds(target_entry)) x[vocabulary.column(target_entry)] -= static_cast<T>(weight);
    }
    finish(o[0], row * k.columns, k.columns, x);
  }
}

void mean_loss(Operands o) { write_scalar(o[0], read_scalar(o[0]) / read_scalar(o[1])); }

void add_losses(const Kernel& k, Operands o) {
  double sum = 0.0;
  for (std::uint64_t i = 0; i < k.rows; ++i) sum += read_scalar(o[0], i);
  write_scalar(o[1], read_scalar(o[1]) + k.parameter * sum);
}

template void cross_entropy_max<float>(const Kernel&, Operands, KernelScratch&);
template void cross_entropy_max<double>(const Kernel&, Operands, KernelScratch&);
template void cross_entropy_sum<float>(const Kernel&, Operands, KernelScratch&);
template void cross_entropy_sum<double>(const Kernel&, Operands, KernelScratch&);
template void cross_entropy_backward<float>(const Kernel&, Operands, KernelScratch&);
template void cross_entropy_backward<double>(const Kernel&, Operands, KernelScratch&);

}  // namespace orrery::cpu
