#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

/// A whole number as people write counts of tokens and sequences: digits alone, or digits with k (1024) or M (1024²)
/// behind them: "8k" is 8192. Empty where the text is anything else, or the number is 2^63 or more.
[[nodiscard]] std::optional<std::uint64_t> whole_number(std::string_view text);

}  // namespace orrery
