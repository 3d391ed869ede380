#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"

namespace orrery {

/// The shipped models, devices and clusters, and the meaning of references.
///
/// A reference is the name of a file in the data directory (without .toml), or a path that ends in .toml. A model's
/// reference may also be any file that holds the JSON of a Hugging Face config.json, or a folder with a config.json in
/// it. It needs no slash or ending unless it is also a name in the data directory. Relative paths count from
/// `relative_to`, the folder of the file that names them. An unknown name is a diagnostic that lists the nearest known
/// ones.
///
/// A device in a file is the one that its name says: figures of one shipped device under the name of another are
/// refused.
///
/// Codes: device.name  cluster.word  library.unknown-model  library.unknown-cluster
/// library.unknown-device  library.unknown-fabric  cluster.gpus, and those of the readers
class Library {
 public:
  explicit Library(std::filesystem::path data_dir) : data_(std::move(data_dir)) {}

  [[nodiscard]] std::optional<ModelSpec> model(const std::string& reference, const std::filesystem::path& relative_to,
                                               Diagnostics& diagnostics) const;
  /// The file that a reference to a model means; empty where it is neither a path nor a known name.
  [[nodiscard]] std::optional<std::filesystem::path> model_file(const std::string& reference,
                                                                const std::filesystem::path& relative_to) const;
  /// A reference to a model that means the same from any folder: names stay, paths become absolute.
  [[nodiscard]] std::string portable_model(const std::string& reference,
                                           const std::filesystem::path& relative_to) const;
  /// `gpus` resizes the cluster, see resized().
  [[nodiscard]] std::optional<ClusterSpec> cluster(const std::string& reference,
                                                   const std::filesystem::path& relative_to,
                                                   std::optional<std::uint32_t> gpus, Diagnostics& diagnostics) const;
  [[nodiscard]] std::optional<DeviceSpec> device(const std::string& name, Diagnostics& diagnostics) const;
  /// The shipped device that people call so: its file's name in any case and spacing ("RTX 4090"), or without its
  /// maker's or its family's word ("4090"). Empty where none or more than one is meant.
  [[nodiscard]] std::optional<std::string> device_named(const std::string& spelling) const;
  /// The file that describes what joins GPUs, link by link; its reader is sim/net/fabric_spec.hpp.
  [[nodiscard]] std::optional<std::filesystem::path> fabric(const std::string& reference,
                                                            Diagnostics& diagnostics) const;

  // Names of each kind, sorted.
  [[nodiscard]] std::vector<std::string> models() const;
  [[nodiscard]] std::vector<std::string> clusters() const;
  [[nodiscard]] std::vector<std::string> devices() const;
  [[nodiscard]] std::vector<std::string> plans() const;  ///< example plans
  [[nodiscard]] std::vector<std::string> fabrics() const;
  [[nodiscard]] std::vector<std::string> reliabilities() const;

  /// Path of a shipped calibration or example plan; the file need not exist.
  [[nodiscard]] std::filesystem::path calibration(const std::string& name) const;
  [[nodiscard]] std::filesystem::path plan(const std::string& name) const;
  [[nodiscard]] const std::filesystem::path& directory() const { return data_; }

 private:
  void check_name(const DeviceSpec&, const Origin&, const std::string& path, Diagnostics&) const;
  [[nodiscard]] std::vector<std::string> names(const char* kind) const;

  std::filesystem::path data_;
};

/// A reference to a model without its part, and the part: "config.json#language" is the language model alone inside the
/// model of a config.json.
struct ModelReference {
  std::string file;
  std::string part;  ///< empty: the whole
};
[[nodiscard]] ModelReference without_part(const std::string& reference);

/// Whether a reference is a path (ends in .toml or .json, or holds a slash)
/// rather than a built-in name.
[[nodiscard]] bool is_path(const std::string& reference);

/// A reference that means the same from any folder: names stay, paths become absolute.
[[nodiscard]] std::string portable(const std::string& reference, const std::filesystem::path& relative_to);

/// The cluster with another number of devices: part of a node below one node, whole nodes above. The innermost levels
/// fill first, and the outermost grows. The result is refused with cluster.gpus where it has no whole number of nodes
/// or where no level connects nodes.
[[nodiscard]] std::optional<ClusterSpec> resized(ClusterSpec cluster, std::uint32_t gpus, Diagnostics& diagnostics);

}  // namespace orrery
