#include "core/spec/spec_files.hpp"

#include <utility>

#include "core/spec/reliability_file.hpp"

// Code that files of all kinds share: a schema, and one table.

namespace orrery {
namespace {

template <class Spec, class Read>
std::optional<Spec> whole_file(std::optional<TomlTable> root, std::string_view kind, Read read) {
  if (!root || !read_schema(*root, kind, spec_schema)) return std::nullopt;
  const std::size_t before = root->diagnostics().size();
  std::optional<TomlTable> table = root->table(kind);
  if (kind == "cluster") check_reliability_key(*root);
  root->finish();
  std::optional<Spec> spec;
  if (table) spec = read(*table);
  return root->diagnostics().size() == before ? spec : std::nullopt;
}

}  // namespace

const std::vector<std::string_view>& precision_names() {
  static const std::vector<std::string_view> names{"fp64", "fp32", "bf16", "fp16", "fp8"};
  return names;
}
const std::vector<std::string_view>& optimizer_names() {
  static const std::vector<std::string_view> names{"sgd", "adam", "lamb", "lars", "adafactor"};
  return names;
}
const std::vector<std::string_view>& schedule_names() {
  static const std::vector<std::string_view> names{"constant", "linear", "cosine"};
  return names;
}

std::string_view name_of(Precision p) { return precision_names()[static_cast<std::size_t>(p)]; }
std::string_view name_of(OptimizerKind k) { return optimizer_names()[static_cast<std::size_t>(k)]; }
std::string_view name_of(ScheduleKind k) { return schedule_names()[static_cast<std::size_t>(k)]; }

std::optional<ModelSpec> read_model_file(const std::filesystem::path& file, Diagnostics& d) {
  return whole_file<ModelSpec>(open_toml(file, d), "model", [](TomlTable& t) { return read_model(t); });
}
std::optional<Workload> read_workload_file(const std::filesystem::path& file, Diagnostics& d) {
  return whole_file<Workload>(open_toml(file, d), "workload", [](TomlTable& t) { return read_workload(t); });
}
std::optional<DeviceSpec> read_device_file(const std::filesystem::path& file, Diagnostics& d) {
  return whole_file<DeviceSpec>(open_toml(file, d), "device", [](TomlTable& t) { return read_device(t); });
}
std::optional<ClusterSpec> read_cluster_file(const std::filesystem::path& file, const DeviceLookup& devices,
                                             Diagnostics& d) {
  return whole_file<ClusterSpec>(open_toml(file, d), "cluster", [&](TomlTable& t) { return read_cluster(t, devices); });
}

std::optional<ModelSpec> parse_model(std::string text, std::string name, Diagnostics& d) {
  return whole_file<ModelSpec>(parse_toml(std::move(text), std::move(name), d), "model",
                               [](TomlTable& t) { return read_model(t); });
}
std::optional<Workload> parse_workload(std::string text, std::string name, Diagnostics& d) {
  return whole_file<Workload>(parse_toml(std::move(text), std::move(name), d), "workload",
                              [](TomlTable& t) { return read_workload(t); });
}
std::optional<DeviceSpec> parse_device(std::string text, std::string name, Diagnostics& d) {
  return whole_file<DeviceSpec>(parse_toml(std::move(text), std::move(name), d), "device",
                                [](TomlTable& t) { return read_device(t); });
}
std::optional<ClusterSpec> parse_cluster(std::string text, std::string name, const DeviceLookup& devices,
                                         Diagnostics& d) {
  return whole_file<ClusterSpec>(parse_toml(std::move(text), std::move(name), d), "cluster",
                                 [&](TomlTable& t) { return read_cluster(t, devices); });
}

}  // namespace orrery
