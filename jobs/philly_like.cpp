#include "jobs/philly_like.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/random.hpp"

namespace orrery {
namespace {

struct Size {
  std::uint32_t gpus;
  std::uint32_t jobs;
};
constexpr std::array sizes = {Size{1, 76627}, Size{4, 1870}, Size{2, 1818}, Size{8, 1643}, Size{16, 199},
                              Size{32, 67},   Size{12, 7},   Size{24, 7},   Size{64, 6},   Size{128, 3}};
constexpr std::uint32_t all_jobs = 82247;
constexpr double seconds_between = 114.396;  // 109 days over all jobs

constexpr std::array shares = {0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0};
using Quantiles = std::array<double, shares.size()>;  // seconds
constexpr Quantiles one_gpu = {1.0,    62.0,   76.0,   215.0,   600.0,    1117.0,   1728.0,
                               2464.0, 3754.0, 8512.0, 19137.0, 135404.0, 868927.0, 3256045.0};
constexpr Quantiles more_gpus = {1.0,     17.0,     25.0,     110.0,    541.0,    4584.0,    18376.0,
                                 54477.0, 113306.0, 209130.0, 365406.0, 906798.0, 2582803.0, 4628226.0};

std::uint32_t gpus_of(double uniform) {
  double left = uniform * all_jobs;
  for (const Size& size : sizes) {
    left -= size.jobs;
    if (left < 0.0) return size.gpus;
  }
  return sizes.back().gpus;
}

/// The run at a share of the distribution: straight between the quantiles in the logarithm.
double run_of(double uniform, const Quantiles& quantiles) {
  const auto above = std::upper_bound(shares.begin() + 1, shares.end() - 1, uniform);
  const auto i = static_cast<std::size_t>(above - shares.begin());
  const double along = (uniform - shares[i - 1]) / (shares[i] - shares[i - 1]);
  return std::exp(std::lerp(std::log(quantiles[i - 1]), std::log(quantiles[i]), along));
}

Microseconds whole_seconds(double seconds) { return std::llround(seconds) * microseconds_per_second; }

}  // namespace

JobWorkload philly_like(std::uint32_t count, std::uint64_t seed) {
  JobWorkload out;
  out.format = "philly-like";
  double submit = 0.0;
  for (std::uint32_t j = 0; j < count; ++j) {
    const auto uniform = [&](const char* what) { return random_uniform(seed, stream_of(what), j); };
    ClusterJob job;
    job.name = fmt::format("job-{}", j);
    job.submit = whole_seconds(submit);
    job.gpus = gpus_of(uniform("gpus"));
    job.run = whole_seconds(run_of(uniform("run"), job.gpus == 1 ? one_gpu : more_gpus));
    out.jobs.push_back(std::move(job));
    submit -= seconds_between * std::log1p(-uniform("between"));
  }
  return out;
}

}  // namespace orrery
