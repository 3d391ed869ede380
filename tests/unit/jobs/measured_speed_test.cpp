#include <catch2/catch.hpp>

#include "jobs/job_workload_file.hpp"
#include "jobs/measured_speed.hpp"
#include "tests/support/program_run.hpp"

// Tables that are written here. Nodes have 2 GPUs; the least batch is 8, the largest 16.

using namespace orrery;
using namespace orrery::test;

namespace {

class Tables {
 public:
  explicit Tables(const std::string& gradients) {
    std::filesystem::create_directory(folder_.file("app"));
    put("placements-x.csv",
        "placement,local_bsz,step_time,sync_time\n1,4,1.0,0\n1,8,2.0,0\n2,8,2.2,0.2\n2,4,1.2,0.2\n11,4,9,9\n22,2,1.0,0."
        "5\n"
        "22,4,1.6,0.6\n12,4,1.7,0.5\n");
    put("scalability-x.csv",
        "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,8,2,2.0,1.5\n4,8,4,2.6,1.6\n4,5,2,9,9\n");
    for (const char* batch : {"8", "16"}) {
      put(std::string("validation-") + batch + ".csv", "progress,iteration,metric,grad_sqr,grad_var\n" + gradients);
    }
  }
  void put(const std::string& name, const std::string& text) { write(folder_.file("app/" + name), text); }
  [[nodiscard]] std::string folder() const { return folder_.file(""); }

  [[nodiscard]] MeasuredJob read() const {
    Diagnostics d;
    const auto job = read_measured_job(folder_.file("app"), "x", d);
    INFO(render(d));
    REQUIRE(job);
    return *job;
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("without noise the time is that of the fastest step", "[unit][jobs]") {
  const MeasuredJob job = Tables("50,50,1,1,0\n100,100,1,3,0\n").read();
  CHECK(job.node_gpus == 2);
  // 100 steps of the least batch: 8 on one GPU, 4 on each of two, 2 on each of four. Larger batches make no progress.
  CHECK(*measured_time(job, 1) == Approx(200.0));
  CHECK(*measured_time(job, 2) == Approx(120.0));
  CHECK(*measured_time(job, 4) == Approx(100.0));
  CHECK(*measured_time(job, 8) == Approx(200.0));  // 2 on each is the least: a batch of 16
  CHECK(*measured_time(job, 6) == Approx(150.0));  // half way from 2 to 4 nodes
  CHECK(!measured_time(job, 10));                  // beyond what was measured
  CHECK(!measured_time(job, 5));
}

TEST_CASE("with noise alone a batch of twice the size is worth two steps", "[unit][jobs]") {
  const MeasuredJob job = Tables("100,100,1,0,2\n").read();
  // One GPU: 16 at once is more than was measured, so two of 8 are accumulated: 4 s for two steps.
  CHECK(*measured_time(job, 1) == Approx(200.0));
  CHECK(*measured_time(job, 2) == Approx(110.0));  // 8 on each: 2.2 s for two steps
  CHECK(*measured_time(job, 4) == Approx(80.0));   // 4 on each: 1.6 s for two steps
}

TEST_CASE("noise and gradient of one size make a doubled batch worth 4 / 3 steps", "[unit][jobs]") {
  // (v + q) / (v / 2 + q) = 2 / 1.5
  const MeasuredJob job = Tables("100,100,1,1,1\n").read();
  CHECK(*measured_time(job, 4) == Approx(100.0));                // 1.0 s a step; 1.6 / (4 / 3) is more
  CHECK(*measured_time(job, 8) == Approx(200.0 / (4.0 / 3.0)));  // only 16 is possible
}

TEST_CASE("a job of Sia's form gets its run, speeds and restarts", "[unit][jobs]") {
  const Tables tables("100,100,1,1,0\n");
  Diagnostics d;
  auto w = parse_job_workload(
      "name,time,application,num_replicas,batch_size\na,5,app,2,8\nb,6,other/..,2,8\nc,7,app,5,8\n", "jobs.csv", d);
  REQUIRE(w);
  CHECK(w->format == "sia");
  add_measured_speeds(*w, tables.folder(), "x", 7, d);
  REQUIRE(d.empty());
  REQUIRE(w->jobs.size() == 1);
  CHECK(w->jobs[0].run == 120 * microseconds_per_second);
  CHECK(w->jobs[0].speeds == std::vector<JobSpeed>{{1, 6000}, {2, 10000}, {4, 12000}, {6, 8000}});
  CHECK(w->jobs[0].startup == 30 * microseconds_per_second);
  CHECK(w->doubts.size() == 2);
}

TEST_CASE("jobs.tables: tables that are missing or broken", "[error][jobs]") {
  Tables tables("100,100,1,1,0\n");
  const auto refusal = [&](const std::string& type) {
    Diagnostics d;
    CHECK(!read_measured_job(tables.folder() + "/app", type, d));
    return render(d);
  };
  CHECK(refusal("y").find("[file.open]") != std::string::npos);
  tables.put("scalability-x.csv", "num_nodes,num_replicas\n");
  CHECK(refusal("x").find("the column local_bsz is missing [jobs.tables]") != std::string::npos);
  tables.put("scalability-x.csv", "num_nodes,num_replicas,local_bsz,step_time,sync_time\n1,2,-4,1,1\n");
  CHECK(refusal("x").find("scalability-x.csv:2:1: error: local_bsz is no number [jobs.tables]") != std::string::npos);
}
