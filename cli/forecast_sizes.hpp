#pragma once

#include <optional>
#include <vector>

#include "cli/forecast_answer.hpp"

namespace orrery {

/// The same run on other numbers of GPUs.
struct ForecastSizes {
  std::vector<ForecastChoice> tried;  ///< that fit and end, ascending
  /// The least of them that ends within the time asked for; unset: none does, or no time was asked for.
  std::optional<ForecastAnswer> in_time;
};

/// Tries an eighth to 64 times the GPUs, halves and doubles with three quarters between them. With `within` seconds it
/// stops at the first that ends in time, and closes in from the last that does not, node by node or replica by replica.
/// Draws its own progress; ends early when interrupted().
[[nodiscard]] ForecastSizes forecast_sizes(const ForecastAnswer&, std::optional<double> within, const ForecastWishes&,
                                           const CommonFlags&, const PowerTable&);

}  // namespace orrery
