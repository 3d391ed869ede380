#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/fnv.hpp"

namespace orrery {

/// Counter-based random numbers: the value depends on the key alone, never on
/// who asks or in which order.  Initial weights and dropout are keyed by the
/// global element index, so they do not depend on the parallel plan.
///
/// The mixing function is SplitMix64 (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014), applied to each key word in turn.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  return mix(mix(mix(seed) ^ stream) ^ counter);
}

/// Uniform in [0, 1), with 53 random bits.
[[nodiscard]] constexpr double random_uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter) {
  return static_cast<double>(random_bits(seed, stream, counter) >> 11) * 0x1.0p-53;
}

/// Standard normal (Box-Muller on two uniforms of the same key).
[[nodiscard]] double random_normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t counter);

/// A stream number from a name, for keys such as parameter names.
[[nodiscard]] constexpr std::uint64_t stream_of(std::string_view name) { return fnv1a(name); }

}  // namespace orrery
