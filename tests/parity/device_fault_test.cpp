#include <catch2/catch.hpp>

#include <chrono>

#include "core/program/lower/lower.hpp"
#include "exec/device/cuda_load.hpp"
#include "exec/device/execute_device.hpp"
#include "exec/device/host_device.hpp"
#include "exec/train/data.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

TEST_CASE("a rank that fails on a device ends the run, and the others with it", "[parity][device]") {
  test::RandomRunLimits limits;
  limits.max_ranks = 4;
  const PlannedRun run = test::random_run(7200, limits);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 1);
  for (const auto kind : {Fault::Kind::throws, Fault::Kind::exits, Fault::Kind::stalls}) {
    HostDevice device;
    RunOptions options;
    options.watchdog = Seconds::of(0.5);
    options.fault = Fault{kind, Rank{program.mesh.size() > 1 ? 1U : 0U}, OpId{5}, 1};
    if (program.mesh.size() == 1 && kind != Fault::Kind::throws) continue;
    CHECK_THROWS_AS(execute_on_device(device, "run device", program, run.workload, *data, options), Error);
  }
}

// The gathered work is dropped: nothing of the step begins, and nothing waits for it.
TEST_CASE("an op that fails while a step is gathered ends the run at once", "[parity][device]") {
  test::RandomRunLimits limits;
  limits.max_ranks = 1;
  const PlannedRun run = test::random_run(7500, limits);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 1);
  HostDevice device;
  RunOptions options;
  options.steps = 4;
  options.watchdog = Seconds::of(60);
  options.fault = Fault{Fault::Kind::throws, Rank{0}, OpId{5}, 3};
  const auto began = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(execute_on_device(device, "run device", program, run.workload, *data, options, Issue::graphs),
                    Catch::Contains("op 5 (") && Catch::Contains("injected fault"));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(30));  // far below the watchdog's wait
}

TEST_CASE("a device without room says so, with the op and the buffer", "[parity][device]") {
  const PlannedRun run = test::random_run(7300);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 1);
  HostDevice device(1000);
  CHECK_THROWS_WITH(execute_on_device(device, "run device", program, run.workload, *data, {}),
                    Catch::Contains("no memory for ") && Catch::Contains("bytes of buffer "));
}

TEST_CASE("a module that is missing, no library or of another build is refused, with what would help",
          "[parity][device]") {
  CHECK_THROWS_WITH(load_cuda("/nowhere/orrery_cuda.so"),
                    "this orrery was built without CUDA: there is no /nowhere/orrery_cuda.so.  Where the CUDA Toolkit "
                    "(nvcc 12.4 or later, cuBLAS) is installed, building again makes it.");
  CHECK_THROWS_WITH(load_cuda("/etc/passwd"), Catch::Contains("cannot load CUDA: ") && Catch::Contains("libcublasLt"));
}
