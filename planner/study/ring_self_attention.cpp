#include "planner/study/ring_self_attention.hpp"

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

struct Sizes {
  double bsh = 0.0;     ///< b s h
  double scores = 0.0;  ///< b Z s^2
  double h2 = 0.0;      ///< h^2
};

Sizes sizes_of(const AttentionShape& l) {
  const double b = static_cast<double>(l.sequences);
  const double s = static_cast<double>(l.positions);
  const double h = static_cast<double>(l.hidden);
  return {b * s * h, b * static_cast<double>(l.heads) * s * s, h * h};
}

}  // namespace

RingVolume ring_attention_volume(const AttentionShape& l, std::uint64_t devices) {
  ORRERY_ASSERT(devices >= 1, devices);
  const double n = static_cast<double>(devices);
  const double hop = (n - 1.0) * sizes_of(l).bsh / n;  // (N - 1) U
  return {2.0 * hop, 6.0 * hop, 4.0 * hop};
}

SequenceMemory ring_attention_memory(const AttentionShape& l, std::uint64_t devices) {
  ORRERY_ASSERT(devices >= 1, devices);
  const double n = static_cast<double>(devices);
  const Sizes z = sizes_of(l);
  return {(32.0 + 16.0) * z.h2, (5.0 * z.bsh + 4.0 * z.bsh + z.scores + z.bsh) / n};
}

SequenceMemory tensor_attention_memory(const AttentionShape& l, std::uint64_t devices) {
  ORRERY_ASSERT(devices >= 1, devices);
  const double n = static_cast<double>(devices);
  const Sizes z = sizes_of(l);
  return {(32.0 + 16.0) * z.h2 / n, (4.0 * z.bsh + 4.0 * z.bsh + z.scores) / n + 2.0 * z.bsh};
}

}  // namespace orrery
