#include "tests/oracle/numerics/few_bits.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "tests/oracle/numerics/collect.hpp"

namespace orrery::test {
namespace {

// Quantiles of the normal distribution, as the QLoRA paper lists them to seven digits and bitsandbytes to all of f32.
constexpr float normal_floats[16] = {
    -1.0F,        -0.69619280F, -0.52507305F, -0.39491749F, -0.28444138F, -0.18477343F, -0.091050036F, 0.0F,
    0.079580300F, 0.16093020F,  0.24611230F,  0.33791524F,  0.44070983F,  0.56261700F,  0.72295684F,   1.0F};

double e4m3_value(int code) {
  const auto byte = static_cast<std::byte>(code);
  return element_at(&byte, DType::f8, 0);
}

/// The code below `count` whose value is nearest to x; of two the one that `prefers` takes.
int nearest(double x, int count, const std::function<double(int)>& value,
            const std::function<bool(int, int)>& prefers) {
  int best = -1;
  for (int code = 0; code < count; ++code) {
    if (std::isnan(value(code))) continue;
    const double d = std::abs(value(code) - x), least = best < 0 ? HUGE_VAL : std::abs(value(best) - x);
    if (d < least || (d == least && prefers(code, best))) best = code;
  }
  return best;
}
/// Rounds to E4M3, of two nearest to the one whose last bit is 0.
double e4m3(double x) {
  const int code = nearest(static_cast<double>(static_cast<float>(x)), 256, e4m3_value,
                           [](int a, int b) { return a % 2 == 0 && b % 2 != 0; });
  return e4m3_value(code);
}
double normal_float(double x) {
  const auto value = [](int code) { return static_cast<double>(normal_floats[code]); };
  return value(nearest(x, 16, value, [](int, int) { return false; }));
}

double as_float(double x) { return static_cast<double>(static_cast<float>(x)); }
double as_stored(double x, DType as) {
  if (as == DType::f64) return x;
  return rounded(as_float(x), as);
}
double ratio(double x, double scale) { return scale == 0.0 ? 0.0 : x / scale; }

template <class Of>
double largest_of(std::size_t first, std::size_t end, std::size_t step, Of&& of) {
  double most = 0.0;
  for (std::size_t i = first; i < end; i += step) most = std::max(most, std::abs(of(i)));
  return most;
}

/// Scales of blocks as they read back after they were stored in 8 bits.
std::vector<double> stored_twice(const std::vector<double>& scales) {
  double mean = 0.0;
  for (const double s : scales) mean += s;
  mean = as_float(mean / static_cast<double>(scales.size()));
  std::vector<double> out(scales.size());
  for (std::size_t i = 0; i < scales.size(); ++i) {
    const std::size_t first = i / 256 * 256, end = std::min(first + 256, scales.size());
    const double most = largest_of(first, end, 1, [&](std::size_t j) { return scales[j] - mean; });
    const double scale = as_float(most / 448.0);
    out[i] = as_float(mean + e4m3(ratio(scales[i] - mean, scale)) * scale);
  }
  return out;
}

}  // namespace

std::vector<double> in_few_bits(const std::vector<double>& x, const Adapters& a, std::uint64_t columns, DType as) {
  std::vector<double> out(x.size());
  const auto at = [&](std::size_t i) { return x[i]; };
  if (a.base == BaseWeights::nf4) {
    std::vector<double> exact;
    for (std::size_t first = 0; first < x.size(); first += 64) {
      exact.push_back(as_float(largest_of(first, std::min(first + 64, x.size()), 1, at)));
    }
    const std::vector<double> scales = a.double_quantization ? stored_twice(exact) : exact;
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = normal_float(ratio(x[i], exact[i / 64])) * scales[i / 64];
  } else if (a.base == BaseWeights::int8) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double scale = as_float(largest_of(i % columns, x.size(), columns, at));
      out[i] = std::nearbyint(ratio(127.0 * x[i], scale)) * scale / 127.0;
    }
  } else {
    const double scale = as_float(largest_of(0, x.size(), 1, at) / 448.0);
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = e4m3(ratio(x[i], scale)) * scale;
  }
  for (double& y : out) y = as_stored(y, as);
  return out;
}

std::vector<double> values_of(const FewBits& stored, const Adapters& a, std::uint64_t count, std::uint64_t columns,
                              DType as) {
  const auto f32 = [](std::span<const std::byte> of, std::uint64_t i) { return element_at(of.data(), DType::f32, i); };
  const auto code = [&](std::uint64_t i) { return static_cast<int>(stored.codes[i]); };
  const auto scale = [&](std::uint64_t block) {
    if (!a.double_quantization) return f32(stored.scales, block);
    // The mean, a number for each 256 scales, and a byte for each scale, which is one of 64 elements.
    const std::uint64_t scales = (count + 63) / 64, numbers = 1 + (scales + 255) / 256;
    const double of_scale = e4m3_value(static_cast<int>(stored.scales[4 * numbers + block]));
    return as_float(f32(stored.scales, 0) + of_scale * f32(stored.scales, 1 + block / 256));
  };
  std::vector<double> out(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (a.base == BaseWeights::nf4) {
      const int four = i % 2 == 0 ? code(i / 2) % 16 : code(i / 2) / 16;
      out[i] = static_cast<double>(normal_floats[four]) * scale(i / 64);
    } else if (a.base == BaseWeights::int8) {
      out[i] = (code(i) < 128 ? code(i) : code(i) - 256) * f32(stored.scales, i % columns) / 127.0;
    } else {
      out[i] = e4m3_value(code(i)) * f32(stored.scales, 0);
    }
    out[i] = as_stored(out[i], as);
  }
  return out;
}

std::uint64_t columns_of(const Program& program, const ParameterTable& table) {
  const Shard& shard = table.slices.front().shard;
  const std::uint64_t rows = shard.dims[0].extent / size(program.mesh, shard.dims[0].split);
  return local_count(shard, program.mesh) / rows;
}

void store_in_few_bits(const Program& program, const Workload& workload, ParameterSet& set) {
  const Adapters& a = *workload.adapters;
  for (const ParameterTable& table : program.parameter_tables) {
    if (!table.module.starts_with("base.")) continue;
    const ParameterSlice& slice = table.slices.front();
    const std::uint64_t count = local_count(slice.shard, program.mesh);
    for (auto& [name, tensor] : set) {
      if (!name.ends_with(slice.name) || !name.starts_with("layers.")) continue;
      const Matrix whole = tensor;
      // Ranks that hold the same part store the same.
      for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
        const Box box = box_of(slice.shard, program.mesh, Rank{r});
        std::vector<double> part(count);
        for (std::uint64_t i = 0; i < count; ++i) part[i] = whole.values[*place_of(slice.shard, box, i)];
        part = in_few_bits(part, a, columns_of(program, table), weight_dtype(workload));
        for (std::uint64_t i = 0; i < count; ++i) tensor.values[*place_of(slice.shard, box, i)] = part[i];
      }
    }
  }
}

}  // namespace orrery::test
