#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Readers and writers of files and tables of models, workloads, devices and clusters.
///
/// A file has `schema = 1` and one table that says what it is: [model],
/// [workload], [device] or [cluster].  The same tables may stand in other
/// files: a plan holds a [workload], a cluster may hold its [device].  Readers
/// return an empty optional after any mistake; all mistakes are in the
/// Diagnostics.  Whatever they return has passed the check of its kind.
/// Writers give text that reads back equal.

inline constexpr std::uint64_t spec_schema = 1;

// Names in files, in the order of the enumerators.
[[nodiscard]] const std::vector<std::string_view>& precision_names();
[[nodiscard]] const std::vector<std::string_view>& optimizer_names();
[[nodiscard]] const std::vector<std::string_view>& schedule_names();
[[nodiscard]] const std::vector<std::string_view>& rope_scaling_names();
[[nodiscard]] std::string_view name_of(Precision);
[[nodiscard]] std::string_view name_of(OptimizerKind);
[[nodiscard]] std::string_view name_of(ScheduleKind);
[[nodiscard]] std::string_view name_of(Norm);
[[nodiscard]] std::string_view name_of(Activation);
[[nodiscard]] std::string_view name_of(PositionEncoding);
[[nodiscard]] std::string_view name_of(Architecture);

/// Finds a device by name, for clusters that name one instead of holding it.
using DeviceLookup = std::function<std::optional<DeviceSpec>(const std::string& name, Diagnostics&)>;

// Reads one table. The table's finish() is called inside.
[[nodiscard]] std::optional<ModelSpec> read_model(TomlTable& model);
[[nodiscard]] std::optional<Workload> read_workload(TomlTable& workload);
[[nodiscard]] std::optional<DeviceSpec> read_device(TomlTable& device);
/// `device` is a name (looked up), a path from the cluster's file, or a table.
[[nodiscard]] std::optional<ClusterSpec> read_cluster(TomlTable& cluster, const DeviceLookup& devices);

// Reads a whole file of one kind.
[[nodiscard]] std::optional<ModelSpec> read_model_file(const std::filesystem::path&, Diagnostics&);
[[nodiscard]] std::optional<Workload> read_workload_file(const std::filesystem::path&, Diagnostics&);
[[nodiscard]] std::optional<DeviceSpec> read_device_file(const std::filesystem::path&, Diagnostics&);
[[nodiscard]] std::optional<ClusterSpec> read_cluster_file(const std::filesystem::path&, const DeviceLookup&,
                                                           Diagnostics&);
// The same from text, for tests and fuzzing; `name` is shown in messages.
[[nodiscard]] std::optional<ModelSpec> parse_model(std::string text, std::string name, Diagnostics&);
[[nodiscard]] std::optional<Workload> parse_workload(std::string text, std::string name, Diagnostics&);
[[nodiscard]] std::optional<DeviceSpec> parse_device(std::string text, std::string name, Diagnostics&);
[[nodiscard]] std::optional<ClusterSpec> parse_cluster(std::string text, std::string name, const DeviceLookup&,
                                                       Diagnostics&);

[[nodiscard]] std::string write_model(const ModelSpec&);
[[nodiscard]] std::string write_workload(const Workload&);
[[nodiscard]] std::string write_device(const DeviceSpec&);
[[nodiscard]] std::string write_cluster(const ClusterSpec&);  ///< with its device as a table
/// Writes only the table, for files that hold more.
void write_workload(TomlWriter&, const Workload&, std::string_view path = "workload");

}  // namespace orrery
