#pragma once

#include <algorithm>
#include <cmath>

#include "core/program/base_weights.hpp"
#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/nf4.hpp"

/// Frozen matrices in few bits, and back (core/program/base_weights.hpp). Codes and scales are made in f64, as on the
/// host, so that they are the host's. What comes back in f32 or 16 bits is made in f32: products of a code's value and
/// a scale are rounded once, as the host's are.
namespace orrery::device {

/// to[r] = the largest |x - mean| of the run r of `each` elements, over `by`; a block for each run.
struct LargestOfRuns {
  Elements x;
  const float* mean;  ///< null: 0
  std::uint64_t count, each;
  Elements to;
  double by;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t run) const {
    const double off = mean != nullptr ? static_cast<double>(*mean) : 0.0;
    const std::uint64_t first = run * each, end = first + each < count ? first + each : count;
    double most = 0.0;
    for (std::uint64_t i = first + b.thread(); i < end; i += b.threads()) {
      const double v = std::abs(x.load<double>(i) - off);
      most = most < v ? v : most;
    }
    most = b.largest(most);
    if (b.thread() == 0) to.store(run, most / by);
  }
};

struct LargestOfColumns {
  Elements x;
  std::uint64_t rows, columns;
  float* to;
  ORRERY_ON_DEVICE void operator()(std::uint64_t column) const {
    double most = 0.0;
    for (std::uint64_t r = 0; r < rows; ++r) {
      const double v = std::abs(x.load<double>(r * columns + column));
      most = most < v ? v : most;
    }
    to[column] = static_cast<float>(most);
  }
};

struct MeanOf {
  const float* x;
  std::uint64_t count;
  float* mean;
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t) const {
    double sum = 0.0;
    for (std::uint64_t i = b.thread(); i < count; i += b.threads()) sum += static_cast<double>(x[i]);
    sum = b.sum(sum);
    if (b.thread() == 0) *mean = static_cast<float>(sum / static_cast<double>(count));
  }
};

[[nodiscard]] ORRERY_ON_DEVICE inline double over_scale(double x, float scale) {
  return scale > 0.0F ? x / static_cast<double>(scale) : 0.0;
}

/// i counts bytes, each of two codes.
struct CodeNf4 {
  Elements x;
  const float* scales;
  std::uint8_t* codes;
  std::uint64_t count;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const float scale = scales[2 * i / nf4_block];
    const std::uint32_t low = nf4_of(over_scale(x.load<double>(2 * i), scale));
    const std::uint32_t high = 2 * i + 1 < count ? nf4_of(over_scale(x.load<double>(2 * i + 1), scale)) : 0;
    codes[i] = static_cast<std::uint8_t>(low | high << 4);
  }
};
struct CodeInt8 {
  Elements x;
  const float* scales;
  std::uint8_t* codes;
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const double code = std::nearbyint(over_scale(127.0 * x.load<double>(i), scales[i % columns]));
    codes[i] = static_cast<std::uint8_t>(static_cast<std::int8_t>(code));
  }
};
/// E4M3((x - mean) / scale), where `each` elements have a scale.
struct CodeE4m3 {
  Elements x;
  const float* mean;  ///< null: 0
  const float* scales;
  std::uint64_t each;
  std::uint8_t* codes;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const double off = mean != nullptr ? static_cast<double>(*mean) : 0.0;
    codes[i] = e4m3_of(static_cast<float>(over_scale(x.load<double>(i) - off, scales[i / each])));
  }
};

/// Scales in 8 bits: f32 numbers, and codes behind them.
struct ShortScales {
  float* numbers;
  std::uint8_t* codes;
  ShortScales(const Operand& stored, std::uint64_t scales)
      : numbers(static_cast<float*>(stored.data)),
        codes(static_cast<std::uint8_t*>(stored.data) + 4 * scale_numbers(scales)) {}
};
struct WholeScale {
  ShortScales from;
  float* to;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const double off =
        static_cast<double>(from_e4m3(from.codes[i])) * static_cast<double>(from.numbers[1 + i / scale_block]);
    to[i] = static_cast<float>(static_cast<double>(from.numbers[0]) + off);
  }
};

