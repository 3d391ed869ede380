#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/program/program.hpp"
#include "core/record/trace.hpp"

namespace orrery {

/// Core time, in seconds summed over cores: what a measurement needed to be
/// undisturbed, and what its threads were given.
struct CoreTime {
  double needed = 0.0;
  double had = 0.0;
  friend bool operator==(const CoreTime&, const CoreTime&) = default;
};

/// Core time, in seconds, that the kernels of a measured step needed: at every
/// instant as many cores as kernels run, at most `cores`.
[[nodiscard]] double needed_core_time(const Program&, const Trace&, std::uint32_t cores);

/// What to say where threads were given less than nine tenths of what they
/// needed, with the numbers.  The rest is nothing that one run can tell from
/// noise.
[[nodiscard]] std::optional<std::string> core_shortage(const CoreTime&);

/// Processor time of all threads of the program, in seconds.
[[nodiscard]] double program_core_seconds();

/// From its making on: work of which one thread at a time runs, whichever that
/// is (an executor's ranks have threads of their own), needs one core all the time.
class SerialWork {
 public:
  [[nodiscard]] CoreTime so_far() const;

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double had_before_ = program_core_seconds();
};

}  // namespace orrery
