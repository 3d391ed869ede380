#pragma once

#include <cstdint>
#include <functional>

namespace orrery {

/// Told now and then by long work how much of how much is done, in units of
/// the work's own (bytes, ops).  May throw, which ends the work.  May be empty.
using WorkProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace orrery
