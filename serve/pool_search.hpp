#pragma once

#include <functional>
#include <optional>

#include "serve/serving_search.hpp"

namespace orrery {

/// Workers that compute prompts, others that decode, and what requests meet on both pools together.
struct PooledPlan {
  ServingPlan prompts, decode;
  std::uint32_t prompt_workers = 1, decode_workers = 1;
  Bytes keys;        ///< of a prompt, that travel from one pool to the other
  Seconds transfer;  ///< of these
  ServingTimes times;
  double tokens_per_second = 0.0;  ///< output tokens of all workers
  std::optional<double> cost_per_million;
  bool within_bounds = true;
  std::size_t tried = 0;  ///< pairs and splits that were priced

  [[nodiscard]] std::uint32_t devices() const {
    return prompt_workers * prompts.devices() + decode_workers * decode.devices();
  }
};

/// The best two pools for a question with a concurrency. For each combination of formats, the six plans that compute
/// the most prompts a second and GPU are tried with the twelve that serve best as replicas, and the cluster is split
/// between them at 1, 2, 3, 4, 6, 8, 12, 16 ... workers for prompts. The best has the most tokens a second within the
/// bounds, if any keeps within. Empty where no two workers fit the cluster.
///
/// The keys of a prompt travel over the level that joins all devices, each device of the smaller worker sending or
/// getting its part. Leaves out: transfers that share links, and tokens that decode before all keys are there.
[[nodiscard]] std::optional<PooledPlan> search_pools(const ServingQuestion&, const ServingSearch&,
                                                     const std::function<bool()>& go_on = {});

}  // namespace orrery
