#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/record/report.hpp"

namespace orrery {

/// What came of one point of a sweep.
struct SweptPoint {
  enum class State : std::uint8_t {
    found,      ///< a plan that fits, with its figures
    no_fit,     ///< no plan fits
    refused,    ///< the point itself is wrong: heads that no axis divides, a precision that the device lacks
    ruled_out,  ///< a bound showed that it is not below what was asked for (--keep-below)
  };
  struct Figures {
    std::uint64_t gpus = 0;
    double step_s = 0.0;            ///< said first: predicted, or the middle of the interval where no software is named
    double predicted_step_s = 0.0;  ///< as Report::step_time
    std::optional<double> low_s, high_s;  ///< eight measured runs in ten lie between them
    double tokens_per_s = 0.0, tokens_per_step = 0.0;
    double mfu = 0.0;  ///< 0 where the device's peak is unknown
    std::uint64_t memory_bytes = 0;
    std::optional<std::uint64_t> memory_capacity_bytes;
    std::optional<double> cost_per_step;
    std::string currency;
    friend bool operator==(const Figures&, const Figures&) = default;
  };

  std::uint64_t number = 0;         ///< place in the sweep, from 0
  std::string digest;               ///< 16 hexadecimal digits: of all that the answer follows from
  std::vector<std::string> values;  ///< of the sweep's keys
  State state = State::refused;
  std::string reason;              ///< unless found
  std::string code;                ///< of the diagnostic, where refused
  std::optional<Figures> figures;  ///< where found
  std::string description, plan_file;
  std::uint64_t estimated = 0;  ///< plans
  friend bool operator==(const SweptPoint&, const SweptPoint&) = default;
};

[[nodiscard]] std::string_view name_of(SweptPoint::State);

/// The figures of a report. `step` is the time that is said first; the other figures follow it.
[[nodiscard]] SweptPoint::Figures figures_of(const Report&, Seconds step, std::uint64_t tokens_per_step);

}  // namespace orrery
