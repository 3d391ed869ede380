#pragma once

#include <optional>
#include <string_view>

#include "jobs/cluster_job.hpp"

namespace orrery {

/// A decimal number of seconds, exact to the microsecond ("487.661836"); further digits are rounded. Empty for all
/// else, and beyond `longest_time` either way.
[[nodiscard]] std::optional<Microseconds> seconds_in(std::string_view text);

/// A date with a time, "2023-03-01 00:00:03", with T in place of the space, with a fraction of the second, with Z or an
/// offset of the zone ("+08:00"); without one it counts as UTC. In microseconds since 1970. Empty for all else.
[[nodiscard]] std::optional<Microseconds> date_in(std::string_view text);

/// A date as date_in() reads it, or a decimal number of seconds from 0 to 10^10 (since 1970, or any other beginning).
[[nodiscard]] std::optional<Microseconds> instant_in(std::string_view text);

/// A whole number from 0 to 10^8, also written as "4.0". Empty for all else.
[[nodiscard]] std::optional<std::uint32_t> count_in(std::string_view text);

}  // namespace orrery
