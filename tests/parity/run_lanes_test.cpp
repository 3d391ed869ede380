#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "core/record/traffic.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/gather.hpp"
#include "exec/run/run_report.hpp"
#include "exec/train/data.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

struct Outcome {
  RunResult result;
  GlobalTensors weights;
  GlobalTensors gradients;
};

Outcome run_of(const PlannedRun& run, const Program& program, std::uint64_t seed, bool concurrent_lanes) {
  const auto data = synthetic_data(run.model.vocabulary, seed, 0.1);
  Outcome outcome;
  RunOptions options;
  options.concurrent_lanes = concurrent_lanes;
  options.poison = true;  // so that memory used too early or given back too early shows
  options.steps = 2;
  options.watchdog = Seconds::of(60);
  options.on_event = [&](const RunEvent& e) {
    if (e.step != options.steps) return;
    outcome.weights = gather(program, *e.buffers, "weights");
    if (run.workload.precision != Precision::fp16) outcome.gradients = gather(program, *e.buffers, "gradients");
  };
  outcome.result = execute(program, run.model, run.workload, run.plan, *data, options);
  return outcome;
}

bool takes_lane(const Op& op) {
  return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
}

/// Ops of the rank that began before what they must wait for had ended.
int too_early(const Program& program, const RankTrace& trace) {
  std::array<std::vector<std::int64_t>, lane_count> ends;  // of the lane's ops so far
  std::array<std::size_t, lane_count> entry{};             // how many there were when the block's run began
  std::vector<std::int64_t> in_block;
  std::uint32_t block_run = ~std::uint32_t{0};
  int count = 0;
  for_each_op(program, program.classes[class_of(program, trace.rank)].step, [&](const OpRun& r) {
    if (r.block_run != block_run) {
      block_run = r.block_run;
      for (std::size_t l = 0; l < lane_count; ++l) entry[l] = ends[l].size();
      in_block.assign(r.block->ops.size(), 0);
    }
    const Span& span = trace.spans[index(r.id)];
    if (!takes_lane(*r.op)) {
      count += span.start == span.end ? 0 : 1;
      return;
    }
    std::vector<std::int64_t>& lane = ends[lane_number(r.op->lane)];
    std::int64_t ready = lane.empty() ? 0 : lane.back();
    for (std::uint32_t w = r.op->waits.first; w < r.op->waits.first + r.op->waits.count; ++w) {
      const Wait& wait = r.block->waits[w];
      if (wait.kind == Wait::Kind::op) {
        ready = std::max(ready, in_block[wait.op]);
        continue;
      }
      const std::size_t over = is_receive(wait.lane) ? r.receives_ahead : 0, there = entry[lane_number(wait.lane)];
      if (over < there) ready = std::max(ready, ends[lane_number(wait.lane)][there - 1 - over]);
    }
    count += span.start < ready || span.end < span.start ? 1 : 0;
    lane.push_back(in_block[r.op_index] = span.end);
  });
  return count;
}

/// Ops of the rank that began before an op of an earlier place in the list had ended.
int overlaps(const RankTrace& trace) {
  std::int64_t last = 0;
  int count = 0;
  for (const Span& span : trace.spans) {
    if (span.end > span.start && span.start < last) ++count;
    last = std::max(last, span.end);
  }
  return count;
}

}  // namespace

TEST_CASE("lanes side by side compute the same bits as one at a time, in the order that the Program states",
          "[parity][lanes]") {
  int overlapping = 0;
  for (std::uint64_t seed = 2000; seed < 2040; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const Outcome serial = run_of(run, program, seed, false);
    const Outcome lanes = run_of(run, program, seed, true);
    CHECK(serial.result.losses == lanes.result.losses);
    CHECK(serial.weights == lanes.weights);
    CHECK((run.plan.zero_stage > 0 || serial.gradients == lanes.gradients));
    REQUIRE(lanes.result.traces.size() == 2);
    for (std::size_t s = 0; s < 2; ++s) {
      const Trace& a = serial.result.traces[s];
      const Trace& b = lanes.result.traces[s];
      CHECK_FALSE(a.concurrent_lanes);
      CHECK(b.concurrent_lanes);
      std::int64_t first = INT64_MAX;
      for (std::size_t r = 0; r < a.ranks.size(); ++r) {
        CHECK(a.ranks[r].peak_bytes == b.ranks[r].peak_bytes);
        CHECK(a.ranks[r].sent_bytes == b.ranks[r].sent_bytes);
        CHECK(too_early(program, b.ranks[r]) == 0);
        CHECK(overlaps(a.ranks[r]) == 0);
        overlapping += overlaps(b.ranks[r]) > 0 ? 1 : 0;
        for (const Span& span : b.ranks[r].spans) first = std::min(first, span.start);
      }
      CHECK(first == 0);
    }
    for (const RankMemory& m : serial.result.memory) CHECK(m.held_bytes == m.peak_bytes);
  }
  CHECK(overlapping > 0);  // else nothing ran side by side
}

TEST_CASE("the report of a run with lanes side by side counts time as for such a device", "[parity][lanes]") {
  const PlannedRun run = test::random_run(2003);
  const Program program = lower(run.model, run.workload, run.plan);
  for (const bool lanes : {false, true}) {
    const Outcome outcome = run_of(run, program, 3, lanes);
    const Report report = report_of(run, program, outcome.result);
    const std::string said = lanes ? "lanes side by side" : "one operation at a time";
    CHECK(std::any_of(report.assumptions.begin(), report.assumptions.end(),
                      [&](const std::string& a) { return a.find(said) != std::string::npos; }));
  }
}
