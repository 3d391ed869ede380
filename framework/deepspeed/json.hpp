#pragma once

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Whether a file is a DeepSpeed configuration: ZeRO's table, or a batch under DeepSpeed's names.
[[nodiscard]] bool is_deepspeed_json(const LaunchFile&);
/// Reads it (docs/frameworks.md).
void read_deepspeed_json(LaunchReading&);

}  // namespace orrery
