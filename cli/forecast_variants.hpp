#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/forecast_sizes.hpp"

namespace orrery {

/// One way to train the same model to the same quality: a cluster and a batch, in whatever number of GPUs.
struct ForecastVariant {
  ForecastAnswer answer;
  CommonFlags flags;  ///< with the price of its cluster
};

/// What flags say of other variants.
struct VariantQuestion {
  std::optional<std::string> plan, cluster;
  SearchQuestion question;        ///< without a plan
  std::vector<std::string> also;  ///< clusters, each with the price of a GPU-hour or without: "h200:8x2=3.10"
  bool batches = false;           ///< other batches, too: from an eighth to 8 times, in doubles
  std::function<double(const Workload&)> token_factor;  ///< tokens that the batch needs over those of --tokens
};
/// The answer, and those for other clusters and batches. A batch without a plan is left out; a cluster without one is
/// refused, and so are prices in several currencies where the least money is wished.
[[nodiscard]] std::vector<ForecastVariant> variants_of(const ForecastAnswer&, const VariantQuestion&, const SizeWish&,
                                                       const ForecastWishes&, const CommonFlags&, const PowerTable&);

/// Tries every variant in all its sizes, and takes the best of all: with `least` the least of it, with `within` the
/// fewest GPUs that end in time, of as many the least time. The numbers tried stand variant by variant.
[[nodiscard]] ForecastSizes best_variant(const std::vector<ForecastVariant>&, const SizeWish&, const ForecastWishes&,
                                         const PowerTable&);

}  // namespace orrery
