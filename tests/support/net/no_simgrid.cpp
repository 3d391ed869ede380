#include "tests/support/net/traffic.hpp"

namespace orrery::test {

std::optional<Times> run_simgrid(const Tree&, const Traffic&, SimgridUpdate, double*) { return std::nullopt; }

}  // namespace orrery::test
