// How far predicted step times are from measured ones, on this machine.
//
// Calibrates once, then runs every plan in alternation (so that a slow minute
// of the machine meets all of them), and compares the median step with estimate
// and simulate.  Kinds of operations are compared over all plans without
// oversubscription.  Exit status 1 when the median error of plans with no more
// ranks than cores is above 15 %, or that of the others above 25 %.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>

#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/record/operation.hpp"
#include "core/record/summarize.hpp"
#include "core/spec/library.hpp"
#include "exec/calibrate/calibrate.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/data.hpp"
#include "sim/des/simulate.hpp"
#include "sim/estimate/estimate.hpp"
#include "tests/perf/prediction/cases.hpp"

namespace {

using namespace orrery;

struct Options {
  std::string calibration;  ///< read from; empty: measure
  std::string save;
  std::string only;
  int rounds = 5;
  std::uint64_t steps = 4;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0.0 : v[v.size() / 2];
}

double quartile(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0.0 : v[v.size() / 4];
}

struct OperationSum {
  double predicted = 0.0;
  double measured = 0.0;
};

struct Subject {
  PredictionCase what;
  Program program;
  std::vector<double> steps;  ///< measured seconds
  std::vector<Trace> traces;
  Report estimated;
  Report simulated;

  [[nodiscard]] double measured() const { return median(steps); }
  [[nodiscard]] double error(const Report& r) const { return r.step_time.base() / measured() - 1.0; }
};

ClusterSpec cluster_for(const Subject& s) {
  const Library library(ORRERY_SOURCE_DIR "/models");
  Diagnostics diagnostics;
  const auto ranks = static_cast<std::uint32_t>(s.program.mesh.size());
  auto cluster = library.cluster("local-cpu", {}, ranks, diagnostics);
  if (!cluster) throw Error(render(diagnostics));
  return *cluster;
}

void measure(Subject& s, const Options& options) {
  const auto data = data_of(s.what.run.model, s.what.run.workload);
  RunOptions run;
  run.warmup_steps = 1;
  run.steps = options.steps;
  const RunResult result = execute(s.program, s.what.run.model, s.what.run.workload, s.what.run.plan, *data, run);
  for (const Trace& trace : result.traces) {
    s.steps.push_back(summarize(s.what.run, s.program, trace, false).step_time.base());
    s.traces.push_back(trace);
  }
}

/// Seconds per step of every kind of operation, mean over ranks.  Each op counts
/// with its lower quartile over all steps: other programs only ever add time.
std::map<std::string, double> operation_times(const Subject& s) {
  std::map<std::string, double> times;
  const auto ranks = static_cast<double>(s.program.mesh.size());
  for (std::size_t r = 0; r < s.traces[0].ranks.size(); ++r) {
    const Rank rank = s.traces[0].ranks[r].rank;
    std::int64_t previous = -1;
    for_each_op(s.program, s.program.classes[class_of(s.program, rank)].step, [&](const OpRun& op) {
      if (!is_timed(*op.op)) return;
      std::vector<double> took;
      std::vector<double> gap;
      for (const Trace& t : s.traces) {
        const Span span = t.ranks[r].spans[index(op.id)];
        took.push_back(1e-12 * static_cast<double>(span.end - span.start));
        if (previous >= 0) {
          gap.push_back(1e-12 *
                        static_cast<double>(span.start - t.ranks[r].spans[static_cast<std::size_t>(previous)].end));
        }
      }
      const Operation kind = operation_of(s.program, *op.block, *op.op);
      times[name_of(kind)] += quartile(took) / ranks;
      // Before a compute op there is nothing to wait for on a serial device.
      if (previous >= 0 && !is_communication(kind)) times["(between ops)"] += quartile(gap) / ranks;
      previous = index(op.id);
    });
  }
  return times;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--calibration") o.calibration = argv[i + 1];
    if (flag == "--save") o.save = argv[i + 1];
    if (flag == "--only") o.only = argv[i + 1];
    if (flag == "--rounds") o.rounds = std::atoi(argv[i + 1]);
    if (flag == "--steps") o.steps = static_cast<std::uint64_t>(std::atoi(argv[i + 1]));
  }
  return o;
}

