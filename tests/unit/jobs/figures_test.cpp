#include <catch2/catch.hpp>

#include "jobs/job_figures.hpp"
#include "jobs/philly_like.hpp"
#include "tests/unit/jobs/job_examples.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("figures of two jobs on one GPU", "[unit][jobs]") {
  // a: 0 to 10. b: submitted at 2, runs 10 to 14.
  const JobWorkload w = workload_of({{0, 10, 1}, {2, 4, 1}});
  const JobFigures f = job_figures(w, played(w, "fifo", {1}));
  CHECK(f.mean_completion == 11.0);  // 10 and 12
  CHECK(f.median_completion == 11.0);
  CHECK(f.p99_completion == 12.0);
  CHECK(f.weighted_completion == Approx((10.0 * 10 + 12.0 * 4) / 14).epsilon(1e-12));
  CHECK(f.mean_queue == 4.0);
  CHECK(f.makespan == 14.0);
  CHECK(f.gpu_time == 14.0);
  CHECK(f.utilization == 1.0);
  CHECK(f.mean_crowd == Approx((2.0 * 1 + 8 * 2 + 4 * 1) / 14).epsilon(1e-12));
  CHECK(f.most_crowd == 2);
  // a: (2 + 8 x 2) / 10 = 1.8 jobs wanted GPUs, so its time alone on 1 / 1.8 GPU is 18 s. b: (8 x 2 + 4) / 12 = 5/3,
  // 4 x 5/3 = 20/3 s alone, 12 s here.
  CHECK(f.worst_fairness == Approx(1.8).epsilon(1e-12));
  CHECK(f.mean_fairness == Approx((10.0 / 18 + 1.8) / 2).epsilon(1e-12));
  CHECK(f.unfair == 0.5);
}

TEST_CASE("a job that wants less than its share is compared with its own run", "[unit][jobs]") {
  std::vector<ClusterJob> jobs = workload_of({{0, 10, 1}, {0, 10, 8}, {0, 0, 8}}).jobs;
  CHECK(finish_time_fairness(20, jobs[0], 2, 8) == 2.0);  // share 4
  CHECK(finish_time_fairness(20, jobs[1], 2, 8) == 1.0);  // share 4 of 8: alone 20 s
  CHECK(finish_time_fairness(5, jobs[2], 2, 8) == 1.0);
  // An elastic job takes the best of its share of 4: half its speed on 8, so 20 s; with a share of 1, 10 / 0.2 s x 2.
  jobs[1].speeds = {{2, 2000}, {4, 5000}, {8, 10000}};
  CHECK(finish_time_fairness(20, jobs[1], 2, 8) == 1.0);
  CHECK(finish_time_fairness(20, jobs[1], 8, 8) == 0.2);
}

TEST_CASE("the last end is that of jobs one by one, each as slowly as it can", "[unit][jobs]") {
  JobWorkload w = workload_of({{0, 10, 1}, {2, 4, 2}});
  w.jobs[1].speeds = {{1, 2500}, {2, 10000}, {4, 15000}};
  JobCosts costs;
  costs.scattered_speed = full_speed / 2;
  CHECK(last_end_s(w, costs) == Approx(2 + 10 * 2 + 4 * 4 * 2));
  CHECK(last_end_s({}, costs) == 0.0);
}

TEST_CASE("no job has figures of zero, and the 99th percentile of 100 jobs is the 99th", "[unit][jobs]") {
  CHECK(job_figures({}, {}).mean_completion == 0.0);
  std::vector<ShortJob> jobs;
  for (std::int64_t j = 1; j <= 100; ++j) jobs.push_back({0, j, 1});
  const JobWorkload w = workload_of(jobs);
  CHECK(job_figures(w, played(w, "fifo", {100})).p99_completion == 99.0);
}

TEST_CASE("philly-like jobs have the trace's shares, and depend on the seed alone", "[unit][jobs]") {
  const JobWorkload w = philly_like(50'000, 3);
  CHECK(w == philly_like(50'000, 3));
  CHECK(!(w == philly_like(50'000, 4)));
  std::size_t one = 0, below_median = 0;
  for (std::size_t j = 0; j < w.jobs.size(); ++j) {
    if (j > 0) REQUIRE(w.jobs[j].submit >= w.jobs[j - 1].submit);
    if (w.jobs[j].gpus != 1) continue;
    ++one;
    below_median += w.jobs[j].run < 1117 * microseconds_per_second ? 1 : 0;
  }
  // Five standard deviations of a binomial share: 5 sqrt(p (1 - p) / n) is 0.0057 and 0.0116.
  CHECK(static_cast<double>(one) / 50'000 == Approx(76627.0 / 82247).margin(0.0057));
  CHECK(static_cast<double>(below_median) / static_cast<double>(one) == Approx(0.5).margin(0.0116));
  // The last of n submissions is at n x 114.396 s, give or take 5 / sqrt(n) of it.
  CHECK(seconds_of(w.jobs.back().submit) == Approx(50'000 * 114.396).epsilon(0.0224));
}
