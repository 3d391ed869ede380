#pragma once

#include <optional>
#include <string>

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
  /// The price of that energy, in the electricity's currency; unset where the energy or the price of a kWh is unknown.
  [[nodiscard]] std::optional<double> electricity_cost() const;
  /// CO2 of that energy in kg; unset where the energy or the grams of a kWh are unknown.
  [[nodiscard]] std::optional<double> co2_kg() const;
  /// Model FLOPS utilization of a healthy step.
  [[nodiscard]] double mfu() const;
};

/// Another number of GPUs that was looked at.
struct ForecastChoice {
  std::string cluster;
  std::uint64_t batch = 0;  ///< sequences
  std::uint64_t gpus = 0;
  double wall_s = 0.0;
  std::optional<double> money, joules;
};

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
