#include <catch2/catch.hpp>

#include <cstdlib>
#include <string>

#include "core/program/lower/lower.hpp"
#include "exec/run/gather.hpp"
#include "exec/run/run_report.hpp"
#include "exec/train/data.hpp"
#include "tests/parity/run_on_device.hpp"
#include "tests/support/random_plan.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;
using test::lines;
using test::on_device;
using test::UnderTest;

TEST_CASE("plans on a device give the loss, gradients, updates, peaks and traffic of the reference",
          "[parity][device]") {
  test::RandomRunLimits limits;
  limits.max_ranks = 8;
  const std::uint64_t plans = std::getenv("ORRERY_LONG_TESTS") != nullptr ? 300 : 30;
  for (std::uint64_t seed = 7000; seed < 7000 + plans; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    UnderTest device;
    test::NumericsOptions options = on_device(*device, run);
    options.steps = 2;
    const test::NumericsResult result = test::check_numerics(run, options);
    CHECK(lines(result.failures) == "");
  }
}

TEST_CASE("a run on a device repeats bit for bit, and its trace holds every op", "[parity][device]") {
  for (std::uint64_t seed = 7100; seed < 7106; ++seed) {
    const PlannedRun run = test::random_run(seed);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed);
    std::vector<double> losses[2];
    for (auto& of_run : losses) {
      UnderTest device;
      RunOptions options;
      options.steps = 3;
      const DeviceRun done = execute_on_device(*device, "run device", program, run.workload, *data, options);
      of_run = done.result.losses;
      for (const Trace& trace : done.result.traces) {
        CHECK(trace.origin == "run device");
        for (const RankTrace& rank : trace.ranks) {
          std::size_t ops = 0;
          for_each_op(program, program.classes[class_of(program, rank.rank)].step, [&](const OpRun&) { ++ops; });
          CHECK(rank.spans.size() == ops);
          for (const Span& span : rank.spans) CHECK(span.end >= span.start);
        }
      }
    }
    CHECK(losses[0] == losses[1]);
  }
}

// This is what a checkpoint does when a run goes on from it: the weights of all ranks are read after setup, and others
// written.
TEST_CASE("weights written between steps are those that a device goes on with", "[parity][device]") {
  test::RandomRunLimits limits;
  limits.precision = Precision::fp64;
  limits.max_ranks = 4;
  for (std::uint64_t seed = 7400; seed < 7408; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed);
    RunOptions options;
    options.warmup_steps = 0;
    options.steps = 2;
    GlobalTensors halves;
    options.on_event = [&](const RunEvent& e) {
      if (e.step != 0) return;
      halves = gather(program, *e.buffers, "weights");
      for (auto& [name, tensor] : halves) {
        for (double& x : tensor.values) x *= 0.5;
      }
      scatter(program, *e.buffers, "weights", halves);
      CHECK(gather(program, *e.buffers, "weights") == halves);
    };
    UnderTest device;
    const std::vector<double> there =
        execute_on_device(*device, "run device", program, run.workload, *data, options).result.losses;
    const std::vector<double> here = execute(program, run.model, run.workload, run.plan, *data, options).losses;
    REQUIRE(there.size() == here.size());
    // fp64: sums in another order.
    for (std::size_t i = 0; i < here.size(); ++i) CHECK(there[i] == Approx(here[i]).epsilon(1e-10));
  }
}

// A graph has the work of the list, in the list's order of waits. So it gives the same bits, spans of every op, and the
// same memory.
TEST_CASE("steps given to a device as graphs are those given op by op", "[parity][device]") {
  test::RandomRunLimits limits;
  limits.max_ranks = 1;
  bool offloads = false;
  for (std::uint64_t seed = 7500; seed < 7516; ++seed) {
    const PlannedRun run = test::random_run(seed, limits);
    CAPTURE(seed, test::describe(run));
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, seed);
    RunOptions options;
    options.warmup_steps = 0;
    options.steps = 4;
    const auto run_by = [&](Issue issue) {
      UnderTest device;
      return execute_on_device(*device, "run device", program, run.workload, *data, options, issue);
    };
    const DeviceRun ops = run_by(Issue::ops), graphs = run_by(Issue::graphs);
    CHECK(graphs.result.losses == ops.result.losses);
    CHECK(graphs.result.memory == ops.result.memory);
    REQUIRE(graphs.result.traces.size() == ops.result.traces.size());
    for (const Trace& trace : graphs.result.traces) {
      for (const RankTrace& rank : trace.ranks) {
        for (const Span& span : rank.spans) CHECK(span.end >= span.start);
      }
    }
    bool disk = false;
    for (const Buffer& b : program.buffers) {
      disk = disk || b.tier == Tier::disk;
      offloads = offloads || b.tier == Tier::host;
    }
    const std::string notes = lines(graphs.notes);
    CAPTURE(notes);
    if (disk) {
      CHECK(notes.find("no step was given to the device as a graph: a graph cannot hold copies to and from the disk") !=
            std::string::npos);
    } else {
      CHECK(notes.find("given to the device as a graph each: 3 steps") != std::string::npos);
    }
  }
  CHECK(offloads);
}

