#pragma once

#include <optional>
#include <string>

#include "framework/launch/launch_reading.hpp"
#include "framework/launch/launch_sizes.hpp"

namespace orrery {

/// Whether a Python text makes one of Colossal-AI's plugins.
[[nodiscard]] bool is_colossal_python(const LaunchFile&);
/// Reads the plugin's arguments (docs/frameworks/colossal-ai.md).
void read_colossal_python(LaunchReading&);

/// Arguments of one plugin, by their names.
struct ColossalPlugin {
  LaunchReading& r;
  std::string name;  ///< "HybridParallelPlugin"
  std::string path;  ///< what its keys begin with: the name, or a key of the call that it stands in

  [[nodiscard]] std::string at(const char* argument) const { return path + "." + argument; }
  [[nodiscard]] const LaunchValue* value(const char* argument) const { return r.value(at(argument)); }
  std::optional<LaunchSizes::Size> size(const char* argument) const;
  [[nodiscard]] bool on(const char* argument, bool usual = false) const;
};

/// HybridParallelPlugin and MoeHybridParallelPlugin.
void read_colossal_hybrid(const ColossalPlugin&, LaunchSizes&);
/// gradient_checkpoint_config of a pipeline.
void read_colossal_checkpoints(const ColossalPlugin&, std::uint64_t stages, std::uint64_t chunks);
/// GeminiPlugin.
void read_colossal_gemini(const ColossalPlugin&, LaunchSizes&);
/// LowLevelZeroPlugin, TorchFSDPPlugin and TorchDDPPlugin.
void read_colossal_data(const ColossalPlugin&, LaunchSizes&);
/// precision, use_fp8, the loss scale and max_norm, which most plugins have.
void read_colossal_types(const ColossalPlugin&);

/// What Colossal-AI cannot train (Framework::check_model), and whether ranks stand in its order.
void check_colossal_model(const ModelSpec&, const Workload&, Diagnostics&);
[[nodiscard]] bool colossal_order(const PlannedRun&);
/// A plan as the call of a plugin. Requires a resolved plan that passes check().
[[nodiscard]] std::optional<std::string> write_colossal(const PlannedRun&, Diagnostics&);

}  // namespace orrery
