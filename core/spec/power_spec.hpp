#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/spec/library.hpp"
#include "core/spec/sourced_figure.hpp"

namespace orrery {

/// Power of a device, in watts.
struct DevicePower {
  std::string device;             ///< as DeviceSpec::name
  KnownFigure<double> busy_w;     ///< while it computes; of shipped figures the board's limit
  KnownFigure<double> idle_w;     ///< with nothing to do
  KnownFigure<double> waiting_w;  ///< while it waits for messages; unset: a share of busy_w
  friend bool operator==(const DevicePower&, const DevicePower&) = default;
};

/// Energy of data that moves over a kind of link, both ends included.
struct LinkEnergy {
  std::string link;  ///< "memory", "nvlink", "host", "network"
  SourcedFigure<double> pj_per_byte;
  friend bool operator==(const LinkEnergy&, const LinkEnergy&) = default;
};

/// Figures of power and of data movement: models/power.toml, docs/forecast.md.
struct PowerTable {
  std::vector<DevicePower> devices;
  std::vector<LinkEnergy> links;
  /// Share of busy_w that a device draws while it waits for messages.
  KnownFigure<double> waiting_share;
  friend bool operator==(const PowerTable&, const PowerTable&) = default;

  [[nodiscard]] const DevicePower* of(const std::string& device) const;
  [[nodiscard]] const LinkEnergy* over(const std::string& link) const;
};

/// Codes: power.twice, and those of the TOML reader
[[nodiscard]] std::optional<PowerTable> parse_power(std::string text, std::string name, Diagnostics&);
/// The shipped table, or the file that `path` names.
[[nodiscard]] std::optional<PowerTable> power_table(const Library&, const std::optional<std::string>& path,
                                                    Diagnostics&);

}  // namespace orrery
