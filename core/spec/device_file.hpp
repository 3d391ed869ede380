#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/toml_reader.hpp"
#include "core/base/toml_writer.hpp"
#include "core/spec/cluster_spec.hpp"

namespace orrery {

/// The keys of a device (docs/machine-file.md), at `path`: "device" in a file of its own, "cluster.device" in a
/// cluster's.
void write_device_table(TomlWriter&, const DeviceSpec&, const std::string& path);

/// What `switches` may be, in the order of SwitchSum.
[[nodiscard]] const std::vector<std::string_view>& switch_sum_names();

}  // namespace orrery
