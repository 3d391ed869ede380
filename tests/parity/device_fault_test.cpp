#include <catch2/catch.hpp>

#include <chrono>
#include <set>
#include <string>

#include <fmt/format.h>

#include "core/program/lower/lower.hpp"
#include "exec/device/cuda_load.hpp"
#include "exec/device/execute_device.hpp"
#include "exec/device/host_device.hpp"
#include "exec/train/data.hpp"
#include "tests/support/random_plan.hpp"

using namespace orrery;

namespace {

/// A device on which the kernel of a number goes wrong. As a GPU does of a kernel that read where it must not, it tells
/// so later, where it is asked whether the kernel has ended.
class FailingDevice final : public Device {
 public:
  explicit FailingDevice(std::uint64_t kernel) : left_(kernel) {}
  [[nodiscard]] const DeviceInfo& info() const override { return host_.info(); }
  void use() override {}
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override { return host_.allocate(bytes); }
  void release(std::byte* p) override { host_.release(p); }
  [[nodiscard]] std::uint64_t free_bytes() override { return host_.free_bytes(); }
  [[nodiscard]] std::byte* allocate_host(std::uint64_t bytes) override { return host_.allocate_host(bytes); }
  void release_host(std::byte* p) override { host_.release_host(p); }
  [[nodiscard]] std::unique_ptr<DeviceStream> make_stream(bool urgent) override {
    return std::make_unique<Stream>(*this, host_.make_stream(urgent));
  }
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override { return host_.make_event(); }
  [[nodiscard]] std::unique_ptr<DeviceGraph> make_graph() override { return host_.make_graph(); }
  [[nodiscard]] bool done(const DeviceEvent& e) override {
    if (&e == failed_) throw Error("an illegal memory access was encountered");
    return host_.done(e);
  }
  [[nodiscard]] double seconds_between(const DeviceEvent& a, const DeviceEvent& b) override {
    return host_.seconds_between(a, b);
  }
  [[nodiscard]] bool runs(const Kernel& k, std::span<const Operand> o) const override { return host_.runs(k, o); }
  /// The kind of the kernel that went wrong.
  [[nodiscard]] std::string_view kind() const { return kind_; }

 private:
  class Stream final : public DeviceStream {
   public:
    Stream(FailingDevice& device, std::unique_ptr<DeviceStream> stream) : device_(device), stream_(std::move(stream)) {}
    void record(DeviceEvent& e) override {
      if (!device_.kind_.empty() && device_.failed_ == nullptr) device_.failed_ = &e;
      stream_->record(e);
    }
    void wait(const DeviceEvent& e) override { stream_->wait(e); }
    void copy(void* to, const void* from, std::uint64_t bytes) override { stream_->copy(to, from, bytes); }
    void call(std::function<void()> work) override { stream_->call(std::move(work)); }
    void run(const Kernel& k, std::span<const Operand> o, const KernelContext& c) override {
      if (device_.left_-- == 0) device_.kind_ = name_of(k.kind);
      stream_->run(k, o, c);
    }
    void reduce(const ReductionShare& share) override { stream_->reduce(share); }
    [[nodiscard]] void* native() override { return stream_->native(); }
    [[nodiscard]] std::uint64_t scratch_bytes() const override { return stream_->scratch_bytes(); }

   private:
    FailingDevice& device_;
    std::unique_ptr<DeviceStream> stream_;
  };

  HostDevice host_;
  std::uint64_t left_;
  std::string_view kind_;
  const DeviceEvent* failed_ = nullptr;
};

}  // namespace

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

TEST_CASE("a kernel that fails on a device is named by the op that did not end", "[parity][device]") {
  test::RandomRunLimits limits;
  limits.max_ranks = 1;
  const PlannedRun run = test::random_run(7500, limits);
  const Program program = lower(run.model, run.workload, run.plan);
  const auto data = synthetic_data(run.model.vocabulary, 1);
  std::set<std::string_view> kinds;
  for (std::uint64_t kernel = 20; kernel < 120; kernel += 9) {
    FailingDevice device(kernel);
    std::string message;
    try {
      static_cast<void>(execute_on_device(device, "run device", program, run.workload, *data, {}));
    } catch (const Error& e) {
      message = e.what();
    }
    CAPTURE(kernel);
    CHECK_THAT(message, Catch::Contains(fmt::format(" ({}, op ", device.kind())) &&
                            Catch::Contains("or an operation that began before it ended: an illegal memory access") &&
                            Catch::Contains("CUDA_LAUNCH_BLOCKING=1"));
    kinds.insert(device.kind());
  }
  CHECK(kinds.size() >= 5);
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
