#pragma once

#include <optional>
#include <string>

#include "cli/forecast_subject.hpp"
#include "cli/forecast_text.hpp"

namespace orrery {

/// What flags say of a forecast besides its subject and its tokens.
struct ForecastWishes {
  std::optional<std::string> reliability;  ///< a name, a file, or "none"; unset: the cluster's, else llama-3
  SaveWay saves = SaveWay::blocking;
  std::optional<std::uint32_t> save_every, spares;
  bool fewer_replicas = false;
  std::uint64_t runs = 1000, seed = 1;
  Electricity electricity;
};

/// The same with as few simulated runs as the mean needs (ForecastInputs::runs).
[[nodiscard]] ForecastWishes quick(ForecastWishes);

/// Forecasts the subject's run of so many tokens. Refuses (cli.amount) more steps than 2^53. Draws its own progress;
/// throws Error when interrupted.
[[nodiscard]] ForecastAnswer forecast_answer(const ForecastSubject&, double tokens, const ForecastWishes&,
                                             const CommonFlags&);

}  // namespace orrery
