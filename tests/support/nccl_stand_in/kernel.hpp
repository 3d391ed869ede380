#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tests/support/nccl_stand_in/communicator.hpp"

// The work that the streams of the NCCL stand-in carry out.

namespace orrery::test::nccl_stand_in {

/// As HostStreamHandle (exec/device/host_device.hpp).
struct HostStream {
  void* stream;
  void (*call)(void* stream, void (*work)(void*), void* argument);
};

/// What one call asks for.
struct Call {
  Header header;
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::uint64_t count = 0;
  int peer = 0;
  bool send = false;
  HostStream* stream = nullptr;
  Pointer on;
};

/// 0: unknown.
[[nodiscard]] std::size_t size_of_type(int type);

/// Gives a group's part for one communicator to the streams; called until it can.
[[nodiscard]] std::function<bool()> launch(Pointer on, std::vector<Call> calls);

}  // namespace orrery::test::nccl_stand_in
