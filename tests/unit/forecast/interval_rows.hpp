#pragma once

#include <array>

#include "core/base/units.hpp"

namespace orrery::test {

/// Jobs from 1,800 s to 27,000 s between failures. Young's and Daly's intervals, the optimum and its efficiency were
/// computed apart, by Halley's method for Lambert's function and by a Monte Carlo of 60,000 failures each.
struct IntervalRow {
  double mean, save, restart, young, daly, best, efficiency;
};
inline constexpr std::array<IntervalRow, 6> interval_rows{{{10008, 60, 600, 1096, 1056, 1056, .8424},
                                                           {11124, 30, 300, 817, 797, 797, .9036},
                                                           {11124, 5, 180, 334, 330, 330, .9547},
                                                           {6480, 60, 600, 882, 842, 842, .7931},
                                                           {1800, 120, 600, 657, 580, 580, .4857},
                                                           {27000, 120, 1800, 2546, 2466, 2466, .8501}}};

}  // namespace orrery::test
