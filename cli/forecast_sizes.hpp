#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/forecast_answer.hpp"

namespace orrery {

/// What is wanted of another number of GPUs.
struct SizeWish {
  enum class Least : std::uint8_t { days, money, energy };
  std::optional<double> within;  ///< seconds: the fewest GPUs that end in time
  std::optional<Least> least;    ///< the number with the least of this; fewer GPUs where two have as much
};

/// Refuses (forecast.price, forecast.power) an answer whose amount is unknown.
void require_amount(const ForecastAnswer&, SizeWish::Least);
/// The amount of it. Requires that it is known.
[[nodiscard]] double amount_of(const ForecastAnswer&, SizeWish::Least);

/// The same run on other numbers of GPUs.
struct ForecastSizes {
  std::vector<ForecastChoice> tried;     ///< that fit and whose time is known, ascending
  std::optional<ForecastAnswer> chosen;  ///< by the wish; unset: none does it, or nothing was wished
};

/// Tries the GPUs that were asked for, their eighth and its doubles up to 64 times the GPUs, and one and a half times
/// each of these, ascending. With `within` it stops at the first that ends in time, and closes in from the last that
/// does not, in whole nodes and replicas. Draws its own progress; throws Error when interrupted.
[[nodiscard]] ForecastSizes forecast_sizes(const ForecastAnswer&, const SizeWish&, const ForecastWishes&,
                                           const CommonFlags&, const PowerTable&);

}  // namespace orrery
