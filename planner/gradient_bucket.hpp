#pragma once

#include <cstdint>

#include "core/base/units.hpp"
#include "core/spec/workload.hpp"

namespace orrery {

/// Bytes of one gradient reduction over `data` replicas: max(40e6, 1e6 x data)
/// gradients.  Large enough that a ring's latency, which grows with its
/// members, is small beside the transfer; small enough that the last bucket,
/// which nothing hides, is short.
///
/// Source: the default of Megatron-LM's data-parallel buckets, so that an
/// exported plan behaves as predicted.
[[nodiscard]] Bytes default_gradient_bucket(const Workload&, std::uint32_t data);

}  // namespace orrery
