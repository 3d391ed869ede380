#pragma once

#include <cstdint>
#include <functional>

namespace orrery {

/// Long work calls this now and then with how much of how much is done, in units of its own (bytes, ops). The function
/// may throw, which ends the work. It may be empty.
using WorkProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

}  // namespace orrery
