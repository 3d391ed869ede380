#include "cli/validate_here.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/here_plans.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "core/base/units_text.hpp"
#include "core/program/lower/lower.hpp"
#include "core/record/calibration_file.hpp"
#include "core/record/operation.hpp"
#include "core/record/summarize.hpp"
#include "exec/calibrate/calibrate.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/data.hpp"
#include "sim/des/simulate.hpp"
#include "validate/statistics.hpp"

namespace orrery {
namespace {

constexpr double most_median_pct = 10.0;

/// The gaps between ops count as a kind of their own, the last.
constexpr std::size_t gap_kind = operation_count;
using KindSeconds = std::array<double, operation_count + 1>;

struct Subject {
  HerePlan what;
  Program program;
  std::vector<Report> predicted{};  ///< with every calibration
  std::vector<double> steps{};      ///< measured, s
  std::vector<Trace> traces{};
  std::uint64_t measured_peak = 0;  ///< bytes, of the rank with most

  [[nodiscard]] double measured() const {
    std::vector<double> sorted = steps;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  /// The distance between the quartiles, over the median.
  [[nodiscard]] double spread() const {
    std::vector<double> sorted = steps;
    std::sort(sorted.begin(), sorted.end());
    return (sorted[sorted.size() * 3 / 4] - sorted[sorted.size() / 4]) / measured();
  }
  /// The predictions with all calibrations in order, in seconds.
  [[nodiscard]] std::vector<double> predicted_steps() const {
    std::vector<double> sorted;
    for (const Report& r : predicted) sorted.push_back(r.step_time.base());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
  /// Median over the calibrations, s.
  [[nodiscard]] double predicted_step() const {
    const std::vector<double> sorted = predicted_steps();
    return 0.5 * (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]);
  }
  [[nodiscard]] std::uint64_t predicted_peak() const {
    return static_cast<std::uint64_t>(predicted.front().peak_memory_bytes);  // no matter how fast the machine is
  }
  [[nodiscard]] double error() const { return error_pct(predicted_step(), measured()); }
  [[nodiscard]] bool memory_is_exact() const { return measured_peak == predicted_peak(); }
};

void measure(Subject& s) {
  RunOptions options;
  options.warmup_steps = 1;
  options.steps = 4;
  options.cancel = &interrupted();
  const auto data = data_of(s.what.run.model, s.what.run.workload);
  RunResult result = execute(s.program, s.what.run.model, s.what.run.workload, s.what.run.plan, *data, options);
  for (Trace& trace : result.traces) {
    s.steps.push_back(summarize(s.what.run, s.program, trace, false).step_time.base());
    s.traces.push_back(std::move(trace));
  }
  for (const RankMemory& m : result.memory) s.measured_peak = std::max(s.measured_peak, m.peak_bytes);
}

/// Adds the seconds of a step in each kind of operation, as means over ranks. Each op counts with its lower quartile
/// over all steps, since other programs only ever add time.
void add_measured(const Subject& s, KindSeconds& into) {
  const auto quartile = [](std::vector<double>& v) {
    const auto at = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 4);
    std::nth_element(v.begin(), at, v.end());
    return *at;
  };
  const double share = 1e-12 / static_cast<double>(s.program.mesh.size());
  for (std::size_t r = 0; r < s.traces.front().ranks.size(); ++r) {
    const Rank rank = s.traces.front().ranks[r].rank;
    std::optional<std::size_t> previous;
    for_each_op(s.program, s.program.classes[class_of(s.program, rank)].step, [&](const OpRun& op) {
      if (!is_timed(*op.op)) return;
      std::vector<double> took, gap;
      for (const Trace& t : s.traces) {
        const std::vector<Span>& spans = t.ranks[r].spans;
        took.push_back(static_cast<double>(spans[index(op.id)].end - spans[index(op.id)].start));
        if (previous) gap.push_back(static_cast<double>(spans[index(op.id)].start - spans[*previous].end));
      }
      const Operation kind = operation_of(s.program, *op.block, *op.op);
      into[static_cast<std::size_t>(kind)] += share * quartile(took);
      // Before communication the rank may have something to wait for.
      if (previous && !is_communication(kind)) into[gap_kind] += share * quartile(gap);
      previous = index(op.id);
    });
  }
}

struct KindError {
  std::string name;
  double predicted = 0.0, measured = 0.0;  ///< seconds, over all plans with no more ranks than cores
};

std::vector<KindError> by_kind(const std::vector<Subject>& subjects, std::uint32_t cores) {
  KindSeconds measured{};
  std::vector<KindError> out;
  for (const Subject& s : subjects) {
    if (s.program.mesh.size() > cores || s.traces.empty()) continue;
    add_measured(s, measured);
    for (const Report& report : s.predicted) {
      for (const OperationTime& o : report.operations) {
        auto at = std::find_if(out.begin(), out.end(), [&](const KindError& k) { return k.name == o.name; });
        if (at == out.end()) at = out.insert(at, KindError{o.name});
        at->predicted += o.time.base() / static_cast<double>(s.predicted.size());
      }
    }
  }
  for (KindError& k : out) {
    for (std::size_t i = 0; i < operation_count; ++i) {
      if (measured[i] > 0.0 && name_of(static_cast<Operation>(i)) == k.name) k.measured = measured[i];
    }
  }
  if (!out.empty()) out.push_back({"between operations", 0.0, measured[gap_kind]});
  std::stable_sort(out.begin(), out.end(),
                   [](const KindError& a, const KindError& b) { return a.measured > b.measured; });
  return out;
}

/// How much longer, in per cent, steps take by the slowest calibration than by the fastest, for the median plan; empty
/// where there is one calibration.
std::optional<double> drift_of(const std::vector<Subject>& subjects) {
  std::vector<double> drifts;
  for (const Subject& s : subjects) {
    if (s.predicted.size() < 2) return std::nullopt;
    const std::vector<double> steps = s.predicted_steps();
    drifts.push_back(error_pct(steps.back(), steps.front()));
  }
  if (drifts.empty()) return std::nullopt;
  const auto middle = drifts.begin() + static_cast<std::ptrdiff_t>(drifts.size() / 2);
  std::nth_element(drifts.begin(), middle, drifts.end());
  return *middle;
}

ErrorSummary errors_of(const std::vector<Subject>& subjects, std::uint32_t cores, bool crowded) {
  std::vector<double> errors;
  for (const Subject& s : subjects) {
    if ((s.program.mesh.size() > cores) == crowded) errors.push_back(s.error());
  }
  return summarize_errors(errors);
}

nlohmann::ordered_json summary_json(const ErrorSummary& e) {
  return {{"n", e.n},
          {"mape_pct", e.mape_pct},
          {"median_pct", e.median_pct},
          {"p90_pct", e.p90_pct},
          {"max_pct", e.max_pct},
          {"bias_pct", e.bias_pct}};
}

nlohmann::ordered_json here_json(const std::vector<Subject>& subjects, const Calibration& c,
                                 const ErrorSummary& fitting, const ErrorSummary& crowded, bool exact) {
  nlohmann::ordered_json out{{"machine", c.machine}, {"calibration", c.source}, {"cores", c.cores}};
  if (const auto drift = drift_of(subjects)) out["drift_pct"] = *drift;
  out["plans"] = nlohmann::ordered_json::array();
  for (const Subject& s : subjects) {
    out["plans"].push_back({{"name", s.what.name},
                            {"ranks", s.program.mesh.size()},
                            {"predicted_s", s.predicted_step()},
                            {"measured_s", s.measured()},
                            {"spread", s.spread()},
                            {"error_pct", s.error()},
                            {"peak_memory_bytes", s.predicted_peak()},
                            {"measured_peak_memory_bytes", s.measured_peak}});
  }
  out["operations"] = nlohmann::ordered_json::array();
  for (const KindError& k : by_kind(subjects, c.cores)) {
    out["operations"].push_back({{"name", k.name}, {"predicted_s", k.predicted}, {"measured_s", k.measured}});
  }
  out["summary"] = {{"plans_within_cores", summary_json(fitting)},
                    {"plans_beyond_cores", summary_json(crowded)},
                    {"memory_exact", exact}};
  return out;
}

std::string here_text(const std::vector<Subject>& subjects, const Calibration& c, const ErrorSummary& fitting,
                      const ErrorSummary& crowded, bool exact) {
  const auto ms = [](double s) { return fmt::format("{:.2f} ms", 1e3 * s); };
  const auto pct = [](double p) { return fmt::format("{:+.1f} %", p); };
  std::string out = fmt::format("{}\ncalibration: {}\n", c.machine, c.source);
  if (const auto drift = drift_of(subjects)) {
    out += fmt::format("measured before the plans and after each round; by the slowest, steps take {:.1f} % longer\n",
                       *drift);
  }
  out += "\nPlans trained here, simulated beside measured step\n";
  Table table({"plan", "ranks", "predicted", "measured", "spread", "error", "peak memory", "measured"});
  for (const Subject& s : subjects) {
    table.row({s.what.name, fmt::format("{}", s.program.mesh.size()), ms(s.predicted_step()), ms(s.measured()),
               percent(s.spread(), 0), pct(s.error()), with_commas(s.predicted_peak()), with_commas(s.measured_peak)});
  }
  out += table.str();
  Table kinds({"operations of plans within the cores", "predicted", "measured", "error"});
  for (const KindError& k : by_kind(subjects, c.cores)) {
    kinds.row(
        {k.name, ms(k.predicted), ms(k.measured), k.measured > 0.0 ? pct(error_pct(k.predicted, k.measured)) : ""});
  }
  out += "\n" + kinds.str();
  Table summary({"errors", "n", "median", "MAPE", "p90", "max", "bias"});
  const auto row = [&](const char* name, const ErrorSummary& e) {
    if (e.n == 0) return;
    summary.row({name, fmt::format("{}", e.n), fmt::format("{:.1f} %", e.median_pct),
                 fmt::format("{:.1f} %", e.mape_pct), fmt::format("{:.1f} %", e.p90_pct),
                 fmt::format("{:.1f} %", e.max_pct), pct(e.bias_pct)});
  };
  row("no more ranks than cores", fitting);
  row("more ranks than cores", crowded);
  return out + "\n" + summary.str() +
         (exact ? "\nPeak memory is as predicted, to the byte.\n" : "\nPeak memory is NOT as predicted.\n");
}

Calibration read_for_here(const std::string& file) {
  Diagnostics d;
  std::optional<Calibration> read = read_calibration(file, d);
  require_none(d);
  if (read->device != "cpu-core") {
    refuse("cli.calibration", fmt::format("{} is for {}, not for this machine's cores", file, read->device));
  }
  return *read;
}

Calibration measured_here(Ticker& ticker) {
  CalibrateOptions options;
  options.progress = [&](double share) {
    if (interrupted().load()) throw Error("interrupted");
    ticker.show("calibrate", static_cast<std::uint64_t>(share * 1000.0), 1000);
  };
  return calibrate(options).calibration;
}

/// Simulates every plan with these prices.
void predict_all(std::vector<Subject>& subjects, const Library& library, const Calibration& prices) {
  for (Subject& s : subjects) {
    Diagnostics d;
    const auto cluster = library.cluster("local-cpu", {}, static_cast<std::uint32_t>(s.program.mesh.size()), d);
    require_none(d);
    s.predicted.push_back(simulate(s.what.run, s.program, CostModel(*cluster, prices, s.program.mesh)).report);
  }
}

}  // namespace

int validate_here(const CommonFlags& flags, const HereRequest& request) {
  require_output(flags);
  catch_interrupt();
  const Library library = library_of(flags);
  std::optional<Ticker> ticker(std::in_place, "calibrate");
  const Calibration calibration = flags.calibration ? read_for_here(*flags.calibration) : measured_here(*ticker);
  std::vector<Subject> subjects;
  for (HerePlan& plan : here_plans(request.plans, request.seed, calibration.cores)) {
    Program program = lower(plan.run.model, plan.run.workload, plan.run.plan);
    subjects.push_back({std::move(plan), std::move(program)});
  }
  predict_all(subjects, library, calibration);
  // Plans run in turn, so that a slow minute of the machine meets all of them. Shared machines, or machines that grow
  // warm, are not equally fast before and after the plans, nor in every minute. So they are measured again after each
  // round, and the median does not depend on one minute.
  for (std::uint32_t r = 0; r < request.rounds; ++r) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      if (interrupted().load()) throw Error("interrupted: nothing was compared");
      ticker->show("train", r * subjects.size() + i, request.rounds * subjects.size());
      measure(subjects[i]);
    }
    if (interrupted().load()) throw Error("interrupted: nothing was compared");
    if (!flags.calibration) predict_all(subjects, library, measured_here(*ticker));
  }
  const bool exact =
      std::all_of(subjects.begin(), subjects.end(), [](const Subject& s) { return s.memory_is_exact(); });
  ticker.reset();
  const ErrorSummary fitting = errors_of(subjects, calibration.cores, false);
  const ErrorSummary crowded = errors_of(subjects, calibration.cores, true);
  const nlohmann::ordered_json json = here_json(subjects, calibration, fitting, crowded, exact);
  write_output(flags, json_text(json));
  if (prints_output(flags)) {
    // It has been printed.
  } else if (flags.json) {
    print_json(json);
  } else {
    print(here_text(subjects, calibration, fitting, crowded, exact));
  }
  return exact && fitting.median_pct <= most_median_pct ? status_fine : status_no;
}

}  // namespace orrery
