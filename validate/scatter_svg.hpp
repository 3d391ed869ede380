#pragma once

#include <string>

#include "validate/validation.hpp"

namespace orrery {

/// Predicted over measured step time of every row as one SVG document. It has two logarithmic axes, the line of
/// equality, lines 10 % off, and a colour and a marker for each group. Text is real text, escaped; the same input gives
/// the same bytes.
[[nodiscard]] std::string scatter_svg(const Validation&, GroupBy);

}  // namespace orrery
