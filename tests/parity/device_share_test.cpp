#include <catch2/catch.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "exec/device/execute_device.hpp"
#include "exec/device/host_device.hpp"
#include "exec/train/data.hpp"
#include "tests/support/tiny_run.hpp"

using namespace orrery;

namespace {

/// A device that counts the streams that are made on it, and of which others hold a part.
class SharedWithOthers final : public Device {
 public:
  explicit SharedWithOthers(std::uint64_t others) : others_(others) {}
  [[nodiscard]] const DeviceInfo& info() const override { return host_.info(); }
  void use() override {}
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override { return host_.allocate(bytes); }
  void release(std::byte* p) override { host_.release(p); }
  [[nodiscard]] std::uint64_t free_bytes() override { return host_.free_bytes() - others_; }
  [[nodiscard]] std::byte* allocate_host(std::uint64_t bytes) override { return host_.allocate_host(bytes); }
  void release_host(std::byte* p) override { host_.release_host(p); }
  [[nodiscard]] std::unique_ptr<DeviceStream> make_stream(bool urgent) override {
    ++(urgent ? urgent_ : usual_);
    return host_.make_stream(urgent);
  }
  [[nodiscard]] std::unique_ptr<DeviceEvent> make_event() override { return host_.make_event(); }
  [[nodiscard]] std::unique_ptr<DeviceGraph> make_graph() override { return host_.make_graph(); }
  [[nodiscard]] bool done(const DeviceEvent& e) override { return host_.done(e); }
  [[nodiscard]] double seconds_between(const DeviceEvent& a, const DeviceEvent& b) override {
    return host_.seconds_between(a, b);
  }
  [[nodiscard]] bool runs(const Kernel& k, std::span<const Operand> o) const override { return host_.runs(k, o); }

  [[nodiscard]] std::size_t urgent() const { return urgent_; }
  [[nodiscard]] std::size_t usual() const { return usual_; }

 private:
  HostDevice host_;
  std::uint64_t others_;
  std::atomic<std::size_t> urgent_{0}, usual_{0};
};

std::vector<std::string> notes_of_run(SharedWithOthers& device, const PlannedRun& run) {
  const auto data = synthetic_data(run.model.vocabulary, 1);
  return execute_on_device(device, "run device", lower(run.model, run.workload, run.plan), run.workload, *data, {})
      .notes;
}

bool says(const std::vector<std::string>& notes, const std::string& what) {
  for (const std::string& note : notes) {
    if (note.find(what) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("streams of messages are urgent, those of compute and copies are not", "[parity][device]") {
  // One rank computes, and has nobody to send to.
  SharedWithOthers alone(0);
  static_cast<void>(notes_of_run(alone, test::tiny_run({}, 2)));
  CHECK(alone.urgent() == 0);
  CHECK(alone.usual() >= 1);
  // With two stages each rank sends one way, receives the other, and sums the tied embedding, which both stages have.
  SharedWithOthers stages(0);
  static_cast<void>(notes_of_run(stages, test::tiny_run(Mesh{.axes = {{Axis::pipeline, 2}}}, 2)));
  CHECK(stages.urgent() == 2 * 3);
  CHECK(stages.usual() >= 2);
}

TEST_CASE("memory of a device that nobody of the run took stands in the report's notes", "[parity][device]") {
  const PlannedRun run = test::tiny_run(Mesh{.axes = {{Axis::data, 2}}}, 2);
  SharedWithOthers own(0), others(std::uint64_t{100} << 20);
  CHECK_FALSE(says(notes_of_run(own, run), "went to others"));
  CHECK(says(notes_of_run(others, run), "100 MiB of the device's memory went to others than the ranks' own pools"));
}
