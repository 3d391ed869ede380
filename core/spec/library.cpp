#include "core/spec/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "core/base/nearest.hpp"
#include "core/spec/cluster_word.hpp"
#include "core/spec/hf_config.hpp"
#include "core/spec/spec_check.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery {
namespace {

void unknown(const std::string& kind, const std::string& name, const std::vector<std::string>& known,
             Diagnostics& diagnostics) {
  const std::vector<std::string> near = nearest(name, known, 4);
  std::vector<std::string> details;
  if (!near.empty()) {
    details.push_back(fmt::format("Nearest names: {}.", fmt::join(near, ", ")));
  } else if (known.empty()) {
    details.push_back("The data directory holds none; --data names another.");
  } else {
    details.push_back(fmt::format("Known: {}.", fmt::join(known, ", ")));
  }
  diagnostics.error("library.unknown-" + kind, fmt::format("no {} is named \"{}\"", kind, name), std::move(details));
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::binary_search(names.begin(), names.end(), name);
}

/// The first bytes of a file; empty where it cannot be read.
std::string beginning(const std::filesystem::path& file) {
  std::string out(256, ' ');
  std::ifstream(file, std::ios::binary).read(out.data(), static_cast<std::streamsize>(out.size()));
  return out;
}

}  // namespace

ModelReference without_part(const std::string& reference) {
  const std::size_t mark = reference.rfind('#');
  if (mark == std::string::npos || mark == 0 || mark + 1 == reference.size() ||
      reference.find_first_of("/.", mark) != std::string::npos)
    return {reference, ""};
  return {reference.substr(0, mark), reference.substr(mark + 1)};
}

bool is_path(const std::string& reference) {
  if (is_cluster_word(reference)) return false;  // "h200:8x4@100 Gbit/s"
  const std::string file = without_part(reference).file;
  return file.find('/') != std::string::npos || file.ends_with(".toml") || file.ends_with(".json");
}

std::string portable(const std::string& reference, const std::filesystem::path& relative_to) {
  return is_path(reference) ? std::filesystem::absolute(relative_to / reference).lexically_normal().string()
                            : reference;
}

