#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "planner/study/chart_svg.hpp"
#include "tests/perf/llama_step.hpp"

// The cost of simulating one step of Llama-3-405B over a shared fabric, on 8 to 131,072 GPUs. It shows time and memory
// over GPUs where routes are symmetric, and over classes of ranks where hashed routes or stragglers part them.
// Everything after reading the files counts: lowering, prices, classes, events, report. Times are CPU time of one
// thread. Peak memory is that of the process so far, so sizes rise.
//
//   perf_folding [quick] [FILE.svg]

namespace {

using namespace orrery;

struct Row {
  double gpus, classes, seconds;
};

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1e3;
}

void print_heading() {
  fmt::print("{:<15}{:>8}{:>12}{:>9}{:>9}{:>9}{:>10}{:>9}{:>9}{:>9}{:>9}\n", "routes", "GPUs", "stragglers", "ranks",
             "links", "flows", "events", "CPU s", "wall s", "peak MB", "step s");
}

Row measure(const char* routes, std::uint32_t gpus, PathRule rule, bool stages_outside, std::uint32_t slow) {
  const perf::LlamaStep step = perf::llama_step(gpus, stages_outside);
  std::optional<Stragglers> stragglers;
  if (slow > 0) stragglers = Stragglers{1, slow, 1.2};
  const auto wall = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  const Simulation s = perf::play(step, rule, stragglers);
  const double seconds = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - wall;
  fmt::print("{:<15}{:>8}{:>12}{:>9}{:>9}{:>9}{:>10}{:>9.2f}{:>9.2f}{:>9.0f}{:>9.3f}\n", routes, gpus, slow,
             s.rank_classes, s.link_classes.value_or(0), s.flow_classes.value_or(0), s.events, seconds, passed.count(),
             peak_megabytes(), s.report.step_time.base());
  std::fflush(stdout);
  return {static_cast<double>(gpus), static_cast<double>(s.rank_classes), seconds};
}

Series series(std::string name, const std::vector<Row>& rows, bool over_classes) {
  Series out{std::move(name), {}};
  for (const Row& r : rows) out.points.push_back({over_classes ? r.classes : r.gpus, r.seconds});
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  std::string svg;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "quick") {
      quick = true;
    } else {
      svg = word;
    }
  }
  print_heading();
  std::vector<Row> rails, hashed, slow, apart;
  for (const std::uint32_t g : {8U, 64U, 128U, 512U, 1024U, 2048U, 4096U, 8192U, 16384U, 32768U, 65536U, 131072U}) {
    if (!quick || g <= 1024) rails.push_back(measure("rail-local", g, PathRule::rail_local, false, 0));
  }
  for (std::uint32_t g = 64; g <= (quick ? 1024 : 16384); g *= 4) {
    hashed.push_back(measure("hashed", g, PathRule::hashed, false, 0));
  }
  for (std::uint32_t k = 1; k <= (quick ? 4U : 32U); k *= 2) {
    slow.push_back(measure("rail-local", quick ? 1024 : 16384, PathRule::rail_local, false, k));
  }
  for (std::uint32_t g = 128; g <= (quick ? 256 : 4096); g *= 2) {
    apart.push_back(measure("hashed, far", g, PathRule::hashed, true, 0));
  }
  if (svg.empty()) return 0;
  std::vector<Chart> charts(3);
  charts[0] = {"Over GPUs: stages on neighbouring nodes", "GPUs", "CPU seconds", true, true, {}, {}};
  charts[0].series = {series("rail-local routes", rails, false), series("hashed routes", hashed, false)};
  charts[1] = {
      "Over classes: 1 to 32 stragglers among 16,384 GPUs", "classes of ranks", "CPU seconds", true, true, {}, {}};
  charts[1].series = {series("rail-local routes", slow, true)};
  charts[2] = {
      "Over classes: 128 to 4,096 GPUs, stages far apart", "classes of ranks", "CPU seconds", true, true, {}, {}};
  charts[2].series = {series("hashed routes", apart, true)};
  std::ofstream(svg) << charts_svg("perf_folding", "Simulating one step of Llama-3-405B over a shared fabric", charts);
}
