#include <catch2/catch.hpp>

#include "jobs/job_workload_file.hpp"
#include "jobs/recorded_time.hpp"

using namespace orrery;

namespace {

JobWorkload read(const std::string& text) {
  Diagnostics d;
  const auto w = parse_job_workload(text, "jobs.csv", d);
  INFO(render(d));
  REQUIRE(w);
  return *w;
}

std::string refusal(const std::string& text) {
  Diagnostics d;
  CHECK(!parse_job_workload(text, "jobs.csv", d));
  return render(d);
}

/// "3:never started" for each doubt; one that is not left out ends in '?'.
std::vector<std::string> doubts(const JobWorkload& w) {
  std::vector<std::string> out;
  for (const DoubtfulRow& r : w.doubts)
    out.push_back(std::to_string(r.at.line) + ":" + r.why + (r.left_out ? "" : "?"));
  return out;
}

/// "name gpus submit run" in seconds.
std::vector<std::string> jobs(const JobWorkload& w) {
  std::vector<std::string> out;
  for (const ClusterJob& j : w.jobs) {
    out.push_back(j.name + " " + std::to_string(j.gpus) + " " + std::to_string(j.submit / microseconds_per_second) +
                  " " + std::to_string(j.run / microseconds_per_second));
  }
  return out;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("times of tables are exact to the microsecond", "[unit][jobs]") {
  CHECK(seconds_in("487.661836") == 487'661'836);
  CHECK(seconds_in("0.1") == 100'000);
  CHECK(seconds_in(".5") == 500'000);
  CHECK(seconds_in("66.") == 66'000'000);
  CHECK(seconds_in("0.0000005") == 1);
  CHECK(seconds_in("0.9999999") == 1'000'000);
  CHECK(seconds_in("-3") == -3'000'000);
  CHECK(seconds_in("100000000") == longest_time);
  for (const char* wrong : {"", "-", ".", "1e3", "nan", "1 ", "1.x", "100000001", "99999999999999999999"}) {
    CAPTURE(wrong);
    CHECK(!seconds_in(wrong));
  }
}

TEST_CASE("dates have fractions and zones, and must exist", "[unit][jobs]") {
  CHECK(date_in("1970-01-02 00:00:01") == 86'401'000'000);
  CHECK(date_in("1970-01-01T00:00:00.25Z") == 250'000);
  CHECK(date_in("1970-01-01 08:00:00+08:00") == 0);
  CHECK(date_in("1970-01-01 00:00:00-0130") == 5'400'000'000);
  CHECK(*date_in("2024-03-01 00:00:00") - *date_in("2024-02-28 00:00:00") == 2 * 86'400'000'000);  // a leap year
  for (const char* wrong : {"", "None", "Unknown", "2023-02-30 00:00:00", "2023-1-1 00:00:00", "2023-01-01",
                            "2023-01-01 24:00:00", "2023-01-01 00:00:00 x"}) {
    CAPTURE(wrong);
    CHECK(!date_in(wrong));
  }
}

TEST_CASE("a table of Tiresias", "[unit][jobs]") {
  const JobWorkload w = read(
      "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"
      "7,4,60,10,vgg,30,5\n8,1,5,10,vgg,12.5,5\n9,x,5,10,vgg,12,5\n10,0,5,10,vgg,12,5\n11,1,5,10,vgg\n12,1,-5,1,v,1,"
      "1\n");
  CHECK(w.format == "tiresias");
  CHECK(jobs(w) == Texts{"8 1 5 12", "7 4 60 30"});
  CHECK(w.jobs[0].run == 12'500'000);
  CHECK(doubts(w) == Texts{"4:has no whole number of GPUs", "5:uses no GPU",
                           "6:has another number of cells than the first line", "7:submit_time is no time"});
}

TEST_CASE("a table of Philly counts from its first submission", "[unit][jobs]") {
  const JobWorkload w = read(
      "timestamp,duration,num_gpus,gpu_time,cluster\n"
      "2017-10-09 07:01:55,66.0,2,132.0,abc\n2017-10-09 07:00:55,10.0,1,10.0,abc\n2017-10-09 07:01:00,10.0,2,10.0,d\n");
  CHECK(w.format == "philly");
  CHECK(jobs(w) == Texts{"abc:3 1 0 10", "d:4 2 5 10", "abc:2 2 60 66"});
  CHECK(doubts(w) == Texts{"4:gpu_time is not duration x num_gpus; the duration counts?"});
}

TEST_CASE("a table of Helios or Acme keeps failed and cancelled jobs to their ends", "[unit][jobs]") {
  const std::string header =
      "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n";
  const JobWorkload w = read(header +
                             "a,u,8,8,1,COMPLETED,2020-01-01 00:00:00,2020-01-01 00:00:10,2020-01-01 00:01:10,60,10\n"
                             "b,u,8,8,1,FAILED,2020-01-01 00:00:02,2020-01-01 00:00:10,2020-01-01 00:00:40,38,8\n"
                             "c,u,1,8,1,CANCELLED,2020-01-01 00:00:03,2020-01-01 00:00:10,2020-01-01 00:00:15,5,7\n"
                             "d,u,0,8,1,COMPLETED,2020-01-01 00:00:03,2020-01-01 00:00:10,2020-01-01 00:00:15,5,7\n"
                             "e,u,1,8,1,CANCELLED,2020-01-01 00:00:03,,2020-01-01 00:00:15,5,7\n"
                             "f,u,1,8,1,ODD,2020-01-01 00:00:03,2020-01-01 00:00:10,2020-01-01 00:00:15,5,7\n"
                             "g,u,1,8,1,FAILED,2020-01-01 00:00:03,2020-01-01 00:00:10,2020-01-01 00:00:05,5,7\n");
  CHECK(jobs(w) == Texts{"a 8 0 60", "b 8 2 30", "c 1 3 5", "f 1 3 5"});
  CHECK(w.jobs[1].end == JobEnd::failed);
  CHECK(w.jobs[2].end == JobEnd::cancelled);
  CHECK(doubts(w) == Texts{"3:duration is not end_time - start_time; the times count?", "5:uses no GPU",
                           "6:never started", "7:has a state that is not known; it counts as failed?",
                           "8:ends before it starts"});
}

TEST_CASE("what sacct -P prints", "[unit][jobs]") {
  const JobWorkload w = read(
      "JobID|Submit|Start|End|AllocTRES|State|JobName\n"
      "10|2023-03-01T00:00:00|2023-03-01T00:00:05|2023-03-01T01:00:05|billing=8,cpu=8,gres/"
      "gpu=4,mem=64G,node=1|COMPLETED|a \"b\n"
      "10.batch|2023-03-01T00:00:05|2023-03-01T00:00:05|2023-03-01T01:00:05|cpu=8,gres/gpu=4|COMPLETED|batch\n"
      "11_3|2023-03-01T00:00:10|2023-03-01T00:00:12|2023-03-01T00:00:22|cpu=8,gres/gpu:a100=2,gres/"
      "gpu:h100=1|CANCELLED by 77|x\n"
      "12|2023-03-01T00:00:10|2023-03-01T00:00:12|2023-03-01T00:00:22|cpu=8,mem=1G|COMPLETED|x\n"
      "13|2023-03-01T00:00:10|Unknown|Unknown|gres/gpu=8|PENDING|x\n"
      "14|2023-03-01T00:00:10|2023-03-01T00:00:12|Unknown|gres/gpu=8|RUNNING|x\n"
      "15|2023-03-01T00:00:20|2023-03-01T00:00:20|2023-03-01T00:00:20|gres/gpu=8|OUT_OF_MEMORY|x\n");
  CHECK(w.format == "slurm");
  CHECK(jobs(w) == Texts{"10 4 0 3600", "11_3 3 10 10", "15 8 20 0"});
  CHECK(w.jobs[1].end == JobEnd::cancelled);
  CHECK(w.jobs[2].end == JobEnd::failed);
  CHECK(doubts(w) ==
        Texts{"3:is a step of a job, which has its own row", "5:uses no GPU", "6:never started", "7:has no end"});
}

TEST_CASE("what an older sacct prints has generic resources for each node", "[unit][jobs]") {
  const JobWorkload w = read(
      "JobID|Submit|Start|End|State|AllocGRES|NNodes\n1|1600000000|1600000005|1600000015|COMPLETED|gpu:v100:4|2\n"
      "2|1600000002|1600000005|1600000015|COMPLETED|gpu:3,craynetwork:1|1\n");
  CHECK(jobs(w) == Texts{"1 8 0 10", "2 3 2 10"});
}

TEST_CASE("Orrery's own workload", "[unit][jobs]") {
  const JobWorkload w = read(
      "# two jobs\nschema = 1\n"
      "[[job]]\nname = \"late\"\nsubmit = \"1 min\"\nrun = \"2 h\"\ngpus = 8\n"
      "[[job]]\nname = \"early\"\nsubmit = \"0 s\"\nrun = \"0.5 s\"\ngpus = 1\nend = \"failed\"\n");
  CHECK(jobs(w) == Texts{"early 1 0 0", "late 8 60 7200"});
  CHECK(w.jobs[0].run == 500'000);
  CHECK(w.jobs[0].end == JobEnd::failed);
}

TEST_CASE("speeds of an elastic job are parts of that on its own GPUs", "[unit][jobs]") {
  const std::string job = "schema = 1\n[[job]]\nname = \"a\"\nsubmit = \"0 s\"\nrun = \"1 h\"\ngpus = 4\n";
  const JobWorkload w = read(job + "speed_gpus = [1, 4, 8]\nspeeds = [2.0, 6.0, 9.0]\n");
  CHECK(w.jobs[0].speeds == std::vector<JobSpeed>{{1, 3333}, {4, 10000}, {8, 15000}});
  CHECK(refusal(job + "speed_gpus = [1, 4]\nspeeds = [2.0]\n").find("have different lengths [jobs.speeds]") !=
        std::string::npos);
  CHECK(refusal(job + "speed_gpus = [1, 8]\nspeeds = [2.0, 3.0]\n").find("the job's gpus among them [jobs.speeds]") !=
        std::string::npos);
  CHECK(refusal(job + "speed_gpus = [1, 4]\nspeeds = [1e-9, 3.0]\n").find("out of proportion [jobs.speeds]") !=
        std::string::npos);
  CHECK(refusal(job + "speeds = [1.0]\n").find("[file.missing-key]") != std::string::npos);
}

TEST_CASE("a file of no known form, or without jobs, is refused", "[error][jobs]") {
  CHECK(refusal("a,b\n1,2\n").find("the first line names the columns of no known workload [jobs.form]") !=
        std::string::npos);
  CHECK(refusal("num_gpu,submit_time\n1,2\n").find("the column duration is missing [jobs.column]") !=
        std::string::npos);
  CHECK(refusal("num_gpu,submit_time,duration\n0,2,3\n")
            .find("none of 1 rows is a job that ran on GPUs [jobs.none]\n    1 | num_gpu,submit_time,duration\n      | "
                  "^\n  Line 2: uses no GPU.") != std::string::npos);
  CHECK(refusal("").find("the file is empty [jobs.none]") != std::string::npos);
  CHECK(refusal("schema = 1\n").find("[file.missing-key]") != std::string::npos);
}

TEST_CASE("a wrong date costs its row, not all others", "[unit][jobs]") {
  const std::string header = "timestamp,duration,num_gpus\n";
  const std::string good = "2017-10-09 07:00:00,10,1\n2017-10-09 07:00:05,10,1\n2017-10-09 07:00:09,10,1\n";
  const std::string old = "1970-01-01 00:00:00,10,1\n", late = "2071-10-09 07:00:00,10,1\n";
  const JobWorkload w = read(header + old + good + late);
  CHECK(jobs(w) == Texts{"line 3 1 0 10", "line 4 1 5 10", "line 5 1 9 10"});
  CHECK(doubts(w) == Texts{"2:was submitted more than three years from most others",
                           "6:was submitted more than three years from most others"});
  CHECK(refusal(header + old + late).find("no three years hold more than half of the jobs [jobs.dates]") !=
        std::string::npos);
}

TEST_CASE("a wrong quote costs its row, not the table", "[unit][jobs]") {
  const std::string header = "job_id,num_gpu,submit_time,duration\n";
  const JobWorkload w =
      read(header + "a,1,0,5\r\n\nb\"c,1,1,5\nd,1,2,5\n\"e,1,3,5\n\"f,g\",1,4,5\n\"h\"i,1,5,5\nj,1,6,5");
  CHECK(jobs(w) == Texts{"a 1 0 5", "d 1 2 5", "f,g 1 4 5", "j 1 6 5"});
  CHECK(doubts(w) == Texts{"4:a quote stands inside a cell that does not begin with one", "6:a quoted cell has no end",
                           "8:text follows the quote that ends a cell"});
  CHECK(w.jobs.back().at == Position{9, 1});
  CHECK(refusal("job_id,num_\"gpu,submit_time,duration\na,1,0,5\n").find("[csv.quote]") != std::string::npos);
  // A cell of several lines is one, where the table keeps the form.
  CHECK(jobs(read(header + "\"k\nl\",1,0,5\n")) == Texts{"k\nl 1 0 5"});
}
