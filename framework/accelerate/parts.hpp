#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/launch/launch_reading.hpp"
#include "framework/launch/launch_sizes.hpp"

namespace orrery {

/// Whether a file is one that `accelerate launch --config_file` takes.
[[nodiscard]] bool is_accelerate_yaml(const LaunchFile&);
/// Reads it (docs/frameworks/accelerate.md).
void read_accelerate_yaml(LaunchReading&);

/// Whether a file is PEFT's adapter_config.json, and what it says of adapters.
[[nodiscard]] bool is_peft_json(const LaunchFile&);
void read_peft_json(LaunchReading&);

/// "bf16", "fp16", "fp8" or "fp32", which is set. Where the file does not say it, another may (`elsewhere`).
std::string read_accelerate_precision(LaunchReading&, bool elsewhere);
/// fsdp_config; `machines` and the number of processes give the replicas of hybrid sharding.
void read_accelerate_fsdp(LaunchReading&, LaunchSizes&, std::uint64_t machines);
/// parallelism_config.
void read_accelerate_axes(LaunchReading&, LaunchSizes&);
/// megatron_lm_config.
void read_accelerate_megatron(LaunchReading&, LaunchSizes&);
/// deepspeed_config: of keys here, or of a file beside this one.
void read_accelerate_deepspeed(LaunchReading&, const LaunchSizes&, const std::string& precision);

/// What Accelerate cannot train (Framework::check_model), and whether ranks stand in its order.
void check_accelerate_model(const ModelSpec&, const Workload&, Diagnostics&);
[[nodiscard]] bool accelerate_order(const PlannedRun&);
/// A plan as a configuration of Accelerate. Requires a resolved plan that passes check().
[[nodiscard]] std::optional<std::string> write_accelerate(const PlannedRun&, Diagnostics&);

}  // namespace orrery
