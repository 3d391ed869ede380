#pragma once

#include <optional>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/library.hpp"

namespace orrery {

/// Whether a reference to a cluster describes it in one word: DEVICE:COUNT, DEVICE:COUNTxBOXES, and both with @PORT, as
/// "h200:8x4", "l40s:8" or "4090:4x2@100 Gbit/s".
[[nodiscard]] bool is_cluster_word(const std::string& reference);

/// The word with a port of this bandwidth, "h200:8x4@100 Gbit/s". An empty `port` leaves it as it is.
[[nodiscard]] std::string with_port(const std::string& word, const std::string& port);

/// Builds the natural boxes of a device from its [device.links]: COUNT devices each, BOXES of them (1 without). A COUNT
/// of several full boxes is that many: "h200:16" is "h200:8x2".
///
/// * NVLink or Infinity Fabric joins the devices of a box; COUNT may be all that it joins, even over several hosts
///   (gb200:72). One network port belongs to each device.
/// * PCIe joins cards without such links, four of a processor, two processors in a box. One port belongs to each box.
///
/// Everything that the word does not say is in ClusterSpec::assumed. Codes: cluster.word, library.unknown-device
[[nodiscard]] std::optional<ClusterSpec> cluster_of_word(const std::string& word, const Library&, Diagnostics&);

}  // namespace orrery
