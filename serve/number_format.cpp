#include "serve/number_format.hpp"

#include <algorithm>
#include <array>

namespace orrery {

const std::vector<std::string_view>& weight_format_names() {
  static const std::vector<std::string_view> names{"bf16", "fp8", "int4", "mxfp4", "nvfp4"};
  return names;
}

std::string_view name_of(WeightFormat f) { return weight_format_names()[static_cast<std::size_t>(f)]; }

double bytes_of(WeightFormat f) {
  switch (f) {
    case WeightFormat::bf16: return 2.0;
    case WeightFormat::fp8: return 1.0 + 4.0 / (128.0 * 128.0);
    case WeightFormat::int4: return 0.5 + 2.0 / 128.0;
    case WeightFormat::mxfp4: return 0.5 + 1.0 / 32.0;
    case WeightFormat::nvfp4: return 0.5 + 1.0 / 16.0;
  }
  return 2.0;
}

bool multiplies_fp4(const DeviceSpec& d) {
  constexpr std::array<std::string_view, 6> blackwell{"B200", "B300", "GB200", "GB300", "RTX 5090", "RTX PRO 6000"};
  return std::find(blackwell.begin(), blackwell.end(), d.name) != blackwell.end();
}

ProductRate product_rate(WeightFormat f, const DeviceSpec& d) {
  const bool fp8 = d.peak.contains(Precision::fp8);
  switch (f) {
    case WeightFormat::bf16: return {};
    case WeightFormat::fp8: return fp8 ? ProductRate{DType::f8} : ProductRate{DType::bf16, 1.0, true};
    case WeightFormat::int4: return {DType::bf16, 1.0, true};
    case WeightFormat::mxfp4:
    case WeightFormat::nvfp4:
      return fp8 && multiplies_fp4(d) ? ProductRate{DType::f8, 2.0} : ProductRate{DType::bf16, 1.0, true};
  }
  return {};
}

}  // namespace orrery
