#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/common.hpp"

namespace orrery {

/// The arguments of `orrery validate --here`.
struct HereRequest {
  std::uint32_t plans = 40;
  std::uint64_t seed = 1;
  std::uint32_t rounds = 2;  ///< each plan runs so often, all in turn
  friend bool operator==(const HereRequest&, const HereRequest&) = default;
};

/// Measures this machine (or reads flags.calibration), trains drawn plans on threads of it, and compares simulated with
/// measured steps: time of each plan, of each kind of operation, and memory. Returns the exit status: 1 where the
/// median error over plans with no more ranks than cores is above 10 %, or memory is not what was predicted.
int validate_here(const CommonFlags&, const HereRequest&);

}  // namespace orrery
