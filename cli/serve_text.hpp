#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "planner/study/study.hpp"
#include "serve/batching.hpp"
#include "serve/pool_search.hpp"
#include "serve/serving_search.hpp"

namespace orrery {

/// Requests that were played one by one on a plan, beside what was measured of them.
struct PlayedTrace {
  std::string name;
  std::vector<ServedRequest> trace;
  BatchingLimits limits;
  BatchingResult result;
  double pace = 1.0;
  std::size_t fitted = 0;  ///< requests that the pace was fitted to, the first ones
};

/// One figure of many requests.
struct RequestFigures {
  double mean = 0.0, median = 0.0, p90 = 0.0, p99 = 0.0;
};
/// Figures of positive numbers, by nearest rank; zeros where there are none.
[[nodiscard]] RequestFigures request_figures(std::vector<double> values);

/// The plans as columns, their figures as rows; what the best one's time is made of; what is refused, and why.
[[nodiscard]] std::string serving_text(const ServingQuestion&, const ServingSearch&, std::size_t top);
[[nodiscard]] nlohmann::ordered_json serving_json(const ServingQuestion&, const ServingSearch&, std::size_t top);
/// TPOT against tokens per second and GPU: the front, and the plans that answer.
[[nodiscard]] std::vector<Chart> serving_charts(const ServingQuestion&, const ServingSearch&, std::size_t top);

/// The best two pools beside the best replicas; without pools, why there are none.
[[nodiscard]] std::string pools_text(const ServingQuestion&, const ServingSearch&, const std::optional<PooledPlan>&);
[[nodiscard]] nlohmann::ordered_json pools_json(const ServingQuestion&, const std::optional<PooledPlan>&);

[[nodiscard]] std::string played_text(const PlayedTrace&);
[[nodiscard]] nlohmann::ordered_json played_json(const PlayedTrace&);

}  // namespace orrery
