#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "sim/net/import/nccl_channels.hpp"

namespace orrery {

/// NCCL's channels of one communicator, for a person and for a program.
[[nodiscard]] std::string channels_text(const NcclChannelReport&);
[[nodiscard]] nlohmann::ordered_json channels_json(const NcclChannelReport&);

}  // namespace orrery
