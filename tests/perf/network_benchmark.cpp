#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/net/traffic.hpp"

// Flows per second of one core, beside SimGrid in the same run where it was
// found, and how far apart their times are.  Where the next message of irregular
// traffic waits for the last, a difference of rounding grows from message to
// message, so times are compared where all start at once (with SimGrid's full
// updates, see SimgridUpdate).  CPU time; the best of three.
//
//   perf_network [quick]

namespace {

using namespace orrery::test;

struct Case {
  const char* name;
  Tree tree;
  Traffic traffic;
};

std::vector<Case> cases(bool quick) {
  std::vector<Case> out;
  for (const std::uint32_t n : quick ? std::vector<std::uint32_t>{64} : std::vector<std::uint32_t>{64, 128, 256, 512}) {
    out.push_back({"ring, star", star(n), ring(n, 1, 1e9)});
    out.push_back({"ring, 2:1 tree", two_to_one(n), ring(n, 1, 1e9)});
    out.push_back({"strided ring, 2:1 tree", two_to_one(n), ring(n, 16, 1e9)});
    out.push_back({"two rings, 2:1 tree", two_to_one(n), ring(n, 1, 1e9, 2)});
    out.push_back({"irregular, star", star(n), irregular(n, 100, 7)});
    out.push_back({"irregular, 2:1 tree", two_to_one(n), irregular(n, 100, 7)});
    out.push_back({"8 at once, star", star(n), irregular(n, 8, 7, true)});
    out.push_back({"8 at once, 2:1 tree", two_to_one(n), irregular(n, 8, 7, true)});
  }
  return out;
}

double cpu_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double largest_difference(const Times& a, const Times& b) {
  double worst = 0.0;
  for (std::size_t p = 0; p < a.size(); ++p) {
    for (std::size_t k = 0; k < a[p].size(); ++k) worst = std::max(worst, std::abs(a[p][k] - b[p][k]) / b[p][k]);
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string(argv[1]) == "quick";
  fmt::print("{:<24}{:>6}{:>9}{:>14}{:>13}{:>14}{:>8}{:>12}\n", "traffic", "hosts", "flows", "flows/s", "levels/flow",
             "SimGrid's", "times", "difference");
  for (const Case& c : cases(quick)) {
    double best = std::numeric_limits<double>::max();
    std::uint64_t levels = 0;
    Times times;
    for (int i = 0; i < (quick ? 1 : 3); ++i) {
      const double before = cpu_now();
      times = run(c.tree, c.traffic, &levels);
      best = std::min(best, cpu_now() - before);
    }
    const auto flows = static_cast<double>(flows_of(c.traffic));
    fmt::print("{:<24}{:>6}{:>9}{:>14.0f}{:>13.1f}", c.name, c.tree.hosts, flows, flows / best,
               static_cast<double>(levels) / flows);
    std::fflush(stdout);  // before the process is copied
    double theirs = 0.0;
    if (const auto other = run_simgrid(c.tree, c.traffic, SimgridUpdate::lazy, &theirs)) {
      std::string difference = "-";
      if (c.traffic.front().lockstep) difference = fmt::format("{:.1e}", largest_difference(times, *other));
      if (c.traffic.front().at_once) {
        difference =
            fmt::format("{:.1e}", largest_difference(times, *run_simgrid(c.tree, c.traffic, SimgridUpdate::full)));
      }
      fmt::print("{:>14.0f}{:>8.1f}{:>12}", flows / theirs, theirs / best, difference);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
}
