// Sia's integer program, solved by GLPK's glpsol and by our dynamic programme: the least sums must be equal. Exits with
// 77 where glpsol is not installed.

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/random.hpp"
#include "jobs/least_cost_choice.hpp"
#include "jobs/sia_policy.hpp"
#include "tests/support/program_run.hpp"

using namespace orrery;
using Lists = std::vector<std::vector<CostedChoice>>;

namespace {

/// Jobs with speeds at random on powers of two and whole nodes of 4, as Sia would see them, and some that run already.
Lists sia_choices(std::uint64_t seed) {
  Lists out(2 + random_bits(seed, 1, 0) % 30);
  for (std::size_t j = 0; j < out.size(); ++j) {
    const double scaling = random_uniform(seed, 2, j), factor = 0.2 + 0.8 * random_uniform(seed, 3, j);
    const std::uint64_t held = random_bits(seed, 4, j) % 6;
    out[j].push_back({0, sia_cost_without_gpus});
    std::uint64_t c = 0;
    for (const std::uint32_t gpus : {1U, 2U, 4U, 8U, 12U, 16U, 32U}) {
      const double speed = gpus / (1.0 + (1.0 - scaling) * (gpus - 1.0));
      out[j].push_back({gpus, sia_cost(speed, held == 0 || held == c ? 1.0 : factor)});
      ++c;
    }
  }
  return out;
}

/// In the form of CPLEX's LP files.
std::string lp_text(const Lists& lists, std::uint32_t room) {
  std::string cost = "Minimize\n cost:", rows = "Subject To\n", gpus = " room:", names = "Binary\n";
  for (std::size_t j = 0; j < lists.size(); ++j) {
    std::string one = fmt::format(" job{}:", j);
    for (std::size_t c = 0; c < lists[j].size(); ++c) {
      const std::string x = fmt::format("x{}_{}", j, c);
      cost += fmt::format(" + {} {}\n", lists[j][c].cost, x);
      one += fmt::format(" + {}\n", x);
      if (lists[j][c].takes > 0) gpus += fmt::format(" + {} {}\n", lists[j][c].takes, x);
      names += " " + x + "\n";
    }
    rows += one + " = 1\n";
  }
  return cost + rows + gpus + fmt::format(" <= {}\n", room) + names + "End\n";
}

/// The optimum that glpsol reports: "Objective:  cost = 1234 (MINimum)". -1 where it reports none.
std::int64_t optimum(const std::string& report) {
  const std::size_t at = report.find("Objective:  cost = ");
  if (report.find("INTEGER OPTIMAL") == std::string::npos || at == std::string::npos) return -1;
  return std::strtoll(report.c_str() + at + 19, nullptr, 10);
}

}  // namespace

int main() {
  const test::TemporaryFolder folder;
  if (std::system("glpsol --version >/dev/null 2>&1") != 0) {
    std::puts("glpsol is not installed (apt-get install glpk-utils)");
    return 77;
  }
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    const Lists lists = sia_choices(seed);
    const auto room = static_cast<std::uint32_t>(8 + random_bits(seed, 5, 0) % 57);
    const std::vector<std::uint32_t> chosen = least_cost_choice(lists, room);
    std::int64_t cost = 0;
    for (std::size_t j = 0; j < lists.size(); ++j) cost += lists[j][chosen[j]].cost;
    test::write(folder.file("sia.lp"), lp_text(lists, room));
    const std::string command =
        "glpsol --lp " + folder.file("sia.lp") + " -o " + folder.file("report") + " >/dev/null 2>&1";
    const bool ran = std::system(command.c_str()) == 0;
    const std::int64_t best = ran ? optimum(test::contents(folder.file("report"))) : -1;
    std::printf("%zu jobs, %u GPUs: %lld, glpsol %lld\n", lists.size(), room, static_cast<long long>(cost),
                static_cast<long long>(best));
    if (cost != best) ++wrong;
  }
  return wrong == 0 ? 0 : 1;
}