TEST_CASE("ranks that meet are given to a device op by op, and the report says why", "[parity][device]") {
  test::RandomRunLimits limits;
  limits.max_ranks = 2;
  std::uint64_t seed = 7600;
  while (test::random_run(seed, limits).plan.mesh.size() < 2) ++seed;
  const PlannedRun run = test::random_run(seed, limits);
  const Program program = lower(run.model, run.workload, run.plan);
  UnderTest device;
  RunOptions options;
  options.steps = 1;
  const DeviceRun done = execute_on_device(*device, "run device", program, run.workload,
                                           *synthetic_data(run.model.vocabulary, seed), options, Issue::graphs);
  CHECK(lines(done.notes).find("no step was given to the device as a graph: ranks communicate during a step") !=
        std::string::npos);
}

// Logits are in f32: 18 words are 72 bytes, 20 are 80. Weights and activations of a layer are in bf16, in which rows of
// 36 elements are 72 bytes; their gradients are in f32, in which such rows are 144 bytes. All other rows are of 8 or 16
// elements.
TEST_CASE("a device says which rows of products tensor cores cannot read at once", "[parity][device]") {
  PlannedRun run = test::tiny_run(Mesh{}, 2);
  run.model.hidden = 16;
  run.model.head_dim = 8;
  run.model.max_positions = 8;
  run.workload.sequence_length = 8;
  run.workload.precision = Precision::bf16;
  const std::string rest = "; the library is told so, and may choose a slower algorithm; no GPU has timed it\n";
  for (const auto& [words, ffn] : {std::pair{18U, 32U}, std::pair{20U, 32U}, std::pair{20U, 36U}}) {
    run.model.vocabulary = words;
    run.model.ffn = ffn;
    UnderTest device;
    RunOptions options;
    options.steps = 1;
    const DeviceRun done = execute_on_device(*device, "run device", lower(run.model, run.workload, run.plan),
                                             run.workload, *synthetic_data(words, 1), options);
    std::string said;
    for (const std::string& note : done.notes) {
      if (note.find("products with rows of") != std::string::npos) said += note + "\n";
    }
    CAPTURE(words, ffn);
    std::string expected;
    if (words == 18) {
      expected =
          "products with rows of 18 elements in 32 bits: not all begin at multiples of 16 bytes, as those of 20 "
          "would" +
          rest;
    } else if (ffn == 36) {
      expected =
          "products with rows of 36 elements in 16 bits: not all begin at multiples of 16 bytes, as those of 40 "
          "would" +
          rest;
    }
    CHECK(said == expected);
  }
}

// E4M3 has 3 bits of fraction: a factor is off by at most 2^-4 of itself, a sum of many products by far less.
TEST_CASE("a device that makes products in fp8 trains as one that makes them in bf16, nearly", "[parity][device]") {
  if (test::gpu_under_test() != nullptr) return;
  for (const std::uint32_t tensor : {1U, 2U}) {
    PlannedRun run = test::tiny_run(Mesh{{{Axis::data, 2}, {Axis::tensor, tensor}}}, 4);
    // Every size of every product is a multiple of 16.
    run.model.hidden = 32;
    run.model.head_dim = 16;
    run.model.ffn = 64;
    run.model.max_positions = 16;
    run.workload.sequence_length = 16;
    run.workload.precision = Precision::fp8;
    const Program program = lower(run.model, run.workload, run.plan);
    const auto data = synthetic_data(run.model.vocabulary, 1);
    RunOptions options;
    options.steps = 3;
    const auto run_on = [&](bool fp8) {
      HostDevice device(std::uint64_t{4} << 30, fp8);
      return execute_on_device(device, "run device", program, run.workload, *data, options).result;
    };
    const RunResult eight = run_on(true), sixteen = run_on(false);
    REQUIRE(eight.losses.size() == sixteen.losses.size());
    CHECK(eight.losses != sixteen.losses);
    for (std::size_t i = 0; i < eight.losses.size(); ++i) {
      CHECK(eight.losses[i] == Approx(sixteen.losses[i]).epsilon(0.03));
    }
    const auto made_in = [&](const RunResult& result) {
      for (const std::string& line : report_of(run, program, result).assumptions) {
        if (line.find("products ") == 0) return line.substr(0, line.find(':'));
      }
      return std::string();
    };
    CHECK(made_in(eight) == "products of layers are made in fp8");
    CHECK(made_in(sixteen) == "products that other devices make in fp8 are made in bf16 here");
  }
}
