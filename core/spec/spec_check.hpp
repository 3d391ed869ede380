#pragma once

#include "core/base/diagnostics.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Checks the rules of specs, wherever these come from. Broken rules are added with the position in `origin`. The
/// bounds keep every later product of sizes inside 64 bits: a checked model has at most 2^50 parameters.
///
/// Codes: model.kv-heads  model.positions  model.size  model.range
/// workload.range  workload.dropout  workload.schedule  workload.gradient-dtype
/// workload.size  cluster.levels  cluster.size  cluster.range  device.peak
/// device.range
[[nodiscard]] bool check_model(const ModelSpec&, Diagnostics&);
[[nodiscard]] bool check_workload(const Workload&, Diagnostics&);
[[nodiscard]] bool check_cluster(const ClusterSpec&, Diagnostics&);
/// `path` is where the device stands in `origin`: "device" or "cluster.device".
[[nodiscard]] bool check_device(const DeviceSpec&, const Origin& origin, const std::string& path, Diagnostics&);

/// Whether the tensors of one step can be counted in 64 bits.
[[nodiscard]] bool check_sizes(const ModelSpec&, const Workload&, Diagnostics&);

// Bounds, shared by the readers.
inline constexpr std::uint64_t max_layers = 10'000;
inline constexpr std::uint64_t max_parameters = std::uint64_t{1} << 50;  ///< of a model
inline constexpr std::uint64_t max_width = std::uint64_t{1} << 20;       ///< hidden, ffn, heads, head size
inline constexpr std::uint64_t max_vocabulary = std::uint64_t{1} << 24;
inline constexpr std::uint64_t max_sequence = std::uint64_t{1} << 24;
inline constexpr std::uint64_t max_batch = std::uint64_t{1} << 24;
inline constexpr std::uint64_t max_step_tokens = std::uint64_t{1} << 36;
inline constexpr double max_trust = 1e9;
inline constexpr std::uint64_t max_steps = std::uint64_t{1} << 40;
inline constexpr double max_elements = 0x1p56;  ///< of one tensor of the whole step
inline constexpr std::uint64_t max_devices = std::uint64_t{1} << 20;

}  // namespace orrery
