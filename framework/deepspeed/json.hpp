#pragma once

#include <cstdint>
#include <optional>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// What a program that hands a DeepSpeed configuration on says beside it: values for what is "auto" in the file.
struct DeepSpeedOutside {
  std::optional<std::uint64_t> gpus;
  std::optional<std::uint64_t> micro, accumulation, sequence;  ///< sequences, microbatches, tokens
  std::optional<std::uint64_t> context;                        ///< ranks of DeepSpeed's Ulysses
  std::optional<std::string> precision;                        ///< "bf16", "fp16", "fp32"
};

/// Whether a file is a DeepSpeed configuration: ZeRO's table, or a batch under DeepSpeed's names.
[[nodiscard]] bool is_deepspeed_json(const LaunchFile&);
/// Reads it (docs/frameworks/deepspeed.md).
void read_deepspeed_json(LaunchReading&);
/// Reads a configuration that another program hands on.
void read_deepspeed(LaunchReading&, const DeepSpeedOutside&);

}  // namespace orrery
