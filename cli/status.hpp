#pragma once

namespace orrery {

/// Exit statuses of every verb.
inline constexpr int status_fine = 0;
inline constexpr int status_no = 1;     ///< the honest answer is no: nothing fits, out of tolerance, interrupted
inline constexpr int status_input = 2;  ///< files, plan or flags are wrong
inline constexpr int status_world = 3;  ///< a file, a device or a peer failed

}  // namespace orrery
