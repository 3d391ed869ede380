#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tests/support/nccl_stand_in/shared_memory.hpp"

// Handles of the NCCL stand-in, and its errors.

namespace orrery::test::nccl_stand_in {

enum Code { success, unhandled, system_error, internal, invalid_argument, invalid_usage, remote, in_progress };

/// The last error on this thread.
[[nodiscard]] std::string& last_text();
/// Number of broken rules in this process.
[[nodiscard]] int broken_rules();
/// A rule is broken: returns the error code.
int broken(const std::string& what);

struct Communicator {
  std::string name;
  int rank = 0, ranks = 0;
  Shared* shared = nullptr;
  int splits = 0;
  std::uint32_t collectives = 0;
  /// The work under way: when called, it returns whether it has ended.
  std::function<bool()> under_way;
  int asked = 0;
  std::atomic<int> failed{success};
  bool finalized = false;
  std::atomic<bool> aborted{false};
  std::uint64_t launched = 0;
  std::atomic<std::uint64_t> ended{0};  ///< kernels

  ~Communicator();
};
using Pointer = std::shared_ptr<Communicator>;

/// The communicator of a handle; null where there is none (any more).
[[nodiscard]] Pointer find(void* handle);
[[nodiscard]] Pointer make(std::string name, int rank, int ranks);
/// The handle becomes invalid.
void forget(const Pointer&);

}  // namespace orrery::test::nccl_stand_in
