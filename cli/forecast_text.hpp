#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/forecast_subject.hpp"
#include "forecast/forecast.hpp"

namespace orrery {

/// What electricity costs and what it emits; unset: unknown.
struct Electricity {
  std::optional<double> price_per_kwh;
  std::string currency = "USD";
  std::optional<double> grams_per_kwh;  ///< of CO2
  double pue = 1.0;                     ///< energy of the building over that of its machines
};

/// A forecast with everything that its answer says.
struct ForecastAnswer {
  ForecastSubject subject;
  ForecastInputs inputs;
  Forecast forecast;
  SaveWay way = SaveWay::blocking;
  std::string reliability_note;  ///< where the reliability is from
  std::string fewer_note;        ///< why --fewer-replicas changes nothing; empty: it may
  Electricity electricity;

  [[nodiscard]] double wall_s() const { return forecast.wall().base(); }
  /// GPU-hours, spares included.
  [[nodiscard]] double gpu_hours() const;
  [[nodiscard]] std::optional<double> money() const;
  /// Joules of the whole run, the building included; unset where no power of the device is known.
  [[nodiscard]] std::optional<double> joules() const;
  [[nodiscard]] double step_joules() const;
};

/// Another number of GPUs that was looked at.
struct ForecastChoice {
  std::uint64_t gpus = 0;
  double wall_s = 0.0;
  std::optional<double> money, joules;
};

[[nodiscard]] std::string forecast_text(const ForecastAnswer&);
/// Days, money, energy and effective time of several plans, a row each, numbered as the plans are.
[[nodiscard]] std::string forecasts_text(const std::vector<ForecastAnswer>&);
/// Every figure with the numbers that it was computed from, and their sources.
[[nodiscard]] std::string forecast_explained(const ForecastAnswer&);
[[nodiscard]] nlohmann::ordered_json forecast_json(const ForecastAnswer&);
/// Timeline of one run, distribution of days, and cost against GPUs, as an SVG document.
[[nodiscard]] std::string forecast_svg(const ForecastAnswer&, const std::vector<ForecastChoice>&);

}  // namespace orrery
