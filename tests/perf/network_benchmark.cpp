#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "sim/net/messages.hpp"
#include "tests/support/net/traffic.hpp"

// Flows per second of one core, beside SimGrid in the same run where it was found, and the distance between their
// times. In irregular traffic the next message waits for the last, so a difference of rounding grows from message to
// message; there only the first messages of each host are compared. SimGrid runs with its lazy updates where these are
// right (see SimgridUpdate). Times are CPU time: the best of three, for SimGrid of one.
//
// Then flows over ever larger fabrics.
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

/// Later messages differ by the growth of rounding.
constexpr std::size_t messages_compared = 4;

double difference_of_first(Times a, Times b) {
  for (Times* times : {&a, &b}) {
    for (auto& row : *times) row.resize(std::min(row.size(), messages_compared));
  }
  return largest_difference(a, b);
}

/// Ten shifts of 1 MB between all GPUs of nodes of eight, each on its rail of a
/// full tree of three levels.
void scale(std::uint32_t nodes) {
  using namespace orrery;
  Diagnostics d;
  const auto spec = parse_fabric(
      "schema = 1\n[fabric]\nname = \"pod\"\nnodes = " + std::to_string(nodes) +
          "\nnode = { shape = \"nvswitch\", gpus = 8, nics = 8, bandwidth = \"450 GB/s\", latency = \"500 ns\", "
          "pcie_bandwidth = \"64 GB/s\", pcie_latency = \"200 ns\" }\n"
          "network = { shape = \"fat_tree\", rails = true, down = [32, 64, 64], up = [1, 32, 64], "
          "bandwidth = \"400 Gbit/s\", latency = \"500 ns\" }\n",
      "pod.toml", d);
  const Fabric fabric(*spec);
  Job job;
  for (std::uint32_t g = 0; g < fabric.gpus(); ++g) job.gpus.push_back(g);
  for (std::uint32_t step = 0; step < 10; ++step) {
    for (std::uint32_t g = 0; g < fabric.gpus(); ++g) {
      job.messages.push_back({step, g, (g + 8 * (1 + 38 * step)) % fabric.gpus(), Bytes::of(1e6)});
    }
  }
  for (const PathRule rule : {PathRule::rail_local, PathRule::hashed}) {
    const double before = cpu_now();
    const JobTimes times = run_jobs(fabric, {job}, rule, 1);
    const double seconds = cpu_now() - before;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print("{:<12}{:>8}{:>9}{:>9.2f}{:>12.0f}{:>10.0f}{:>12.1f}\n",
               rule == PathRule::hashed ? "hashed" : "rail-local", fabric.gpus(), job.messages.size(), seconds,
               static_cast<double>(job.messages.size()) / seconds, static_cast<double>(usage.ru_maxrss) / 1e3,
               1e-6 * static_cast<double>(times.ends[0]));
    std::fflush(stdout);
  }
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
    const Process& first = c.traffic.front();
    if (const auto other =
            run_simgrid(c.tree, c.traffic, first.at_once ? SimgridUpdate::full : SimgridUpdate::lazy, &theirs)) {
      const bool all = first.lockstep || first.at_once;
      const std::string difference =
          fmt::format("{:.1e}", all ? largest_difference(times, *other) : difference_of_first(times, *other));
      fmt::print("{:>14.0f}{:>8.1f}{:>12}", flows / theirs, theirs / best, difference);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  fmt::print("\n{:<12}{:>8}{:>9}{:>9}{:>12}{:>10}{:>12}\n", "routes", "GPUs", "flows", "s", "flows/s", "peak MB",
             "ends at us");
  for (const std::uint32_t nodes :
       quick ? std::vector<std::uint32_t>{16, 128} : std::vector<std::uint32_t>{16, 128, 2048, 16384}) {
    scale(nodes);
  }
}
