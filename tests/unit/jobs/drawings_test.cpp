#include <catch2/catch.hpp>

#include <nlohmann/json.hpp>

#include "jobs/job_drawings.hpp"
#include "tests/unit/jobs/job_examples.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("spans of one GPU do not overlap and add up to the stretches", "[property][jobs]") {
  const JobWorkload w = random_workload(5, 100);
  const std::vector<std::uint32_t> nodes = {4, 3, 5};
  const JobHistory h = played(w, "srtf", nodes);
  std::vector<std::vector<Microseconds>> until = {std::vector<Microseconds>(4), std::vector<Microseconds>(3),
                                                  std::vector<Microseconds>(5)};
  GpuMicroseconds sum = 0;
  for (const GpuSpan& s : gpu_spans(h.stretches, nodes)) {
    for (std::uint32_t g = s.gpu; g < s.gpu + s.gpus; ++g) {
      REQUIRE(until[s.node][g] <= s.begin);
      until[s.node][g] = s.end;
    }
    sum += GpuMicroseconds{s.end - s.begin} * s.gpus;
  }
  CHECK(sum == h.busy);
}

TEST_CASE("a trace has a slice for each GPU of each stretch", "[unit][jobs]") {
  JobWorkload w = workload_of({{0, 10, 3}, {1, 10, 4}});
  w.jobs[0].name = "a \"quoted\" <name>";
  const JobHistory h = played(w, "fifo", {2, 2});
  std::string text;
  write_job_trace({{"fifo", &h}}, w, {2, 2}, [&](std::string_view part) { text += part; });
  const auto events = nlohmann::json::parse(text)["traceEvents"];
  CHECK(events.size() == 2 + 4 + 3 + 4);  // nodes, GPUs, slices
  CHECK(events[0]["args"]["name"] == "fifo node 0");
  CHECK(events[6]["name"] == w.jobs[0].name);
  CHECK(events[6]["dur"] == 10'000'000);
  const std::string svg = job_gantt_svg({{"fifo", &h}}, w, {2, 2});
  CHECK(svg.find("a &quot;quoted&quot; &lt;name&gt;: 3 GPUs, 0 s to 10 s") != std::string::npos);
  CHECK(svg == job_gantt_svg({{"fifo", &h}}, w, {2, 2}));
}

TEST_CASE("a stretch is drawn with the GPUs that its job holds then", "[unit][jobs]") {
  const std::vector<JobStretch> stretches{{0, 0, 10, {{0, 2}, {1, 1}}}, {0, 20, 30, {{1, 1}}}};
  const std::vector<GpuSpan> spans = gpu_spans(stretches, {2, 2});
  REQUIRE(spans.size() == 3);
  CHECK(spans[0] == GpuSpan{0, 0, 2, 0, 0, 10, 3});
  CHECK(spans[1] == GpuSpan{1, 0, 1, 0, 0, 10, 3});
  CHECK(spans[2] == GpuSpan{1, 0, 1, 0, 20, 30, 1});
}

TEST_CASE("a picture of many GPUs says what it leaves out", "[unit][jobs]") {
  const JobWorkload w = workload_of({{0, 10, 3}});
  const std::vector<std::uint32_t> nodes(40, 8);
  const JobHistory h = played(w, "fifo", nodes);
  CHECK(job_gantt_svg({{"fifo", &h}}, w, nodes).find("fifo, the first 16 of 40 nodes") != std::string::npos);
}

TEST_CASE("a picture has one clock, from the first submission", "[unit][jobs]") {
  const JobWorkload w = workload_of({{7200, 10, 1}, {7200, 10, 1}});
  const JobHistory h = played(w, "fifo", {1});
  const std::string svg = job_gantt_svg({{"fifo", &h}}, w, {1});
  CHECK(svg.find("<title>b: 1 GPUs, 10 s to 20 s</title>") != std::string::npos);
  CHECK(svg.find(">0 s</text>") != std::string::npos);
}