Calibration calibration_for(const Options& options) {
  if (options.calibration.empty()) {
    Calibration c = calibrate({}).calibration;
    if (!options.save.empty()) std::ofstream(options.save) << calibration_text(c);
    return c;
  }
  Diagnostics diagnostics;
  auto c = read_calibration(options.calibration, diagnostics);
  if (!c) throw Error(render(diagnostics));
  return *c;
}

void print(const std::vector<Subject>& subjects, const Calibration& calibration) {
  fmt::print("{:<52} {:>5} {:>10} {:>7} {:>10} {:>10} {:>7} {:>10} {:>7}\n", "plan", "ranks", "measured", "spread",
             "busy sum", "estimate", "error", "simulate", "error");
  for (const Subject& s : subjects) {
    std::vector<double> sorted = s.steps;
    std::sort(sorted.begin(), sorted.end());
    double undisturbed = 0.0;
    for (const auto& [name, time] : operation_times(s)) undisturbed += time;
    const double spread = (sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]) / s.measured();
    fmt::print("{:<52} {:>5} {:>7.2f} ms {:>5.0f} % {:>7.2f} ms {:>7.2f} ms {:>5.1f} % {:>7.2f} ms {:>5.1f} %\n",
               s.what.name, s.program.mesh.size(), 1e3 * s.measured(), 100 * spread, 1e3 * undisturbed,
               1e3 * s.estimated.step_time.base(), 100 * s.error(s.estimated), 1e3 * s.simulated.step_time.base(),
               100 * s.error(s.simulated));
  }
  std::map<std::string, OperationSum> sums;
  for (const Subject& s : subjects) {
    if (s.program.mesh.size() > calibration.cores) continue;
    for (const OperationTime& o : s.simulated.operations) sums[o.name].predicted += o.time.base();
    for (const auto& [name, time] : operation_times(s)) sums[name].measured += time;
  }
  std::vector<std::pair<std::string, OperationSum>> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return a.second.measured > b.second.measured; });
  fmt::print("\nplans of no more ranks than cores: time by kind of operation, mean over ranks, summed over plans\n");
  for (const auto& [name, sum] : sorted) {
    fmt::print("  {:<32} measured {:>9.3f} ms  predicted {:>9.3f} ms  {:>7.1f} %\n", name, 1e3 * sum.measured,
               1e3 * sum.predicted, 100 * (sum.predicted / sum.measured - 1.0));
  }
}

int run(const Options& options) {
  const Calibration calibration = calibration_for(options);
  fmt::print("{}, spread {:.1f} %\n", calibration.machine, 100 * calibration.spread);
  std::vector<Subject> subjects;
  for (PredictionCase& c : prediction_cases()) {
    if (!options.only.empty() && c.name.find(options.only) == std::string::npos) continue;
    Program program = lower(c.run.model, c.run.workload, c.run.plan);
    subjects.push_back({std::move(c), std::move(program), {}, {}, {}, {}});
  }
  for (int r = 0; r < options.rounds; ++r) {
    for (Subject& s : subjects) measure(s, options);
  }
  std::vector<double> fitting;
  std::vector<double> crowded;
  for (Subject& s : subjects) {
    const CostModel costs(cluster_for(s), calibration, s.program.mesh);
    s.estimated = estimate(s.what.run, s.program, costs);
    s.simulated = simulate(s.what.run, s.program, costs).report;
    (s.program.mesh.size() <= calibration.cores ? fitting : crowded).push_back(std::abs(s.error(s.simulated)));
  }
  print(subjects, calibration);
  fmt::print("\nmedian |error| of simulate: {:.1f} % over {} plans with no more ranks than cores (target 15 %)",
             100 * median(fitting), fitting.size());
  fmt::print("; {:.1f} % over {} with more (target 25 %)\n", 100 * median(crowded), crowded.size());
  return median(fitting) <= 0.15 && (crowded.empty() || median(crowded) <= 0.25) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--help") == 0) {
    std::puts("perf_prediction [--calibration FILE] [--save FILE] [--only PART-OF-NAME] [--rounds N] [--steps N]");
    return 0;
  }
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}
