#pragma once

#include <string>
#include <vector>

#include "planner/study/study.hpp"

namespace orrery {

/// The charts of a study as one SVG document, below its name and title: axes with
/// units, grid, legend; series differ by colour, marker and dash, so they can
/// be told apart in grey too.  Text is real text, escaped; same input, same
/// bytes.  Points that a logarithmic axis cannot show (0 and below) are left out.
[[nodiscard]] std::string charts_svg(const std::string& name, const std::string& title, const std::vector<Chart>&);

}  // namespace orrery
