#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// How served weights are stored, and what multiplies them.
///   bf16    two bytes
///   fp8     E4M3, a scale for each block of 128 x 128
///   int4    four bits and a 16-bit scale for each 128 weights of a column; multiplied in bf16 (weights only)
///   mxfp4   E2M1 and an 8-bit scale for each 32 weights (OCP Microscaling Formats 1.0, 2023)
///   nvfp4   E2M1 and an 8-bit scale for each 16 weights
enum class WeightFormat : std::uint8_t { bf16, fp8, int4, mxfp4, nvfp4 };

/// The names of files and flags, in the order of the enumeration.
[[nodiscard]] const std::vector<std::string_view>& weight_format_names();
[[nodiscard]] std::string_view name_of(WeightFormat);

/// Bytes of one weight with its share of the scales:
///
///     bf16 2    fp8 1 + 4/128^2    int4 0.5 + 2/128    mxfp4 0.5 + 1/32    nvfp4 0.5 + 1/16
///
/// Source: the formats above; scales of fp8 blocks are fp32 (DeepSeek-V3, 2024, section 3.3.2).
[[nodiscard]] double bytes_of(WeightFormat);

/// What a product of these weights runs in on a device.
struct ProductRate {
  DType compute = DType::bf16;  ///< type whose peak and tiles hold
  double over = 1.0;            ///< peak of the product over that type's peak
  bool unpacked = false;        ///< weights are widened before they are multiplied: the device has no such product
};

/// fp8 where the device states an fp8 peak, four-bit floats where it multiplies them, else bf16 with widened weights.
/// Devices that multiply four-bit floats do so at twice the rate of fp8 (NVIDIA DGX B200 datasheet, 2024: 144 PFLOP/s
/// in FP4 with sparsity, 72 in FP8; unverified, as recalled). Leaves out: that B300 and GB300 do so at more.
[[nodiscard]] ProductRate product_rate(WeightFormat, const DeviceSpec&);
/// Whether the device multiplies four-bit floats: NVIDIA's since Blackwell.
[[nodiscard]] bool multiplies_fp4(const DeviceSpec&);

}  // namespace orrery
