#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// Reads a configuration of nanotron. Keys and defaults are those of huggingface/nanotron@2411b022,
/// src/nanotron/config, and of its older versions where they had other places.
class NanotronReading {
 public:
  explicit NanotronReading(LaunchReading& reading) : r_(reading) {}
  void read();

 private:
  [[nodiscard]] bool has(std::string_view key) const { return r_.value(key) != nullptr; }
  void set_or_assume(std::string_view key, std::string_view plan_key, const std::string& toml);

  // read_model.cpp
  /// Whether plans have such models; the file counts as spoken of where they do not.
  [[nodiscard]] bool model();
  void mixture(ModelSpec&);
  void llama(ModelSpec&);
  void starcoder(ModelSpec&);

  void sizes();
  void context();
  void pipeline();
  void memory();
  void precision();
  void optimizer();
  void learning_rate();
  void no_effects();

  LaunchReading& r_;
};

/// Whether a file is a configuration of nanotron: a model's sizes beside sizes of the mesh and of the batch.
[[nodiscard]] bool is_nanotron_yaml(const LaunchFile&);
void read_nanotron_yaml(LaunchReading&);

}  // namespace orrery