template <class T>
struct Dequantize {
  const std::uint8_t* codes;
  const float* scales;
  Elements y;
  BaseWeights base;
  std::uint64_t columns;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { y.store(i, value(i)); }
  [[nodiscard]] ORRERY_ON_DEVICE T value(std::uint64_t i) const {
    switch (base) {
      case BaseWeights::unquantized: break;
      case BaseWeights::nf4:
        return static_cast<T>(nf4_value(codes[i / 2] >> (i % 2 * 4) & 15)) * static_cast<T>(scales[i / nf4_block]);
      case BaseWeights::int8:
        return static_cast<T>(static_cast<std::int8_t>(codes[i])) * static_cast<T>(scales[i % columns]) / T{127};
      case BaseWeights::fp8: return static_cast<T>(from_e4m3(codes[i])) * static_cast<T>(scales[0]);
    }
    return T{0};
  }
};

template <class Launcher>
void quantize_nf4(Launcher& l, const Kernel& k, const Elements& x, std::uint8_t* codes, const Operand& stored) {
  const std::uint64_t count = k.rows * k.columns, blocks = (count + nf4_block - 1) / nf4_block;
  auto* scales = static_cast<float*>(k.options.scaled ? l.scratch(blocks * sizeof(float)) : stored.data);
  const Elements of_blocks(scales, DType::f32);
  for_each_row(l, blocks, LargestOfRuns{x, nullptr, count, nf4_block, of_blocks, 1.0}, nf4_block);
  for_each(l, (count + 1) / 2, CodeNf4{x, scales, codes, count});
  if (!k.options.scaled) return;
  const ShortScales to(stored, blocks);
  for_each_row(l, 1, MeanOf{scales, blocks, to.numbers});
  for_each_row(l, scale_numbers(blocks) - 1,
               LargestOfRuns{of_blocks, to.numbers, blocks, scale_block, Elements(to.numbers + 1, DType::f32),
                             static_cast<double>(e4m3_largest)});
  for_each(l, blocks, CodeE4m3{of_blocks, to.numbers, to.numbers + 1, scale_block, to.codes});
}

template <class Launcher>
void quantize_fp8(Launcher& l, const Elements& x, std::uint64_t count, std::uint8_t* codes, const Operand& scale) {
  constexpr std::uint64_t most_runs = 512;
  const std::uint64_t each = std::max<std::uint64_t>((count + most_runs - 1) / most_runs, usual_threads);
  const std::uint64_t runs = (count + each - 1) / each;
  const Elements largest(l.scratch(runs * sizeof(double)), DType::f64);
  for_each_row(l, runs, LargestOfRuns{x, nullptr, count, each, largest, 1.0});
  for_each_row(l, 1, LargestOfRuns{largest, nullptr, runs, runs, Elements(scale), static_cast<double>(e4m3_largest)});
  for_each(l, count, CodeE4m3{x, nullptr, static_cast<const float*>(scale.data), count, codes});
}

template <class T, class Launcher>
bool run_base_weights(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  if (k.kind != KernelKind::quantize_weight && k.kind != KernelKind::dequantize_weight) return false;
  const auto base = static_cast<BaseWeights>(k.site);
  const std::uint64_t count = k.rows * k.columns;
  const Operand& stored = o[N::scales];
  auto* codes = static_cast<std::uint8_t*>(o[N::codes].data);
  auto* scales = static_cast<float*>(stored.data);
  if (k.kind == KernelKind::dequantize_weight) {
    if (k.options.scaled) {
      const std::uint64_t blocks = (count + nf4_block - 1) / nf4_block;
      scales = static_cast<float*>(l.scratch(blocks * sizeof(float)));
      for_each(l, blocks, WholeScale{ShortScales(stored, blocks), scales});
    }
    for_each(l, count, Dequantize<T>{codes, scales, Elements(o[N::y]), base, k.columns});
    return true;
  }
  const Elements x(o[N::x]);
  switch (base) {
    case BaseWeights::unquantized: break;
    case BaseWeights::nf4: quantize_nf4(l, k, x, codes, stored); break;
    case BaseWeights::int8:
      for_each(l, k.columns, LargestOfColumns{x, k.rows, k.columns, scales});
      for_each(l, count, CodeInt8{x, scales, codes, k.columns});
      break;
    case BaseWeights::fp8: quantize_fp8(l, x, count, codes, stored); break;
  }
  return true;
}

}  // namespace orrery::device
