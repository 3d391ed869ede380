#include "core/program/base_weights.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/kernels/cpu/kernels.hpp"
#include "exec/kernels/nf4.hpp"

// Frozen matrices in few bits, and back (core/program/base_weights.hpp). All arithmetic is in f64, on scales that are
// rounded to what is stored, so that what comes back follows from the stored numbers alone.
namespace orrery::cpu {
namespace {

double over(double x, double scale) { return scale > 0.0 ? x / scale : 0.0; }

double largest(const double* x, std::uint64_t count) {
  double most = 0.0;
  for (std::uint64_t i = 0; i < count; ++i) most = std::max(most, std::abs(x[i]));
  return most;
}

/// Scales in 8 bits: f32 numbers, and codes behind them.
struct ShortScales {
  float* numbers;
  std::uint8_t* codes;
  ShortScales(const Operand& stored, std::uint64_t scales)
      : numbers(static_cast<float*>(stored.data)),
        codes(static_cast<std::uint8_t*>(stored.data) + 4 * scale_numbers(scales)) {}
};

void quantize_scales(const std::vector<float>& scales, const Operand& stored) {
  const ShortScales to(stored, scales.size());
  double sum = 0.0;
  for (const float s : scales) sum += static_cast<double>(s);
  to.numbers[0] = static_cast<float>(sum / static_cast<double>(scales.size()));
  std::vector<double> off(scales.size());
  for (std::size_t i = 0; i < off.size(); ++i) {
    off[i] = static_cast<double>(scales[i]) - static_cast<double>(to.numbers[0]);
  }
  for (std::size_t first = 0, block = 1; first < off.size(); first += scale_block, ++block) {
    const std::size_t count = std::min<std::size_t>(scale_block, off.size() - first);
    to.numbers[block] = static_cast<float>(largest(off.data() + first, count) / static_cast<double>(e4m3_largest));
    for (std::size_t i = first; i < first + count; ++i) {
      to.codes[i] = e4m3_of(static_cast<float>(over(off[i], static_cast<double>(to.numbers[block]))));
    }
  }
}

std::vector<double> scales_of(const Kernel& k, const Operand& stored) {
  if (!k.options.scaled) {
    std::vector<double> scales(stored.count);
    load_elements(stored.dtype, stored.data, 0, stored.count, scales.data());
    return scales;
  }
  std::vector<double> scales((k.rows * k.columns + nf4_block - 1) / nf4_block);
  const ShortScales from(stored, scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const double off =
        static_cast<double>(from_e4m3(from.codes[i])) * static_cast<double>(from.numbers[1 + i / scale_block]);
    scales[i] = static_cast<double>(static_cast<float>(static_cast<double>(from.numbers[0]) + off));
  }
  return scales;
}

void quantize_nf4(const Kernel& k, const Operands& o, const double* x, std::uint64_t count) {
  auto* codes = static_cast<std::uint8_t*>(o[N::codes].data);
  std::fill(codes, codes + o[N::codes].count, std::uint8_t{0});
  std::vector<float> scales;
  for (std::uint64_t first = 0; first < count; first += nf4_block) {
    const std::uint64_t end = std::min(first + nf4_block, count);
    scales.push_back(static_cast<float>(largest(x + first, end - first)));
    for (std::uint64_t i = first; i < end; ++i) {
      const std::uint8_t code = nf4_of(over(x[i], static_cast<double>(scales.back())));
      codes[i / 2] = static_cast<std::uint8_t>(codes[i / 2] | code << (i % 2 * 4));
    }
  }
  if (k.options.scaled) return quantize_scales(scales, o[N::scales]);
  std::copy(scales.begin(), scales.end(), static_cast<float*>(o[N::scales].data));
}

void quantize_int8(const Kernel& k, const Operands& o, const double* x) {
  auto* scales = static_cast<float*>(o[N::scales].data);
  for (std::uint64_t c = 0; c < k.columns; ++c) {
    double most = 0.0;
    for (std::uint64_t r = 0; r < k.rows; ++r) most = std::max(most, std::abs(x[r * k.columns + c]));
    scales[c] = static_cast<float>(most);
  }
  for (std::uint64_t i = 0; i < k.rows * k.columns; ++i) {
    const double code = std::nearbyint(over(127.0 * x[i], static_cast<double>(scales[i % k.columns])));
    static_cast<std::int8_t*>(o[N::codes].data)[i] = static_cast<std::int8_t>(code);
  }
}

void quantize_fp8(const Operands& o, const double* x, std::uint64_t count) {
  auto* scale = static_cast<float*>(o[N::scales].data);
  *scale = static_cast<float>(largest(x, count) / static_cast<double>(e4m3_largest));
  for (std::uint64_t i = 0; i < count; ++i) {
    static_cast<std::uint8_t*>(o[N::codes].data)[i] =
        e4m3_of(static_cast<float>(over(x[i], static_cast<double>(*scale))));
  }
}

void quantize(const Kernel& k, const Operands& o, const KernelContext&) {
  const Operand& x = o[N::x];
  std::vector<double> values(x.count);
  load_elements(x.dtype, x.data, 0, x.count, values.data());
  switch (static_cast<BaseWeights>(k.site)) {
    case BaseWeights::unquantized: return;
    case BaseWeights::nf4: return quantize_nf4(k, o, values.data(), x.count);
    case BaseWeights::int8: return quantize_int8(k, o, values.data());
    case BaseWeights::fp8: return quantize_fp8(o, values.data(), x.count);
  }
}

void dequantize(const Kernel& k, const Operands& o, const KernelContext&) {
  const Operand& y = o[N::y];
  const std::vector<double> scales = scales_of(k, o[N::scales]);
  const auto* codes = static_cast<const std::uint8_t*>(o[N::codes].data);
  const auto value = [&](std::uint64_t i) {
    switch (static_cast<BaseWeights>(k.site)) {
      case BaseWeights::unquantized: break;
      case BaseWeights::nf4:
        return static_cast<double>(nf4_value(codes[i / 2] >> (i % 2 * 4) & 15)) * scales[i / nf4_block];
      case BaseWeights::int8:
        return static_cast<double>(static_cast<std::int8_t>(codes[i])) * scales[i % k.columns] / 127;
      case BaseWeights::fp8: return static_cast<double>(from_e4m3(codes[i])) * scales[0];
    }
    return 0.0;
  };
  std::vector<double> values(std::min<std::uint64_t>(tile, y.count));
  for (std::uint64_t first = 0; first < y.count; first += tile) {
    const std::uint64_t count = std::min<std::uint64_t>(tile, y.count - first);
    for (std::uint64_t i = 0; i < count; ++i) values[i] = value(first + i);
    store_elements(y.dtype, y.data, first, count, values.data());
  }
}

}  // namespace

std::span<const HostKernel> base_weight_kernels() {
  static constexpr HostKernel list[] = {
      {KernelKind::quantize_weight, quantize, quantize},
      {KernelKind::dequantize_weight, dequantize, dequantize},
  };
  return list;
}

}  // namespace orrery::cpu
