// Work that streams gather for a graph: what happens to it where the graph is launched, and where it is dropped. It
// runs on threads that stand for a device, and in the program gpu_kernels on a GPU.

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <memory>

#include "exec/device/host_calls.hpp"
#include "exec/device/host_device.hpp"
#include "tests/support/device_under_test.hpp"

using namespace orrery;

namespace {

void await(Device& device, const DeviceEvent& event) {
  while (!device.done(event)) {
  }
}

}  // namespace

TEST_CASE("what the host was to do in a graph that is dropped is not done, and nothing of it is left", "[device]") {
  HostDevice host;
  Device& device = test::gpu_under_test() != nullptr ? *test::gpu_under_test() : host;
  const auto first = device.make_stream(false), second = device.make_stream(false);
  const auto ended = device.make_event();
  const auto graph = device.make_graph();
  const std::array<DeviceStream*, 2> streams{first.get(), second.get()};
  const auto held = std::make_shared<std::atomic<int>>(0);
  for (const bool dropped : {true, false, true, false}) {
    const int before = held->load();
    graph->begin(streams);
    for (DeviceStream* s : streams) s->call([held] { ++*held; });
    CHECK(held.use_count() == 3);
    if (dropped) {
      graph->drop();
    } else {
      graph->launch();
    }
    first->record(*ended);
    await(device, *ended);
    CHECK(held->load() == before + (dropped ? 0 : 2));
    CHECK(held.use_count() == 1);
  }
}

TEST_CASE("an event of gathered work tells of its last recording until the device comes to it", "[device]") {
  HostDevice device;
  const auto stream = device.make_stream(false);
  const auto event = device.make_event(), ended = device.make_event();
  const auto graph = device.make_graph();
  const std::array<DeviceStream*, 1> streams{stream.get()};
  stream->record(*event);
  stream->record(*ended);
  await(device, *ended);
  std::atomic<bool> go{false};
  graph->begin(streams);
  stream->call([&] {
    while (!go.load()) {
    }
  });
  stream->record(*event);
  CHECK(device.done(*event));  // the recording before
  CHECK(device.seconds_between(*ended, *event) <= 0.0);
  graph->launch();
  CHECK(device.done(*event));
  go.store(true);
  stream->record(*ended);
  await(device, *ended);
  CHECK(device.done(*event));
  CHECK(device.seconds_between(*event, *ended) >= 0.0);
}

TEST_CASE("calls that a device's library was given end with their call, and gathered ones as the graph does",
          "[device]") {
  int done = 0;
  const auto held = std::make_shared<int>(0);
  const auto call = [&done, held] { ++done; };
  HostCalls calls;
  HostCall now = host_call(call);
  void* const given = now.get();
  calls.given(std::move(now));
  CHECK(held.use_count() == 3);  // here, in `call` and given
  run_host_call(given);
  CHECK(done == 1);
  CHECK(held.use_count() == 2);

  calls.gather();
  calls.given(host_call(call));
  calls.dropped();
  CHECK(held.use_count() == 2);

  calls.gather();
  HostCall gathered = host_call(call);
  void* const node = gathered.get();
  calls.given(std::move(gathered));
  calls.launched();
  CHECK(held.use_count() == 3);
  run_host_call(node);
  CHECK(done == 2);
  CHECK(held.use_count() == 2);
}
