#pragma once

#include <cstdint>

#include "core/program/kernel.hpp"

namespace orrery {

/// Which keys a query of an attention kernel sees, by global positions.
///
///     not causal          all
///     causal              those up to its own position
///     window of w         the last w of these: query i sees j with i - w < j <= i
///     chunks of w         those of its own chunk: j <= i, with j / w == i / w (whole numbers)
struct Sight {
  bool causal = false;
  bool chunked = false;
  std::uint64_t window = 0;  ///< 0: neither a window nor chunks
};
[[nodiscard]] Sight sight_of(const Kernel&);

/// Positions first, first + 1, ..., end - 1.
struct Positions {
  std::uint64_t first = 0, end = 0;
};

/// Pairs of a query and a key that the query sees.
[[nodiscard]] std::uint64_t seen_pairs(const Sight&, Positions queries, Positions keys);

/// The same of whole sequences.  With s positions and w < s these are
///
///     not causal   s^2
///     causal       s (s + 1) / 2
///     window       w (w + 1) / 2 + (s - w) w
///     chunks       n w (w + 1) / 2 + r (r + 1) / 2,   n = floor(s / w), r = s - n w
///
/// Derived by counting; held to a count one by one in tests/unit/core/program/sight_test.cpp.
[[nodiscard]] std::uint64_t seen_pairs(const Sight&, std::uint64_t length);

/// Whether the sight leaves out keys that a causal mask alone would show, in sequences of this length.
[[nodiscard]] bool is_local(const Sight&, std::uint64_t length);

}  // namespace orrery
