// Products in fp8, as a GPU makes them, against rounding by search among the
// published values of both formats and sums in double.

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "exec/kernels/device/device_kernels.hpp"
#include "exec/kernels/device/host_launcher.hpp"
#include "tests/support/device_under_test.hpp"
#include "tests/unit/exec/device_compare.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

/// Magnitudes of a format with this many fraction bits, least first: (1 + f) 2^(e - bias), subnormals f 2^(1 - bias).
std::vector<double> magnitudes(int fraction, int bias, double largest) {
  std::vector<double> all;
  for (int code = 0;; ++code) {
    const int exponent = code >> fraction, f = code & ((1 << fraction) - 1);
    const double x = exponent == 0 ? std::ldexp(f, 1 - bias - fraction)
                                   : std::ldexp((1 << fraction) + f, exponent - bias - fraction);
    if (x > largest) return all;
    all.push_back(x);
  }
}

double rounded(const std::vector<double>& all, double x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const double d = std::abs(std::abs(x) - all[i]), before = std::abs(std::abs(x) - all[best]);
    if (d < before || (d == before && i % 2 == 0)) best = i;
  }
  return x < 0 ? -all[best] : all[best];
}

/// The values that stand for the elements of the matrix.
std::vector<double> in_eight_bits(const Memory& x, bool gradient) {
  const double largest = gradient ? 57344.0 : 448.0;
  const std::vector<double> all = gradient ? magnitudes(2, 15, largest) : magnitudes(3, 7, largest);
  double most = 0.0;
  for (std::uint64_t i = 0; i < x.count(); ++i) most = std::max(most, std::abs(x[i]));
  const float scale = most > 0.0 ? static_cast<float>(most) / static_cast<float>(largest) : 1.0F;
  std::vector<double> out;
  // The quotient is an f32, too.
  for (std::uint64_t i = 0; i < x.count(); ++i) {
    out.push_back(static_cast<double>(scale) * rounded(all, static_cast<double>(static_cast<float>(x[i]) / scale)));
  }
  return out;
}

Memory product(const Kernel& k, const Memories& m, bool add) {
  const std::vector<double> a = in_eight_bits(m[0], k.pass == Pass::input_gradient);
  const std::vector<double> b = in_eight_bits(m[1], k.pass == Pass::weight_gradient);
  Memory c = m[2];
  for (std::uint64_t row = 0; row < k.rows; ++row) {
    for (std::uint64_t column = 0; column < k.columns; ++column) {
      double sum = add ? m[2][row * k.columns + column] : 0.0;
      for (std::uint64_t d = 0; d < k.depth; ++d) {
        sum += a[k.options.transpose_a ? d * k.rows + row : row * k.depth + d] *
               b[k.options.transpose_b ? column * k.depth + d : d * k.columns + column];
      }
      if (k.options.bias) sum += m[3][column];
      c.set(row * k.columns + column, sum);
    }
  }
  return c;
}

}  // namespace

// Forward x W (+ bias), dx = dy W^T, dW += x^T dy. One element is far above the others, so its matrix' scale is coarse.
TEST_CASE("products in fp8 round each factor to its format by its largest element", "[gpu-bodies][fp8]") {
  Device* const gpu = test::gpu_under_test();
  if (gpu != nullptr && !gpu->info().fp8) return;  // it makes them in bf16
  for (const bool outlier : {false, true}) {
    for (const Pass pass : {Pass::forward, Pass::input_gradient, Pass::weight_gradient}) {
      Kernel k = kernel(KernelKind::gemm, DType::f8, 48, 80, 112);
      k.pass = pass;
      k.options.bias = pass == Pass::forward;
      k.options.transpose_a = pass == Pass::weight_gradient;
      k.options.transpose_b = pass == Pass::input_gradient;
      const bool add = pass == Pass::weight_gradient;
      const DType result = add ? DType::f32 : DType::bf16;
      Memories m{values(DType::bf16, 48 * 112, 1), values(DType::bf16, 112 * 80, 2), values(result, 48 * 80, 3)};
      if (k.options.bias) m.push_back(values(DType::bf16, 80, 4));
      if (outlier) m[0].set(77, 3e4);
      if (outlier) m[1].set(5, -1e-4);
      Case c{k, m, {false, false, add}, {}};
      const Memory expected = product(k, m, add);
      KernelContext context;
      CAPTURE(outlier, index(pass));
      if (gpu != nullptr) {
        run_on(*gpu, c, m, context);
        CHECK(error(m[2], expected) < 0.01);  // sums in tensor cores have fewer digits than f32
        continue;
      }
      for (const std::uint32_t threads : {1U, 3U}) {
        Memories got = m;
        device::HostLauncher launcher(threads, 5, true);
        device::launch_kernel<float>(launcher, k, operands_of(c, got), context);
        CHECK(error(got[2], expected) <= 2 * tolerance(result));
        // The rounding shows: f32 sums of the factors themselves give another result.
        Kernel plain = k;
        plain.compute = DType::bf16;
        Memories whole = m;
        device::launch_kernel<float>(launcher, plain, operands_of(c, whole), context);
        CHECK(error(whole[2], expected) > 1e-3);
      }
    }
  }
}

TEST_CASE("products in fp8 whose sizes are no multiples of 16, and matrices of zeros, come out", "[gpu-bodies][fp8]") {
  if (test::gpu_under_test() != nullptr) return;
  Kernel k = kernel(KernelKind::gemm, DType::f8, 16, 16, 24);
  Case c{k, {values(DType::bf16, 16 * 24, 1), values(DType::bf16, 24 * 16, 2), zeros(DType::f32, 256)}, {}, {}};
  Memories odd = c.memories, plain = c.memories;
  device::HostLauncher eight(1, 5, true), none(1, 5);
  device::launch_kernel<float>(eight, k, operands_of(c, odd), {});
  device::launch_kernel<float>(none, k, operands_of(c, plain), {});
  CHECK(odd[2] == plain[2]);
  k.depth = 32;
  Case nothing{k, {zeros(DType::bf16, 16 * 32), values(DType::bf16, 32 * 16, 2), values(DType::f32, 256, 3)}, {}, {}};
  Memories zero = nothing.memories;
  device::launch_kernel<float>(eight, k, operands_of(nothing, zero), {});
  CHECK(zero[2] == zeros(DType::f32, 256));
}

TEST_CASE("an infinite element of a factor in fp8 makes a NaN", "[gpu-bodies][fp8]") {
  if (test::gpu_under_test() != nullptr) return;
  const Kernel k = kernel(KernelKind::gemm, DType::f8, 16, 16, 16);
  Memory a = values(DType::bf16, 256, 1);
  a.set(17, std::numeric_limits<double>::infinity());
  Case c{k, {a, values(DType::bf16, 256, 2), zeros(DType::f32, 256)}, {}, {}};
  Memories m = c.memories;
  device::HostLauncher eight(1, 5, true);
  device::launch_kernel<float>(eight, k, operands_of(c, m), {});
  CHECK(std::isnan(m[2][16]));  // its row
}
