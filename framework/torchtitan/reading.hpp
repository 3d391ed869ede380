#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "framework/launch/launch_reading.hpp"
#include "framework/launch/launch_sizes.hpp"

namespace orrery {

/// Reads a configuration of torchtitan.
///
/// Keys and defaults are those of pytorch/torchtitan@f7084fc78 (v0.1.0), 29624e37f (v0.2.0), 81af8833d (v0.2.1) and
/// 73a0e6979 (v0.2.2), torchtitan/config_manager.py and torchtitan/config/job_config.py.
class TitanReading {
 public:
  explicit TitanReading(LaunchReading& reading) : r_(reading) {}
  void read();

 private:
  [[nodiscard]] bool has(std::string_view name) const { return r_.value(name) != nullptr; }
  /// Keys that say nothing about the step: names, or beginnings that end in "*".
  void without_effect(std::initializer_list<std::string_view> names, const char* why);
  /// Sets a plan key from a key of the file, or assumes it where the file leaves it to torchtitan's default.
  void set_or_assume(std::string_view name, std::string_view plan_key, const std::string& toml);
  /// The texts of a list, or of a text with commas between them.
  [[nodiscard]] std::vector<std::string> texts(std::string_view name);

  // read_model.cpp
  /// Whether plans have such models; the file counts as spoken of where they do not.
  [[nodiscard]] bool model();
  void converters();

  // read_sizes.cpp
  void sizes();
  [[nodiscard]] LaunchSizes::Size size(std::string_view name, std::uint64_t otherwise);
  void experts(LaunchSizes&, const std::optional<std::uint64_t>& shards);
  void batch(LaunchSizes&);
  void context();
  void sharding();

  // read_stages.cpp
  void stages();
  void schedule_csv(bool on_v);
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> listed_stages();
  void recomputation();

  // read_training.cpp
  void training();
  void precision();
  void optimizer();
  void learning_rate();
  void no_effects();

  LaunchReading& r_;
  std::uint64_t pipeline_ = 1, tensor_ = 1;
  bool fsdp_ = false, float8_ = false;
  std::optional<std::vector<std::uint32_t>> stage_layers_;
  StagePlacement placement_ = StagePlacement::loop;
};

/// Whether a file is a configuration of torchtitan: tables that only it has.
[[nodiscard]] bool is_torchtitan_toml(const LaunchFile&);
void read_torchtitan_toml(LaunchReading&);

/// The same keys as flags of a command line ("--training.seq_len 8192"), over those of the TOML file that the command
/// names with --job.config_file or CONFIG_FILE. It is looked for in the script's folder and in those above it.
[[nodiscard]] bool is_torchtitan_flags(const LaunchFile&);
void read_torchtitan_flags(LaunchReading&);

}  // namespace orrery
