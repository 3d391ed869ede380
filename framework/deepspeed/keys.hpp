#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Values of a DeepSpeed configuration. "auto" stands for what the Trainer of Transformers, or Accelerate, fills in:
/// the key is taken then, and its value is open.
///
/// Source: huggingface/transformers src/transformers/integrations/deepspeed.py, trainer_config_process.
class DeepSpeedKeys {
 public:
  explicit DeepSpeedKeys(LaunchReading& reading) : r(reading) {}

  /// Whether the value is "auto", which is said of the key.
  bool is_open(std::string_view key);
  std::optional<std::uint64_t> whole(std::string_view key, std::uint64_t least = 0);
  std::optional<double> real(std::string_view key);
  std::optional<bool> toggle(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  /// Whether the key is there with a value that is not null.
  [[nodiscard]] bool has(std::string_view key) const { return r.value(key) != nullptr; }
  /// Sets a plan key to a real number where the file says it.
  void set_real(std::string_view key, std::string_view plan_key);

  LaunchReading& r;

 private:
  bool is_usable(std::string_view key);
};

/// A real number as TOML has it: with a point or an exponent.
[[nodiscard]] std::string toml_real(double);

}  // namespace orrery
