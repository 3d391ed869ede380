#include "planner/gradient_bucket.hpp"

#include <algorithm>

namespace orrery {

Bytes default_gradient_bucket(const Workload& workload, std::uint32_t data) {
  const std::uint64_t elements = std::max<std::uint64_t>(40'000'000, std::uint64_t{1'000'000} * data);
  return Bytes::of(static_cast<double>(elements * size_of(gradient_dtype(workload))));
}

}  // namespace orrery
