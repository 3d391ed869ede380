#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/launch/launch_value.hpp"

namespace orrery {

/// What a DeepSpeed configuration beside a launch file says of sharding. The Trainer fills in values that are "auto",
/// so that batch, precision and optimizer are those of the launch file.
struct DeepSpeedSettings {
  std::uint32_t stage = 0;                 ///< of ZeRO
  std::string states_device = "none";      ///< "cpu" or "nvme": of optimizer states
  double states_share = 1.0;               ///< of the states that lie there
  std::string parameters_device = "none";  ///< of weights
  std::optional<bool> overlap;             ///< of reductions with the backward pass
  std::optional<double> bucket = 5e8;   ///< elements of one reduction, as DeepSpeed has it; empty: the Trainer's choice
  std::optional<std::uint64_t> tensor;  ///< ranks of tensor parallelism
  std::optional<double> clip_norm;
  std::string gradient_dtype;           ///< of sums; empty: by DeepSpeed's rule
  std::vector<std::string> left_aside;  ///< keys whose effect a plan cannot say
  std::vector<std::string> faults;      ///< keys with values that mean nothing
};

/// The settings of a parsed configuration; `under` is the path of its table in the file ("deepspeed"), or empty.
[[nodiscard]] DeepSpeedSettings deepspeed_settings(const LaunchFile&, std::string_view under);

/// The configuration that a launch file names by a path, looked for beside the launch file and in the folders above it,
/// since programs are started at the root of their sources. Empty where no file is found or it is no configuration.
[[nodiscard]] std::optional<DeepSpeedSettings> deepspeed_file(const std::string& path,
                                                              const std::filesystem::path& launch_file);

/// What the configurations say that axolotl and LLaMA-Factory ship, by their file's name; empty for other names.
[[nodiscard]] std::optional<DeepSpeedSettings> shipped_deepspeed(const std::string& path);

}  // namespace orrery
