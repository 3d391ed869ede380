#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace orrery {

struct ForecastAnswer;
struct ForecastChoice;

[[nodiscard]] std::string forecast_text(const ForecastAnswer&);
/// Days, money, energy and effective time of several plans, a row each, numbered as the plans are.
[[nodiscard]] std::string forecasts_text(const std::vector<ForecastAnswer>&);
/// "32 GPUs of dgx-a100 with batches of 512 end", without what all that were tried have in common. One GPU "ends".
[[nodiscard]] std::string chosen_text(const ForecastAnswer&, const std::vector<ForecastChoice>&, std::string_view verb);
/// What was tried, a row each; clusters and batches where there are several.
[[nodiscard]] std::string choices_text(const ForecastAnswer&, const std::vector<ForecastChoice>&);
[[nodiscard]] nlohmann::ordered_json choices_json(const std::vector<ForecastChoice>&);
/// Every figure with the numbers that it was computed from, and their sources.
[[nodiscard]] std::string forecast_explained(const ForecastAnswer&);
[[nodiscard]] nlohmann::ordered_json forecast_json(const ForecastAnswer&);
/// Timeline of one run, distribution of days, and cost against GPUs, as an SVG document.
[[nodiscard]] std::string forecast_svg(const ForecastAnswer&, const std::vector<ForecastChoice>&);

}  // namespace orrery
