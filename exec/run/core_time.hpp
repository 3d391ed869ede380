#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// Core time, in seconds summed over cores: how much a measurement needed to be undisturbed, and how much its threads
/// got.
struct CoreTime {
  double needed = 0.0;
  double had = 0.0;
  friend bool operator==(const CoreTime&, const CoreTime&) = default;
};

/// Core time, in seconds, that the kernels of a measured step needed. At every instant it counts one core for each
/// running kernel, at most `cores`.
[[nodiscard]] double needed_core_time(const Program&, const Trace&, std::uint32_t cores);

/// The message where threads got less than nine tenths of what they needed, with the numbers. A smaller lack cannot be
/// told from noise in one run.
[[nodiscard]] std::optional<std::string> core_shortage(const CoreTime&);

/// Processor time of all threads of the program, in seconds.
[[nodiscard]] double program_core_seconds();

/// From its construction on, counts work that runs on one thread at a time and so needs one core all the time. Any
/// thread may do it (an executor's ranks have threads of their own).
class SerialWork {
 public:
  [[nodiscard]] CoreTime so_far() const;

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double had_before_ = program_core_seconds();
};

}  // namespace orrery
