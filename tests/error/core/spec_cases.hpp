#pragma once

#include <catch2/catch.hpp>

#include <filesystem>
#include <string>

#include "core/spec/hf_config.hpp"
#include "core/spec/library.hpp"
#include "core/spec/spec_files.hpp"

namespace orrery::test {

// Correct files, which tests then spoil, and the messages about the spoilt ones.

inline const Library library(std::filesystem::path(ORRERY_SOURCE_DIR) / "models");

inline const std::string good_model = R"(schema = 1
[model]
name = "m"
layers = 2
hidden = 64
heads = 4
ffn = 256
vocabulary = 100
max_positions = 32
norm = "layer_norm"
activation = "gelu"
positions = "learned"
bias = true
tied_embeddings = true
)";

inline const std::string good_cluster = R"(schema = 1
[cluster]
name = "c"
nodes = 2
devices_per_node = 4
device = "h100"
[[cluster.levels]]
name = "nvlink"
size = 4
bandwidth = "450 GB/s"
latency = "2 us"
[[cluster.levels]]
name = "infiniband"
size = 2
bandwidth = "400 Gbit/s"
latency = "5 us"
)";

inline const std::string good_workload = "schema = 1\n[workload]\nbatch = 8\nsequence = 16\n";

/// `text` with the first `from` replaced by `to`.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

inline std::string model_error(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_model(text, "m.toml", d));
  return render(d);
}
inline std::string workload_error(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_workload(text, "w.toml", d));
  return render(d);
}
inline std::string cluster_error(const std::string& text) {
  Diagnostics d;
  const DeviceLookup lookup = [](const std::string& name, Diagnostics& more) { return library.device(name, more); };
  CHECK_FALSE(parse_cluster(text, "c.toml", lookup, d));
  return render(d);
}
inline std::string config_error(const std::string& text) {
  Diagnostics d;
  CHECK_FALSE(parse_hf_config(text, "config.json", d));
  return render(d);
}

}  // namespace orrery::test
