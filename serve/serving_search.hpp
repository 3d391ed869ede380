#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "serve/engine.hpp"

namespace orrery {

/// What is asked of a search for serving plans.
struct ServingQuestion {
  ModelSpec model;
  ClusterSpec cluster;  ///< whose devices all serve
  Calibration calibration;
  Engine engine;
  double input = 1024.0, output = 1024.0;  ///< tokens of a request
  std::optional<double> concurrency;       ///< requests under way on the cluster
  std::optional<double> rate;              ///< requests a second; one of the two is set
  ServingLoad further;                     ///< its prefix hits and drafts count
  std::vector<WeightFormat> formats;       ///< to try
  std::vector<bool> kv_fp8;                ///< to try
  std::optional<Seconds> ttft, tpot;       ///< bounds
  std::optional<ServingPlan> only;         ///< this plan alone
};

/// A plan of a replica, how many replicas serve, and what requests meet.
struct ServedPlan {
  ServingPlan plan;
  std::uint32_t replicas = 1;
  ServingMemory memory;
  std::uint64_t sequences_fit = 0;         ///< of whole requests, in one replica
  Bytes kv_sequence;                       ///< of one request, on a device
  double concurrency = 1.0;                ///< of one replica; below 1 the share of the time that it has a request
  ServingTimes times;                      ///< of one replica
  double tokens_per_second = 0.0;          ///< output tokens of all replicas
  std::optional<double> cost_per_million;  ///< of output tokens, in the cluster's currency
  bool keeps_up = true;                    ///< requests do not wait for room
  bool within_bounds = true;

  [[nodiscard]] std::uint32_t devices() const { return replicas * plan.devices(); }
  [[nodiscard]] double tokens_per_second_per_gpu() const { return tokens_per_second / devices(); }
};

/// A point of the picture: one plan at one concurrency.
struct ServingPoint {
  ServingPlan plan;
  double concurrency = 1.0;  ///< of a replica
  Seconds tpot, ttft;
  double tokens_per_second_per_gpu = 0.0;
};

struct RefusedServingPlan {
  ServingPlan plan;
  std::string reason;
};

struct ServingSearch {
  std::vector<ServedPlan> plans;            ///< best first
  std::vector<ServingPoint> front;          ///< of TPOT against tokens per second and GPU, by TPOT; none without TPOT
  std::vector<RefusedServingPlan> refused;  ///< one for each reason
  std::size_t tried = 0, fitting = 0;
};

/// Tries every plan of up to 128 devices and 8 stages: sizes of tensor, pipeline and attention groups that are powers
/// of two, with whole experts or slices of each on every device, and each format of weights and keys.
///
/// With a concurrency, replicas fill the cluster and share the requests, and the plan with the most tokens a second is
/// best. With a rate, as few replicas serve as keep up with it and its bounds, and the plan with the fewest devices is
/// best, then that with the least TPOT (TTFT where outputs are one token); the concurrency of a replica follows from
/// the rate by Little's law. Plans within the bounds come before all others, and then those
/// whose requests do not wait for room.
[[nodiscard]] ServingSearch search_serving(const ServingQuestion&, const std::function<bool()>& go_on = {});

/// The load of a replica at a concurrency, and what a plan makes of it.
[[nodiscard]] ServingLoad replica_load(const ServingQuestion&, double concurrency);
[[nodiscard]] ServingTimes served_times(const ServingQuestion&, const StepPricer&, const ServingPlan&,
                                        const ServingMemory&, double concurrency);

}  // namespace orrery
