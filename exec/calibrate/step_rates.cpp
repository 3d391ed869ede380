#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/diagnostics.hpp"
#include "core/program/kernel_table.hpp"
#include "exec/calibrate/kernel_rates.hpp"
#include "exec/calibrate/sample_programs.hpp"
#include "exec/run/execute.hpp"
#include "exec/train/data.hpp"

namespace orrery {

namespace {

/// Durations of equal kernels: the same kind, type and options, and (to 5 %) the same bytes.
struct Bin {
  double size = 0.0;  ///< bytes moved
  std::vector<double> seconds;
};
using Key = std::tuple<KernelKind, DType, bool>;

/// The ratio of a table measured alone to the same kernels within a step.
struct Ratio {
  double slower = 1.0;  ///< seconds amid a step over seconds alone
  double weight = 0.0;  ///< seconds alone
};

struct StepTimes {
  std::map<Key, std::vector<Bin>> bins;
  std::map<const KernelRate*, std::vector<Ratio>> ratios;
  std::vector<double> gaps;
};

const KernelRate* find(const MeasuredRates& rates, const Kernel& k) {
  for (const KernelRate& r : rates.rates) {
    const bool same =
        r.kind == k.kind && r.compute == k.compute &&
        (k.kind == KernelKind::gemm ? r.transpose_a == k.options.transpose_a && r.transpose_b == k.options.transpose_b
                                    : r.dropout == k.options.dropout);
    if (same) return &r;
  }
  return nullptr;
}

double seconds_alone(const KernelRate& table, const Kernel& k) {
  const double work = flops_of(k).executed;
  if (k.kind == KernelKind::gemm) {
    return work / interpolate(table.rate, static_cast<double>(k.rows), static_cast<double>(k.columns),
                              static_cast<double>(k.depth));
  }
  return work / interpolate(table.rate, static_cast<double>(k.rows) / k.batch, static_cast<double>(k.head_dim));
}

void add(std::vector<Bin>& bins, double size, double seconds) {
  for (Bin& b : bins) {
    if (std::abs(std::log(b.size / size)) < 0.05) {
      b.seconds.push_back(seconds);
      return;
    }
  }
  bins.push_back({size, {seconds}});
}

double median(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double weighted_median(std::vector<Ratio> ratios) {
  std::sort(ratios.begin(), ratios.end(), [](const Ratio& a, const Ratio& b) { return a.slower < b.slower; });
  double half = 0.0;
  for (const Ratio& r : ratios) half += 0.5 * r.weight;
  for (const Ratio& r : ratios) {
    half -= r.weight;
    if (half <= 0.0) return r.slower;
  }
  return 1.0;
}

/// Runs a few steps and takes every op's median over them.
void run_steps(const SampleProgram& sample, const StepRuns& how, const MeasuredRates& known, StepTimes& into) {
  RunOptions options;
  options.warmup_steps = 1;
  options.steps = 5;
  const auto data = data_of(sample.model, sample.workload);
  const RunResult result = how.run(sample, *data, options);
  const auto spans = [&](const Trace& t) -> const std::vector<Span>& { return t.ranks[0].spans; };
  const auto over_steps = [&](auto seconds) {
    std::vector<double> all;
    for (const Trace& t : result.traces) all.push_back(1e-12 * static_cast<double>(seconds(spans(t))));
    return median(std::move(all));
  };
  std::optional<std::size_t> previous;
  for_each_op(sample.program, sample.program.classes[0].step, [&](const OpRun& run) {
    const auto* compute = std::get_if<Compute>(&run.op->action);
    if (compute == nullptr) return;
    const std::size_t at = index(run.id);
    const Kernel& k = run.block->kernels[compute->kernel];
    const double took = over_steps([&](const std::vector<Span>& s) { return s[at].end - s[at].start; });
    if (previous) {
      into.gaps.push_back(
          std::max(0.0, over_steps([&](const std::vector<Span>& s) { return s[at].start - s[*previous].end; })));
    }
    previous = at;
    if (k.kind == KernelKind::gemm || is_whole_attention(k.kind)) {
      if (const KernelRate* table = find(known, k)) {
        const double alone = seconds_alone(*table, k);
        into.ratios[table].push_back({std::max(took, 1e-9) / alone, alone});
      }
      return;
    }
    const auto touched = static_cast<double>(touched_bytes(sample.program, *run.block, *run.op));
    const double moved = memory_traffic(k, Bytes::of(touched)).base();
    add(into.bins[{k.kind, k.compute, k.options.dropout}], moved, std::max(took, 1e-9));
  });
}

}  // namespace

void measure_steps(Precision precision, MeasuredRates& into) {
  StepRuns here;
  here.run = [](const SampleProgram& s, const DataSource& data, const RunOptions& options) {
    return execute(s.program, s.model, s.workload, s.plan, data, options);
  };
  // These sizes give 512 to 32,768 elements of a layer's input, and 0.1 to 50 MB of parameter state.
  here.sizes = {{2, 1, 16, 32}, {2, 2, 32, 64}, {4, 4, 64, 128}, {4, 2, 64, 256}};
  measure_steps(precision, here, into);
}

void measure_steps(Precision precision, const StepRuns& how, MeasuredRates& into) {
  StepTimes times;
  const StepSize& largest = how.sizes.back();
  for (const StepSize& size : how.sizes) {
    for (const int variant : {0, 1, 2, 3}) {
      // The middle two add only what the smaller sizes give, too.
      if (size.hidden >= largest.hidden && (variant == 1 || variant == 2)) continue;
      SampleShape shape;
      shape.layers = size.layers;
      shape.microbatches = 2 * size.hidden >= largest.hidden ? 1 : 2;
      shape.sequences = size.sequences;
      shape.length = size.length;
      shape.heads = how.heads;
      shape.head_dim = size.hidden / how.heads;
      shape.llama = variant % 2 == 1;
      shape.flash = variant >= 2;
      shape.dropout = variant == 2;
      shape.sgd = variant == 3;
      run_steps(sample_program(shape, precision), how, into, times);
    }
  }
  for (KernelRate& table : into.rates) {
    const auto ratio = times.ratios.find(&table);
    if (ratio == times.ratios.end()) continue;
    const double slower = weighted_median(std::move(ratio->second));
    for (double& value : table.rate.values) value /= slower;
  }
  for (auto& [key, bins] : times.bins) {
    std::sort(bins.begin(), bins.end(), [](const Bin& a, const Bin& b) { return a.size < b.size; });
    KernelRate table;
    std::tie(table.kind, table.compute, table.dropout) = key;
    table.rate.axes.emplace_back();
    for (const Bin& b : bins) {
      table.rate.axes[0].push_back(b.size);
      table.rate.values.push_back(b.size / median(b.seconds));
    }
    into.rates.push_back(std::move(table));
  }
  into.gaps.insert(into.gaps.end(), times.gaps.begin(), times.gaps.end());
}

}  // namespace orrery
