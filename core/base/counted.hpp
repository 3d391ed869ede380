#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

/// A number with its noun, "1 node", "8 nodes"; `many` gives a plural that does not end in "s".
[[nodiscard]] std::string counted(std::uint64_t count, std::string_view one, std::string_view many = "");

}  // namespace orrery