std::vector<std::string> Library::names(const char* kind) const {
  std::vector<std::string> out;
  std::error_code failure;
  for (std::filesystem::directory_iterator at(data_ / kind, failure), end; !failure && at != end;
       at.increment(failure)) {
    if (at->path().extension() == ".toml") out.push_back(at->path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> Library::models() const { return names("model"); }
std::vector<std::string> Library::clusters() const { return names("cluster"); }
std::vector<std::string> Library::devices() const { return names("device"); }
std::vector<std::string> Library::plans() const { return names("plan"); }
std::vector<std::string> Library::fabrics() const { return names("fabric"); }
std::vector<std::string> Library::reliabilities() const { return names("reliability"); }

std::filesystem::path Library::calibration(const std::string& name) const {
  return data_ / "calibration" / (name + ".toml");
}
std::filesystem::path Library::plan(const std::string& name) const { return data_ / "plan" / (name + ".toml"); }

std::optional<std::filesystem::path> Library::model_file(const std::string& reference,
                                                         const std::filesystem::path& relative_to) const {
  const std::string named = without_part(reference).file;
  if (!is_path(named) && contains(models(), named)) return data_ / "model" / (named + ".toml");
  std::filesystem::path file = relative_to / named;
  std::error_code failure;
  if (std::filesystem::is_directory(file, failure)) file /= "config.json";
  if (is_path(named) || (!named.empty() && std::filesystem::exists(file, failure))) return file;
  return std::nullopt;
}

std::string Library::portable_model(const std::string& reference, const std::filesystem::path& relative_to) const {
  const bool known = contains(models(), without_part(reference).file);
  const bool file = !is_path(reference) && !known && model_file(reference, relative_to);
  return portable(file ? "./" + reference : reference, relative_to);
}

std::optional<ModelSpec> Library::model(const std::string& reference, const std::filesystem::path& relative_to,
                                        Diagnostics& diagnostics) const {
  const std::optional<std::filesystem::path> file = model_file(reference, relative_to);
  if (!file) {
    unknown("model", reference, models(), diagnostics);
    return std::nullopt;
  }
  const bool config = file->extension() == ".json" || looks_like_hf_config(beginning(*file));
  const std::string part = without_part(reference).part;
  if (config) return read_hf_config(*file, diagnostics, part);
  if (part.empty()) return read_model_file(*file, diagnostics);
  diagnostics.error(
      "hf.part", fmt::format("{} has no part \"{}\"", reference.substr(0, reference.rfind('#')), part),
      {"Only a config.json has parts: \"language\" of models with images, \"vision\" of models of two towers, "
       "\"with-head\" of base models."});
  return std::nullopt;
}

std::optional<DeviceSpec> Library::device(const std::string& name, Diagnostics& diagnostics) const {
  if (const std::optional<std::string> known = device_named(name))
    return read_device_file(data_ / "device" / (*known + ".toml"), diagnostics);
  unknown("device", name, devices(), diagnostics);
  return std::nullopt;
}

namespace {

/// Lower-case letters and digits of a name, without the words that every listing puts before it.
std::string bare(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view word : {"nvidia", "geforce", "quadro", "tesla", "amd", "instinct", "rtx"}) {
    if (out.starts_with(word)) out.erase(0, word.size());
  }
  return out;
}

}  // namespace

std::optional<std::string> Library::device_named(const std::string& spelling) const {
  const std::vector<std::string> known = devices();
  if (contains(known, spelling)) return spelling;
  std::optional<std::string> found;
  for (const std::string& name : known) {
    if (bare(name) != bare(spelling)) continue;
    if (found) return std::nullopt;
    found = name;
  }
  return found;
}

std::optional<std::filesystem::path> Library::fabric(const std::string& reference, Diagnostics& diagnostics) const {
  if (is_path(reference)) return reference;
  const std::vector<std::string> known = fabrics();
  if (contains(known, reference)) return data_ / "fabric" / (reference + ".toml");
  unknown("fabric", reference, known, diagnostics);
  return std::nullopt;
}

std::optional<ClusterSpec> Library::cluster(const std::string& reference, const std::filesystem::path& relative_to,
                                            std::optional<std::uint32_t> gpus, Diagnostics& diagnostics) const {
  if (!is_path(reference) && reference.find(':') != std::string::npos) {
    std::optional<ClusterSpec> cluster = cluster_of_word(reference, *this, diagnostics);
    return cluster && gpus ? resized(std::move(*cluster), *gpus, diagnostics) : cluster;
  }
  std::filesystem::path file = relative_to / reference;
  if (!is_path(reference)) {
    const std::vector<std::string> known = clusters();
    if (!contains(known, reference)) {
      unknown("cluster", reference, known, diagnostics);
      return std::nullopt;
    }
    file = data_ / "cluster" / (reference + ".toml");
  }
  const DeviceLookup lookup = [this](const std::string& name, Diagnostics& found) { return device(name, found); };
  std::optional<ClusterSpec> cluster = read_cluster_file(file, lookup, diagnostics);
  if (cluster) {
    const std::size_t before = diagnostics.size();
    check_name(cluster->device, cluster->origin, "cluster.device", diagnostics);
    for (std::size_t i = 0; i < cluster->other_nodes.size(); ++i) {
      check_name(cluster->other_nodes[i].device, cluster->origin, fmt::format("cluster.other_nodes.{}.device", i),
                 diagnostics);
    }
    if (diagnostics.size() != before) return std::nullopt;
  }
  if (cluster && gpus) return resized(std::move(*cluster), *gpus, diagnostics);
  return cluster;
}

void Library::check_name(const DeviceSpec& device, const Origin& origin, const std::string& path,
                         Diagnostics& diagnostics) const {
  const std::optional<std::string> named = device_named(device.name);
  if (!named) return;
  const auto figures_of = [&](const std::string& name) {
    Diagnostics ignored;  // a test reads the shipped files
    const std::optional<DeviceSpec> shipped = this->device(name, ignored);
    return shipped && shipped->peak == device.peak && shipped->memory_bandwidth == device.memory_bandwidth &&
           shipped->memory == device.memory;
  };
  if (figures_of(*named)) return;
  for (const std::string& other : devices()) {
    if (!figures_of(other)) continue;
    diagnostics.error(
        origin, path + ".name", "device.name",
        fmt::format("the device is called {} and has the figures of {}", device.name, other),
        {fmt::format("device = \"{}\" in place of the table takes all of {}; a name of your own keeps these "
                     "figures.",
                     *named, *named)});
    return;
  }
}

std::optional<ClusterSpec> resized(ClusterSpec cluster, std::uint32_t gpus, Diagnostics& diagnostics) {
  const auto refuse = [&](std::string message, std::vector<std::string> details) {
    diagnostics.error("cluster.gpus", std::move(message), std::move(details));
    return std::nullopt;
  };
  const std::uint32_t per_node = cluster.devices_per_node;
  if (gpus < 1 || gpus > max_devices) {
    return refuse("the number of GPUs is out of range",
                  {fmt::format("It is {}; from 1 to {} is allowed.", gpus, max_devices)});
  }
  if (gpus == cluster.devices()) return cluster;
  // Levels beyond the one that completes a node connect nodes.
  std::uint64_t inside = 1;
  std::size_t node_levels = 0;
  while (inside < per_node && node_levels < cluster.levels.size()) inside *= cluster.levels[node_levels++].size;
  if (gpus > per_node && node_levels == cluster.levels.size()) {
    return refuse(fmt::format("{} has no network between nodes", cluster.name),
                  {fmt::format("It is one node of {}; {} were asked for.", per_node, gpus)});
  }
  if (gpus > per_node && gpus % per_node != 0) {
    return refuse(fmt::format("{} GPUs are not a whole number of nodes of {}", gpus, cluster.name),
                  {fmt::format("A node has {}. Nearest: {}, {}.", per_node, gpus / per_node * per_node,
                               (gpus / per_node + 1) * per_node)});
  }
  std::uint32_t left = gpus;
  for (std::size_t i = 0; i < cluster.levels.size(); ++i) {
    NetworkLevel& level = cluster.levels[i];
    const bool last = i + 1 == cluster.levels.size();
    if (level.most > level.size && (left <= level.most || (left % level.size != 0 && left % level.most == 0)))
      level.size = level.most;
    if (!last && left >= level.size && left % level.size != 0) {
      return refuse(fmt::format("{} GPUs do not fill level {} of {}", gpus, level.name, cluster.name),
                    {fmt::format("{} units in groups of {} leave {}.", left, level.size, left % level.size)});
    }
    const std::uint32_t here = last ? left : std::min(left, level.size);
    level.size = here;
    left /= here;
  }
  cluster.nodes = gpus >= per_node ? gpus / per_node : 1;
  cluster.devices_per_node = std::min(gpus, per_node);
  std::erase_if(cluster.other_nodes, [&](const OtherNodes& other) { return other.first >= cluster.nodes; });
  for (OtherNodes& other : cluster.other_nodes) other.count = std::min(other.count, cluster.nodes - other.first);
  if (!check_cluster(cluster, diagnostics)) return std::nullopt;
  return cluster;
}

}  // namespace orrery
