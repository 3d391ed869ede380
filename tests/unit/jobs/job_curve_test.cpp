#include <catch2/catch.hpp>

#include "jobs/job_curve.hpp"

using namespace orrery;

namespace {

ClusterJob job_on(std::uint32_t gpus) {
  ClusterJob out;
  out.gpus = gpus;
  out.training = JobTraining{"tiny", 8, 128, 100};
  return out;
}

}  // namespace

TEST_CASE("a curve has no point that is no faster than fewer GPUs", "[unit][jobs]") {
  ClusterJob job = job_on(4);
  REQUIRE(set_curve(job, {{1, 4.0, {}}, {2, 2.0, {}}, {4, 1.0, {}}, {8, 1.1, {}}, {16, 0.5, {}}}));
  CHECK(job.run == 100 * microseconds_per_second);
  CHECK(job.speeds == std::vector<JobSpeed>{{1, 2500}, {2, 5000}, {4, 10000}, {16, 20000}});
}

TEST_CASE("a job holds its own GPUs at the shortest step up to them", "[unit][jobs]") {
  ClusterJob job = job_on(4);
  REQUIRE(set_curve(job, {{2, 1.0, {}}, {4, 1.5, {}}, {8, 0.8, {}}}));
  CHECK(job.run == 100 * microseconds_per_second);
  CHECK(job.speeds == std::vector<JobSpeed>{{2, 10000}, {4, 10000}, {8, 12500}});
  REQUIRE(set_curve(job, {{2, 1.0, {}}, {8, 0.8, {}}}));  // no plan on 4
  CHECK(job.speeds == std::vector<JobSpeed>{{2, 10000}, {4, 10000}, {8, 12500}});
  CHECK(!set_curve(job, {{8, 0.8, {}}}));
  CHECK(!set_curve(job, {{4, 1e9, {}}}));  // three years and more
}

TEST_CASE("counts that are tried", "[unit][jobs]") {
  CHECK(tried_counts(6, 8, 64) == std::vector<std::uint32_t>{1, 2, 4, 6, 8, 16, 24, 32, 48, 64});
  CHECK(tried_counts(3, 4, 4) == std::vector<std::uint32_t>{1, 2, 3, 4});
}
