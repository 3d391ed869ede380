#pragma once

#include "core/program/base_weights.hpp"
#include "exec/kernels/device/launcher.hpp"
#include "exec/kernels/nf4.hpp"

/// Frozen matrices in few bits become numbers again (core/program/base_weights.hpp). All arithmetic is in f64, as on
/// the host, so that both give the same bits. A run makes the few bits once, on the host.
namespace orrery::device {

struct Dequantize {
  const std::uint8_t* codes;
  const float* scales;               ///< or the numbers in front of scales in 8 bits
  const std::uint8_t* short_scales;  ///< null where scales are in f32
  Elements y;
  BaseWeights base;
  std::uint64_t columns;
  float values[16];  ///< of nf4
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    switch (base) {
      case BaseWeights::unquantized: return;
      case BaseWeights::nf4:
        y.store(i, static_cast<double>(values[codes[i / 2] >> (i % 2 * 4) & 15]) * scale(i / nf4_block));
        return;
      case BaseWeights::int8:
        y.store(i, static_cast<double>(static_cast<std::int8_t>(codes[i])) * scale(i % columns) / 127);
        return;
      case BaseWeights::fp8: y.store(i, static_cast<double>(from_e4m3(codes[i])) * scale(0)); return;
    }
  }
  [[nodiscard]] ORRERY_ON_DEVICE double scale(std::uint64_t i) const {
    if (short_scales == nullptr) return static_cast<double>(scales[i]);
    const double off =
        static_cast<double>(from_e4m3(short_scales[i])) * static_cast<double>(scales[1 + i / scale_block]);
    return static_cast<double>(static_cast<float>(static_cast<double>(scales[0]) + off));
  }
};

template <class T, class Launcher>
bool run_base_weights(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext&) {
  if (k.kind != KernelKind::dequantize_weight) return false;
  const auto* scales = static_cast<const std::uint8_t*>(o[N::scales].data);
  const std::uint64_t blocks = (k.rows * k.columns + nf4_block - 1) / nf4_block;
  Dequantize f{static_cast<const std::uint8_t*>(o[N::codes].data),
               reinterpret_cast<const float*>(scales),
               k.options.scaled ? scales + 4 * scale_numbers(blocks) : nullptr,
               Elements(o[N::y]),
               static_cast<BaseWeights>(k.site),
               k.columns,
               {}};
  std::copy(nf4_values.begin(), nf4_values.end(), f.values);
  for_each(l, k.rows * k.columns, f);
  return true;
}

}  // namespace orrery::device
