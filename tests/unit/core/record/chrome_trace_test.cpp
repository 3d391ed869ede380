#include "core/record/chrome_trace.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/random.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/operation.hpp"
#include "tests/support/hand_program.hpp"
#include "tests/support/random_plan.hpp"

namespace orrery {

namespace {

/// A trace with any times that fit the format: lanes in order, odd picoseconds.
Trace any_trace(const Program& program, std::uint64_t seed) {
  Trace trace;
  trace.origin = "simulate";
  std::uint64_t count = 0;
  for (std::uint32_t rank = 0; rank < program.mesh.size(); ++rank) {
    RankTrace r;
    r.rank = Rank{rank};
    std::map<std::size_t, std::int64_t> tail;
    for_each_op(program, program.classes[class_of(program, r.rank)].step, [&](const OpRun& run) {
      const auto draw = [&](std::uint64_t most) {
        return static_cast<std::int64_t>(random_bits(seed, rank, count++) % (most + 1));
      };
      if (!is_timed(*run.op)) {
        r.spans.push_back({tail[0], tail[0]});
        return;
      }
      std::int64_t& end = tail[lane_number(run.op->lane)];
      const std::int64_t start = end + draw(3000000000000);  // up to 3 s
      end = start + draw(1000000);
      r.spans.push_back({start, end});
    });
    r.peak_bytes = random_bits(seed, 1, rank);
    r.sent_bytes = random_bits(seed, 2, rank);
    trace.ranks.push_back(std::move(r));
  }
  return trace;
}

std::string message(const std::string& text) {
  Diagnostics diagnostics;
  CHECK_FALSE(read_chrome_trace(text, "t.json", diagnostics).has_value());
  REQUIRE_FALSE(diagnostics.empty());
  return render(diagnostics.list().front());
}

}  // namespace

TEST_CASE("A trace reads back equal to the picosecond", "[unit][record]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const Trace trace = any_trace(program, seed);
    const std::string text = write_chrome_trace(trace, program);
    CHECK(text == write_chrome_trace(trace, program));
    CHECK(looks_like_trace(text));
    Diagnostics diagnostics;
    const auto back = read_chrome_trace(text, "t.json", diagnostics);
    REQUIRE(diagnostics.empty());
    CHECK(back == trace);
  }
}

// Perfetto requires of a file: ts and dur are numbers, slices of one thread nest or do not overlap, every process and
// thread with slices has a name, flow ids have one start and one end, inside slices.
TEST_CASE("Chrome traces keep the rules under which viewers show them well", "[unit][record]") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto json = nlohmann::json::parse(write_chrome_trace(any_trace(program, seed), program));
    std::set<std::pair<int, int>> named;
    std::set<std::pair<int, int>> used;
    std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> slices;
    std::map<int, std::string> flow;
    std::vector<std::pair<std::pair<int, int>, std::int64_t>> ends;
    for (const auto& e : json["traceEvents"]) {
      const std::string phase = e["ph"];
      const auto thread = std::pair(e["pid"].get<int>(), e.contains("tid") ? e["tid"].get<int>() : -1);
      if (phase == "M") {
        if (e["name"] == "thread_name") named.insert(thread);
        continue;
      }
      REQUIRE(e["ts"].is_number());
      const std::int64_t ts = std::llround(e["ts"].get<double>() * 1e6);  // picoseconds
      if (phase == "X") {
        used.insert(thread);
        slices[thread].emplace_back(ts, ts + std::llround(e["dur"].get<double>() * 1e6));
      } else if (phase == "s" || phase == "t" || phase == "f") {
        const int id = e["id"].get<int>();
        flow[id] += phase;
        ends.emplace_back(thread, ts);
      } else {
        CHECK(phase == "C");
      }
    }
    CHECK(named == used);
    bool inside = true;
    for (const auto& [at, ts] : ends) {
      const auto& list = slices[at];
      inside = inside && std::any_of(list.begin(), list.end(),
                                     [&, t = ts](const auto& slice) { return slice.first <= t && t <= slice.second; });
    }
    CHECK(inside);
    for (auto& [place, list] : slices) {
      CAPTURE(place.first, place.second);
      std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
      });
      std::vector<std::int64_t> open;
      for (const auto& [start, end] : list) {
        while (!open.empty() && open.back() <= start) open.pop_back();
        if (!open.empty()) CHECK(end <= open.back());
        open.push_back(end);
      }
    }
    for (const auto& [id, phases] : flow) {
      CAPTURE(id);
      CHECK(phases.size() >= 2);
      CHECK(phases.front() == 's');
      CHECK(phases.back() == 'f');
    }
  }
}

TEST_CASE("A chosen rank alone is written and read", "[unit][record]") {
  const PlannedRun run = test::random_run(3);
  const Program program = lower(run.model, run.workload, run.plan);
  const Trace trace = any_trace(program, 3);
  ChromeTraceOptions options;
  options.ranks = {trace.ranks.back().rank};
  Diagnostics diagnostics;
  const auto back = read_chrome_trace(write_chrome_trace(trace, program, options), "t.json", diagnostics);
  REQUIRE(back);
  REQUIRE(back->ranks.size() == 1);
  CHECK(back->ranks[0] == trace.ranks.back());
}

