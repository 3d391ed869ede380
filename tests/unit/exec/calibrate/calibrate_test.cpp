#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "core/record/calibration_file.hpp"
#include "exec/calibrate/calibrate.hpp"
#include "exec/calibrate/disk_rates.hpp"
#include "exec/calibrate/kernel_samples.hpp"
#include "exec/calibrate/sample_programs.hpp"
#include "exec/calibrate/timing.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;

namespace {

/// A chain of dependent operations that no compiler shortens.
void spin(std::uint64_t rounds) {
  volatile double x = 1.0;
  for (std::uint64_t i = 0; i < rounds; ++i) x = x * 0.999 + 0.001;
}

}  // namespace

// The thread's clock counts work only; 1:4 may come out as 1:3 to 1:5 when
// clock rates change in between.
TEST_CASE("Four times the work takes four times as long", "[calibrate]") {
  const double one = time_work([](std::uint64_t) { spin(20000); }).typical.base();
  const double four = time_work([](std::uint64_t) { spin(80000); }).typical.base();
  CAPTURE(one, four);
  CHECK(four > 2.5 * one);
  CHECK(four < 6.0 * one);
}

TEST_CASE("Repeated work is called with running numbers", "[calibrate]") {
  std::uint64_t expected = 0;
  bool in_order = true;
  const MeasuredTime time = time_work([&](std::uint64_t i) { in_order = in_order && i == expected++; },
                                      {Seconds::of(1e-6), 3, Seconds::of(1e-3)});
  CHECK(time.typical.base() > 0);
  CHECK(in_order);
  CHECK(expected >= 4);  // a warm-up and three samples
}

TEST_CASE("Samples are the distinct kernels of the Program, with its bytes", "[calibrate]") {
  SampleShape shape;
  shape.layers = 2;
  shape.microbatches = 2;
  const SampleProgram sample = sample_program(shape, Precision::bf16);
  const std::vector<KernelSample> samples = samples_of(sample.program);
  std::set<KernelKind> kinds;
  for (const KernelSample& s : samples) kinds.insert(s.kernel.kind);
  // Every compute op of the step is one of the samples, to the byte.
  std::size_t ops = 0;
  for_each_op(sample.program, sample.program.classes[0].step, [&](const OpRun& run) {
    const auto* compute = std::get_if<Compute>(&run.op->action);
    if (compute == nullptr) return;
    ++ops;
    const Kernel& k = run.block->kernels[compute->kernel];
    const std::uint64_t touched = touched_bytes(sample.program, *run.block, *run.op);
    CHECK(std::any_of(samples.begin(), samples.end(), [&](const KernelSample& s) {
      return s.kernel.kind == k.kind && s.kernel.options == k.options && s.touched() == touched;
    }));
  });
  CHECK(samples.size() < ops / 2);  // layers and microbatches repeat them
  CHECK(kinds.count(KernelKind::gemm) == 1);
  CHECK(kinds.count(KernelKind::adam_update) == 1);
}

TEST_CASE("The machine is described", "[calibrate]") {
  CHECK(usable_cores() >= 1);
  CHECK(describe_machine().find(std::to_string(usable_cores()) + " core") == 0);
}

// The numbers are this machine's. On any machine, every kernel of a step must have a positive rate, and the file must
// read back equal.
TEST_CASE("A calibration covers every kernel of a step", "[calibrate]") {
  CalibrateOptions options;
  options.precisions = {Precision::fp32};
  double last = 0.0;
  bool rising = true;
  options.progress = [&](double share) {
    rising = rising && share >= last;
    last = share;
  };
  const MeasuredCalibration measured = calibrate(options);
  const Calibration& c = measured.calibration;
  CHECK(measured.cores.needed > 0.0);
  CHECK(measured.cores.had > 0.0);
  CHECK(rising);
  CHECK(last == Approx(1.0));
  CHECK(c.cores == usable_cores());
  CHECK(c.busy_compute_slowdown >= 1.0);
  CHECK(c.busy_memory_slowdown >= 1.0);
  for (const bool llama : {false, true}) {
    for (const bool flash : {false, true}) {
      SampleShape shape;
      shape.llama = llama;
      shape.flash = flash;
      for (const KernelSample& s : samples_of(sample_program(shape, Precision::fp32).program)) {
        CAPTURE(std::string(name_of(s.kernel.kind)));
        CHECK(std::any_of(c.kernels.begin(), c.kernels.end(), [&](const KernelRate& r) {
          return r.kind == s.kernel.kind && r.compute == DType::f32 && r.transpose_a == s.kernel.options.transpose_a &&
                 r.transpose_b == s.kernel.options.transpose_b;
        }));
      }
    }
  }
  for (const KernelRate& r : c.kernels) {
    std::size_t points = 1;
    for (const auto& axis : r.rate.axes) points *= axis.size();
    CHECK(r.rate.values.size() == points);
    CHECK(std::all_of(r.rate.values.begin(), r.rate.values.end(), [](double v) { return v > 0 && std::isfinite(v); }));
  }
  REQUIRE(c.messages);
  CHECK(c.messages->latency.base() > 0);
  CHECK(c.messages->latency_shared.base() > 0);
  Diagnostics diagnostics;
  const auto back = parse_calibration(calibration_text(c), "calibration.toml", diagnostics);
  INFO(render(diagnostics));
  REQUIRE(back);
  CHECK(*back == c);
}

TEST_CASE("a folder's disk is measured, leaves nothing behind, and a folder that takes no file is said",
          "[unit][calibrate]") {
  const test::TemporaryFolder folder;
  double last = 0.0;
  const DiskRate disk = measure_disk(folder.file(""), std::uint64_t{16} << 20, [&](double share) {
    CHECK(share > last);
    last = share;
  });
  CHECK(last == 1.0);
  CHECK(disk.read.base() > 0.0);
  CHECK(disk.write.base() > 0.0);
  CHECK(disk.latency > Seconds{});
  CHECK(std::filesystem::is_empty(folder.file("")));
  CHECK_THROWS_WITH(measure_disk(folder.file("none")),
                    Catch::Contains("cannot make a file in") && Catch::Contains("No such file"));
  CHECK_THROWS_WITH(measure_disk(folder.file(""), std::uint64_t{1} << 55), Catch::Contains("cannot keep"));
}
