#pragma once

#include <optional>

#include "sim/net/import/nccl_channels.hpp"
#include "sim/net/import/source.hpp"

namespace orrery::importing {

// The report of one file: channels, ranks, no notes.
[[nodiscard]] std::optional<NcclChannelReport> read_nccl_graph(Source&, std::optional<std::uint32_t> nodes);
[[nodiscard]] std::optional<NcclChannelReport> read_nccl_log(Source&, std::optional<std::uint32_t> nodes);

}  // namespace orrery::importing