TEST_CASE("A trace that is stopped is whole for the ranks that it has", "[unit][record]") {
  const PlannedRun run = test::random_run(3);
  const Program program = lower(run.model, run.workload, run.plan);
  const Trace trace = any_trace(program, 3);
  REQUIRE(trace.ranks.size() > 1);
  std::atomic<bool> stop{false};
  std::string text;
  std::uint64_t last = 0;
  ChromeTraceSink sink;
  sink.write = [&](std::string_view piece) { text += piece; };
  sink.progress = [&](std::uint64_t done, std::uint64_t total) {
    CHECK(done > last);
    CHECK(done <= total);
    last = done;
    stop = true;  // after the first rank
  };
  sink.cancelled = &stop;
  CHECK(write_chrome_trace(trace, program, {}, sink) == 1);
  CHECK(looks_like_trace(text));
  Diagnostics diagnostics;
  const auto back = read_chrome_trace(text, "t.json", diagnostics);
  REQUIRE(back);
  CHECK(back->origin == "simulate (stopped after 1 of " + std::to_string(trace.ranks.size()) + " ranks)");
  REQUIRE(back->ranks.size() == 1);
  CHECK(back->ranks[0] == trace.ranks[0]);
}

// The forecast counts characters with figures of usual length. It only decides what is refused, so a fifth is near
// enough.
TEST_CASE("The size of a trace is known before it is made", "[unit][record]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto size = static_cast<double>(write_chrome_trace(any_trace(program, seed), program).size());
    CHECK(chrome_trace_size(program, true) == Approx(size).epsilon(0.2));
  }
}

TEST_CASE("Files that are no traces of ours give diagnostics", "[unit][record]") {
  CHECK(message("{\"traceEvents\":[").find("this is not JSON [trace.json]") != std::string::npos);
  CHECK(message("{\"orrery\":{\"trace\":2},\"traceEvents\":[]}") ==
        "t.json: error: this is not a trace of version 1 that orrery wrote: the key \"orrery\" is missing or different "
        "[trace.json]\n");
  CHECK(message("17").find("not a trace") != std::string::npos);
  const std::string head = R"({"orrery":{"trace":1,"origin":"o","lanes":"serial","plan":"p","ranks":[{"rank":0,"ops":)";
  const std::string tail = R"(,"peak_bytes":1,"sent_bytes":1,"untimed":[0,5]}]},"traceEvents":[)";
  const std::string slice = R"({"ph":"X","pid":0,"tid":0,"ts":1.5,"dur":2,"args":{"op":1}})";
  Diagnostics diagnostics;
  const auto fine = read_chrome_trace(head + "2" + tail + slice + "]}", "t.json", diagnostics);
  REQUIRE(fine);
  CHECK(fine->ranks[0].spans == std::vector<Span>{{5, 5}, {1500000, 3500000}});
  CHECK(message(head + "3" + tail + slice + "]}") ==
        "t.json: error: orrery.ranks[0].ops is more than the file has events [trace.json]\n");
  CHECK(message(head + "2" + tail + slice + "," + slice + "]}") ==
        "t.json: error: rank 0 has op 1 twice [trace.json]\n");
  CHECK(message(head + "2" + tail + R"({"ph":"X","pid":7,"ts":1,"dur":2,"args":{"op":1}}]})") ==
        "t.json: error: an event belongs to rank 7, which is not listed [trace.json]\n");
  CHECK(message(head + "2" + tail + R"({"ph":"X","pid":0,"ts":1,"dur":-2,"args":{"op":1}}]})").find("out of range") !=
        std::string::npos);
  CHECK(message(head + "99999999999999" + tail + "]}").find("more than the file") != std::string::npos);
}

// These are the heads of what the exporters write: PyTorch's profiler (export_chrome_trace), Nsight Systems (--type
// sqlite), gzip.
TEST_CASE("Traces of other programs are refused with what they are", "[unit][record]") {
  const auto refused = [](const std::string& whose) {
    return "t.json: error: this trace is " + whose + ", not one that orrery wrote [trace.json]\n  " +
           (whose.ends_with("gzip")
                ? "gunzip unpacks it.\n"
                : "orrery run --trace and orrery simulate --trace name each operation of the plan.  From other "
                  "programs, orrery compare reads what torch.profiler's export_chrome_trace writes.\n");
  };
  CHECK(message(R"({"schemaVersion":1,"deviceProperties":[{"id":0}],"distributedInfo":{"backend":"nccl","rank":0},
    "traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1.5,"dur":2,
    "args":{"stream":7,"correlation":3}}]})") == refused("from PyTorch's profiler (Kineto)"));
  CHECK(message(R"({"traceEvents":[]})") == refused("from another program"));
  CHECK(message(R"([{"ph":"X","pid":0,"ts":1,"dur":2}])") == refused("a list of events without its writer's name"));
  CHECK(message(std::string("SQLite format 3\0rest", 20)) == refused("an SQLite file, as Nsight Systems exports"));
  CHECK(message("\x1f\x8b\x08 packed") == refused("compressed with gzip"));
}

}  // namespace orrery
