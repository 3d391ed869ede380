#pragma once

#include <cstdint>
#include <optional>

#include "planner/search.hpp"

namespace orrery {

/// What a search knows beyond its result when it states what it has proven.
struct CertificateInput {
  Objective objective = Objective::step_time;
  Bytes capacity;                           ///< memory of a device
  Bytes headroom;                           ///< of it, kept free
  std::optional<Bytes> host;                ///< of a host, where the space has something there
  std::optional<Seconds> least_bound_left;  ///< least bound on the step of the plans not estimated
  std::optional<Seconds> best_simulated;
  std::uint64_t below_simulated = 0;  ///< plans not simulated that may be faster than best_simulated
};

/// Sets certified, simulated_certified and certificate of `result`.
void write_certificate(SearchResult& result, const CertificateInput&);

}  // namespace orrery
