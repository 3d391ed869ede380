// The main program of tests that need a GPU: PROGRAM MODULE [arguments of Catch]. The exit status is 77, with the
// reason, where there is no GPU: skipped, which does not count as passed.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <cstdio>

#include "core/base/diagnostics.hpp"
#include "exec/device/cuda_load.hpp"
#include "tests/support/device_under_test.hpp"

namespace orrery::test {
namespace {
std::unique_ptr<Device> gpu;
}  // namespace

Device* gpu_under_test() { return gpu.get(); }

}  // namespace orrery::test

int main(int count, char** values) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s MODULE [arguments of Catch]\n", values[0]);
    return 2;
  }
  try {
    orrery::test::gpu = orrery::open_cuda_device(values[1]);
    std::printf("on %s (%s)\n", orrery::test::gpu->info().name.c_str(), orrery::test::gpu->info().software.c_str());
  } catch (const orrery::Error& e) {
    std::printf("skipped: %s\n", e.what());
    return 77;
  }
  values[1] = values[0];
  const int status = Catch::Session().run(count - 1, values + 1);
  orrery::test::gpu.reset();
  return status;
}
