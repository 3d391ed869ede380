#include "tests/oracle/numerics/check_numerics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/random.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/lower/lower.hpp"
#include "exec/run/execute.hpp"
#include "exec/run/gather.hpp"
#include "exec/train/parameters.hpp"
#include "exec/train/single_device.hpp"
#include "tests/oracle/numerics/collect.hpp"
#include "tests/oracle/numerics/expected_totals.hpp"
#include "tests/oracle/numerics/few_bits.hpp"

namespace orrery::test {
namespace {

constexpr double spread_factor = 6.0;
constexpr double ceiling_factor = 4.0;

/// Standard deviation of a rough start. Matrices keep about half the size of what they multiply, so that a deep model
/// stays well conditioned; everything else, tables included, has 1/2.
double rough_deviation(const std::string& name, std::uint64_t rows) {
  const bool table =
      name == "embedding.word.weight" || name == "embedding.position.weight" || name == "head.output.weight";
  return rows > 1 && !table ? 0.5 / std::sqrt(static_cast<double>(rows)) : 0.5;
}

/// Whether a tensor that starts at 1 keeps that start.
bool keeps_ones(const Workload& w) { return w.precision != Precision::fp64; }

void roughen(Program& program, const Workload& workload, const ParameterSet& shapes) {
  for (ParameterTable& table : program.parameter_tables) {
    for (ParameterSlice& slice : table.slices) {
      if (slice.init == Init::ones && keeps_ones(workload)) continue;
      std::string prefix = table.module + ".";
      // All layers of a kind have parameters of the same shapes.
      std::uint32_t layer = 0;
      while (of_layers(table) && layer + 1 < program.layers &&
             !shapes.contains(fmt::format("layers.{}.{}", layer, slice.name))) {
        ++layer;
      }
      if (of_layers(table)) prefix = fmt::format("layers.{}.", layer);
      const auto found = shapes.find(prefix + slice.name);
      // The head's copy of a tied table bears the full name already.
      const auto& [name, shape] = found != shapes.end() ? *found : *shapes.find(slice.name);
      slice.init = Init::normal;
      slice.init_scale = rough_deviation(name, shape.rows);
    }
  }
}

ParameterSet rough_start(const ModelSpec& model, const Workload& workload) {
  ParameterSet set;
  const auto add = [&](ReferenceParameter p) {
    if (p.start != ReferenceParameter::Start::ones || !keeps_ones(workload)) {
      p.start = ReferenceParameter::Start::normal;
      p.deviation = rough_deviation(p.name, p.rows);
    }
    return set.try_emplace(p.name, initial_tensor(p, workload)).first;
  };
  for (const ReferenceParameter& p : parameters_of(model)) {
    Matrix& tensor = add(p)->second;
    for (double& x : tensor.values) x = workload.adapters ? rounded(x, weight_dtype(workload)) : x;
  }
  for (const ReferenceParameter& p : trained_parameters_of(model, workload)) add(p);
  return set;
}

double largest(const Matrix& m) {
  double size = 0.0;
  for (const double x : m.values) size = std::max(size, std::abs(x));
  return size;
}

/// NaN counts as infinite: a comparison with NaN must not pass.
double distance(const Matrix& a, const Matrix& b) {
  double worst = 0.0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double d = std::abs(a.values[i] - b.values[i]);
    worst = std::max(worst, std::isnan(d) ? HUGE_VAL : d);
  }
  return worst;
}

bool finite(const ParameterSet& set) {
  for (const auto& [name, tensor] : set) {
    for (const double x : tensor.values) {
      if (!std::isfinite(x)) return false;
    }
  }
  return true;
}

double rms(const ParameterSet& set) {
  double squares = 0.0;
  double count = 0.0;
  for (const auto& [name, tensor] : set) {
    for (const double x : tensor.values) squares += x * x;
    count += static_cast<double>(tensor.values.size());
  }
  return std::sqrt(squares / count);
}

class Check {
 public:
  Check(const PlannedRun& run, const NumericsOptions& options)
      : run_(run),
        options_(options),
        data_(run.model.architecture == Architecture::decoder
                  ? synthetic_data(run.model.vocabulary, run.workload.seed, options.ignored)
                  : data_of(run.model, run.workload)),
        program_(lower(run.model, run.workload, run.plan)),
        state_(initial_state(run.model, run.workload)) {
    if (options.damage) options.damage(program_);
    if (options.rough) {
      roughen(program_, run.workload, state_.parameters);
      state_.parameters = rough_start(run.model, run.workload);
    }
    if (run.workload.adapters && run.workload.adapters->base != BaseWeights::unquantized) {
      store_in_few_bits(program_, run.workload, state_.parameters);
    }
  }

  NumericsResult run() {
    RunOptions options;
    options.steps = options_.steps;
    options.poison = true;
    options.concurrent_lanes = options_.concurrent_lanes;
    options.on_event = [this](const RunEvent& event) { event.step == 0 ? after_setup(event) : after_step(event); };
    // Not a byte more than the Program's own peak on any tier.
    std::uint64_t device = 0, host = 0;
    for (std::uint32_t r = 0; r < program_.mesh.size(); ++r) {
      const ExpectedTotals totals = expected_totals(program_, Rank{r});
      device = std::max(device, totals.peak_bytes);
      host = std::max(host, totals.host_peak_bytes);
    }
    options.device_room = device;
    options.host_room = host;
    const RunResult result = options_.execute
                                 ? options_.execute(program_, *data_, options)
                                 : execute(program_, run_.model, run_.workload, run_.plan, *data_, options);
    for (std::uint32_t r = 0; r < program_.mesh.size(); ++r) {
      const ExpectedTotals expected = expected_totals(program_, Rank{r});
      const RankMemory& memory = result.memory[r];
      // The memory that the pool gave out, with one block for buffers that share it: with one op at a time nothing is
      // held longer.
      if (!options.concurrent_lanes && memory.held_bytes != expected.peak_bytes) {
        fail(fmt::format("rank {}: {} bytes were held, not {}", r, memory.held_bytes, expected.peak_bytes));
      }
      if (memory.host_peak_bytes != expected.host_peak_bytes) {
        fail(fmt::format("rank {}: host peak {} bytes is not {}", r, memory.host_peak_bytes, expected.host_peak_bytes));
      }
      if (memory.disk_peak_bytes != expected.disk_peak_bytes) {
        fail(fmt::format("rank {}: disk peak {} bytes is not {}", r, memory.disk_peak_bytes, expected.disk_peak_bytes));
      }
    }
    if (result.losses.size() != options_.steps || result.traces.size() != options_.steps) fail("steps are missing");
    for (const Trace& trace : result.traces) check_traffic(trace);
    if (!result_.drowned) {
      for (std::string& line : gradients_off_) fail(std::move(line));
    }
    return std::move(result_);
  }

 private:
  void fail(std::string line) { result_.failures.push_back(std::move(line)); }

  /// The ranks' parts as whole tensors, by the tests' own reading and by exec/run's.
  ParameterSet gathered(const RunEvent& event, const char* what, Held held = Held::all) {
    // Weights that stay as they are have nothing but themselves.
    ParameterSet shapes;
    for (const auto& [name, tensor] : state_.parameters) {
      if (is_trained(name) || std::string_view(what) == "weights") shapes.emplace(name, tensor);
    }
    ParameterSet set = collect(program_, *event.buffers, what, held, shapes, result_.failures, run_.workload.adapters);
    // gather requires a sound Program: it learns from the ops which parts are current, and throws where holders
    // disagree.
    if (options_.damage || !finite(set)) return set;
    const GlobalTensors same = gather(program_, *event.buffers, what);
    ParameterSet in_full = set;
    std::erase_if(in_full, [&](const auto& tensor) { return is_in_few_bits(tensor.first); });
    if (same.size() != in_full.size()) fail(fmt::format("gather finds {} tensors of {}", same.size(), what));
    for (const auto& [name, tensor] : in_full) {
      const auto found = same.find(name);
      if (found == same.end() || found->second.values != tensor.values)
        fail(fmt::format("gather reads another {}", name));
    }
    return set;
  }
  /// What the optimizer updates, and the weights that stay as they are.
  ParameterSet parameters(const RunEvent& event) {
    ParameterSet set = gathered(event, has_master_weights(run_.workload) ? "masters" : "weights");
    if (run_.workload.adapters && has_master_weights(run_.workload)) {
      for (auto& [name, tensor] : gathered(event, "weights")) {
        if (!is_trained(name)) set.emplace(name, tensor);
      }
    }
    return set;
  }
  bool is_trained(const std::string& name) const {
    return !run_.workload.adapters || name.find(".adapter.") != std::string::npos;
  }

  /// Whether no buffer holds the tensor in full, and codes and scales do.
  bool is_in_few_bits(const std::string& name) const {
    return std::any_of(program_.parameter_tables.begin(), program_.parameter_tables.end(), [&](const auto& table) {
      return of_base(table) && name.starts_with("layers.") && name.ends_with("." + table.slices.front().name);
    });
  }

  void after_setup(const RunEvent& event) {
    equal("start of the parameters", parameters(event), state_.parameters);
    equal("start of the weights", gathered(event, "weights"), working_weights(run_.workload, state_.parameters));
  }

  void after_step(const RunEvent& event) {
    const Workload& w = run_.workload;
    const ParameterSet weights = working_weights(w, state_.parameters);
    const ReferenceGradients expected = reference_gradients(run_.model, w, weights, *data_, event.step);
    RoundingSpread spread;
    if (weight_dtype(w) != wide_dtype(w)) spread = rounding_spread(weights, expected, event.step);
    check_loss(event, expected.loss,
               gradient_bound(w.precision) + spread_factor * spread.loss / std::abs(expected.loss));
    const StageMap map = stage_map(run_.plan);
    const Rank head = program_.mesh.moved(Rank{0}, Axis::pipeline, map.rank(map.stages() - 1));
    const double count = scalar_on(program_, *event.buffers, head, "count");
    if (count != static_cast<double>(expected.count)) fail(fmt::format("count {} is not {}", count, expected.count));

    const bool sharded = run_.plan.zero_stage >= 1 && !shard_axes_of(run_.plan).empty();
    ParameterSet gradients = gathered(event, "gradients", sharded ? Held::own_part : Held::all);
    for (auto& [name, tensor] : gradients) {
      for (double& g : tensor.values) g /= state_.loss_scale;
    }
    const bool overflow = w.precision == Precision::fp16 && !finite(gradients);
    if (overflow) {
      ++result_.skipped;
      // Sums may overflow on the way although neither terms nor result do; far below the limit nothing does.
      const double largest_value =
          std::max(expected.largest_signal, largest_of(expected.gradients)) * state_.loss_scale;
      if (largest_value < 65504.0 / 16.0) fail(fmt::format("overflow although nothing exceeds {}", largest_value));
    } else {
      const auto condition = [&] { return condition_number(weights, expected, event.step); };
      check_gradients(event.step, gradients, expected.gradients, spread.gradients, condition);
    }
    check_update(event, gradients);
  }

  static double largest_of(const ParameterSet& set) {
    double size = 0.0;
    for (const auto& [name, tensor] : set) size = std::max(size, largest(tensor));
    return size;
  }

  /// How far rounding to 16 bits alone moves the reference: the largest of a few draws.
  struct RoundingSpread {
    double loss = 0.0;
    std::map<std::string, double> gradients;
  };
  RoundingSpread rounding_spread(const ParameterSet& weights, const ReferenceGradients& exact, std::uint64_t step) {
    const Workload& w = run_.workload;
    RoundingSpread spread;
    for (std::uint64_t draw = 0; draw < 3; ++draw) {
      const StorageRounding rounding{weight_dtype(w), state_.loss_scale, gradient_dtype(w) == weight_dtype(w), draw};
      const ReferenceGradients rounded = reference_gradients(run_.model, w, weights, *data_, step, rounding);
      spread.loss = std::max(spread.loss, std::abs(rounded.loss - exact.loss));
      for (const auto& [name, tensor] : exact.gradients) {
        double& largest_yet = spread.gradients[name];
        largest_yet = std::max(largest_yet, distance(rounded.gradients.at(name), tensor));
      }
    }
    return spread;
  }

  void check_loss(const RunEvent& event, double expected, double bound) {
    if (!event.loss) return fail("no loss");
    result_.losses.push_back(*event.loss);
    const double error = std::abs(*event.loss - expected) / std::abs(expected);
    result_.loss_error = std::max(result_.loss_error, std::isnan(error) ? HUGE_VAL : error);
    if (!(error <= bound)) {
      fail(fmt::format("step {}: loss {} is not {}: error {:.3g} above {:.3g}", event.step, *event.loss, expected,
                       error, bound));
    }
  }

  /// How many times as far as the weights the gradients move, both relative to their size. It is the largest of a few
  /// draws that change every weight by up to 2^-30 of itself, in double and without any rounding.
  double condition_number(const ParameterSet& weights, const ReferenceGradients& exact, std::uint64_t step) const {
    constexpr double change = 0x1p-30;
    const double rms_of_all = rms(exact.gradients);
    double condition = 0.0;
    for (std::uint64_t draw = 0; draw < 3; ++draw) {
      ParameterSet moved = weights;
      std::uint64_t count = 0;
      for (auto& [name, tensor] : moved) {
        for (double& x : tensor.values) x *= 1.0 + change * (2.0 * random_uniform(draw, 0, count++) - 1.0);
      }
      const ReferenceGradients other = reference_gradients(run_.model, run_.workload, moved, *data_, step);
      for (const auto& [name, tensor] : exact.gradients) {
        const double size = std::max(largest(tensor), rms_of_all);
        condition = std::max(condition, distance(other.gradients.at(name), tensor) / (change * size));
      }
    }
    return condition;
  }

  /// The part of the bound that does not depend on the spread. Between the loss and a gradient lie about twenty stored
  /// tensors per layer, ten forward and ten backward, and ten outside the layers. Each rounding moves its elements by
  /// at most the unit roundoff u, in independent directions. So n roundings move a gradient by about u sqrt(n) of the
  /// size of the terms that it is a sum of. Terms may cancel (a key bias has no gradient at all), hence sizes count
  /// from the root mean square of all gradients. `ceiling_factor` covers what products and normalizations make of a
  /// relative error on the way.
  ///
  /// Some models enlarge errors more, and not by a power of their depth (the median grows as the root): where the
  /// residual stream nearly cancels, the next norm enlarges what errors it has. Two of 500 drawn models of eight or ten
  /// layers exceeded the bound. In the worst of them a change of a weight below one norm counts fifty to two hundred
  /// times, and above it some five times. A rounded product is the exact product with weights that are wrong by u
  /// (Wilkinson 1963). So errors are enlarged as such changes of the weights are, which the exact reference can tell.
  /// Its condition number takes the root's place where it is larger. The factor then is for twenty roundings where a
  /// layer has some six weights, sqrt(20 / 6), and for a tail twice as far out as the largest of three draws.
  double ceiling(const Matrix& expected, double rms_of_all, double enlarged) const {
    return ceiling_factor * gradient_bound(run_.workload.precision) * enlarged *
           std::max(largest(expected), rms_of_all);
  }
  double root_of_roundings() const { return std::sqrt(20.0 * static_cast<double>(run_.model.layers) + 10.0); }

  /// `spread` is empty where the bound is the precision's own; `condition` is computed only where it matters.
  void check_gradients(std::uint64_t step, const ParameterSet& gradients, const ParameterSet& expected,
                       const std::map<std::string, double>& spread, const std::function<double()>& condition) {
    const double rms_of_all = rms(expected);
    const double floor = 1e-3 * rms_of_all;
    double enlarged = root_of_roundings();
    bool asked = false;
    for (const auto& [name, tensor] : expected) {
      const double size = std::max(largest(tensor), floor);
      const double error = distance(gradients.at(name), tensor) / size;
      double bound = gradient_bound(run_.workload.precision);
      if (!spread.empty()) {
        double most = ceiling(tensor, rms_of_all, enlarged) / size;
        if (error > most && !asked) {
          asked = true;
          enlarged = std::max(enlarged, condition());
          most = ceiling(tensor, rms_of_all, enlarged) / size;
          result_.condition = std::max(result_.condition, enlarged);
        }
        bound = std::min(bound + spread_factor * spread.at(name) / size, most);
        result_.ceiling_share = std::max(result_.ceiling_share, error / most);
      }
      if (error / bound > result_.gradient_share) {
        result_.gradient_share = error / bound;
        result_.worst_gradient = name;
      }
      result_.gradient_error = std::max(result_.gradient_error, error);
      if (error > bound) {
        gradients_off_.push_back(
            fmt::format("step {}: gradient of {}: error {:.3g} above {:.3g}", step, name, error, bound));
        result_.drowned = result_.drowned || (!spread.empty() && bound > 1.0);
      }
    }
  }

  /// Applies the reference's rule to the executed gradients. The executor computes it in the state type: a handful of
  /// roundings per element, with cancellation only against the weight or moment itself.
  void check_update(const RunEvent& event, const ParameterSet& gradients) {
    const Workload& w = run_.workload;
    const TrainingState before = state_;
    TrainingState expected = state_;
    const UpdateResult update = apply_update(run_.model, w, gradients, expected);
    state_.parameters = parameters(event);
    for (const auto& [name, tensor] : before.parameters) {
      if (!is_trained(name) && state_.parameters.at(name).values != tensor.values) {
        fail(fmt::format("{} changes, but adapters alone are trained", name));
      }
    }
    const double bound = w.precision == Precision::fp64 ? 1e-12 : 4e-6;
    if (state_dtype(w) == wide_dtype(w)) {
      near("parameters", state_.parameters, expected.parameters, before.parameters, bound);
    } else {
      rounded_near(gradients, before, bound);
    }
    equal("weights", gathered(event, "weights"), working_weights(w, state_.parameters));
    // bf16 has 8 digits, and its neighbours are 2^-7 apart; a value near their middle may be rounded to either. In
    // blocks, which the reference places otherwise, either rounding is off by half a unit: 2^-4 for E4M3, 2^-11 for
    // f16.
    const bool scaled = has_scaled_moments(w);
    const double kept = moment_dtype(w) == DType::bf16 ? 0x1p-7 : scaled ? 0x1p-3 : bound;
    if (optimizer_moments(w) >= 1) state_.moment1 = gathered(event, "moment1");
    if (optimizer_moments(w) >= 2) state_.moment2 = gathered(event, "moment2");
    if (moment_dtype(w) == DType::u8) {
      near_codes(gradients, before, bound);
    } else {
      near("moment1", state_.moment1, expected.moment1, before.moment1, kept);
      near("moment2", state_.moment2, expected.moment2, before.moment2, scaled ? 0x1p-10 : kept);
    }
    if (update.skipped) {
      equal("parameters of a skipped step", state_.parameters, before.parameters);
    }
    state_.factored = expected.factored;  // seen in the next update
    state_.steps = expected.steps;
    state_.loss_scale = expected.loss_scale;
    state_.good_steps = expected.good_steps;
    for (std::uint32_t r = 0; r < program_.mesh.size(); ++r) {
      const double steps = scalar_on(program_, *event.buffers, Rank{r}, "steps");
      if (steps != static_cast<double>(state_.steps))
        fail(fmt::format("rank {}: steps {} is not {}", r, steps, state_.steps));
      if (w.precision != Precision::fp16) continue;
      const double scale = scalar_on(program_, *event.buffers, Rank{r}, "loss_scale");
      if (scale != state_.loss_scale)
        fail(fmt::format("rank {}: loss scale {} is not {}", r, scale, state_.loss_scale));
    }
  }

  void near(const char* what, const ParameterSet& a, const ParameterSet& b, const ParameterSet& before, double bound) {
    for (const auto& [name, tensor] : b) {
      const double size = std::max(largest(tensor), largest(before.at(name)));
      const double d = distance(a.at(name), tensor);
      const double error = d == 0.0 ? 0.0 : d / size;
      result_.update_error = std::max(result_.update_error, error);
      if (error > bound) fail(fmt::format("{} {} after the update: error {:.3g}", what, name, error));
    }
  }

  /// Moments in codes are off by at most half a part of the map. Blocks of a Program may hold other parameters of the
  /// module, so a block's scale is at most the module's largest.
  void near_codes(const ParameterSet& gradients, const TrainingState& before, double bound) {
    Workload wide = run_.workload;
    wide.moment_dtype = wide_dtype(wide);
    TrainingState exact = before;
    if (apply_update(run_.model, wide, gradients, exact).skipped) return;
    codes_of("moment1", state_.moment1, exact.moment1, before.moment1, false, bound);
    codes_of("moment2", state_.moment2, exact.moment2, before.moment2, true, bound);
  }
  void codes_of(const char* what, const ParameterSet& is, const ParameterSet& exact, const ParameterSet& before,
                bool squares, double bound) {
    const auto module_of = [](const std::string& name) {
      return name.starts_with("layers.") ? name.substr(0, name.find('.', 7)) : std::string();
    };
    std::map<std::string, double> most;
    for (const auto& [name, tensor] : exact) {
      double& m = most[module_of(name)];
      m = std::max(m, largest(tensor));
    }
    for (const auto& [name, tensor] : exact) {
      const double scale = most.at(module_of(name));
      const double margin = bound * std::max(largest(tensor), largest(before.at(name)));
      std::size_t off = 0;
      for (std::size_t i = 0; i < tensor.values.size(); ++i) {
        const double x = tensor.values[i];
        // The decade of a number twice as large, so that its neighbour across a border counts.
        int decade = 6;
        while (decade > 0 && 2.0 * std::abs(x) <= scale * std::pow(10.0, decade - 7)) --decade;
        const double part = 0.45 / std::pow(2.0, decade + (squares ? 1 : 0));
        // With a smaller scale it may be at the lower end of the next decade, of twice as many parts.
        const double half =
            std::max(scale * std::pow(10.0, decade - 6) * part, decade < 6 ? 20.0 * std::abs(x) * part / 2.0 : 0.0);
        off += std::abs(is.at(name).values[i] - x) <= 1.000001 * half + margin ? 0 : 1;
      }
      if (off > 0) fail(fmt::format("{} {} after the update: {} are not the nearest code", what, name, off));
    }
  }

  /// Weights without masters are as above before they are rounded: each is the nearest 16-bit number of a value within
  /// the bound.
  void rounded_near(const ParameterSet& gradients, const TrainingState& before, double bound) {
    Workload exact = run_.workload;
    exact.moment_dtype = moment_dtype(exact);
    exact.master_weights = true;
    TrainingState expected = before;
    apply_update(run_.model, exact, gradients, expected);
    const DType type = state_dtype(run_.workload);
    for (const auto& [name, tensor] : expected.parameters) {
      const double margin = bound * std::max(largest(tensor), largest(before.parameters.at(name)));
      const std::vector<double>& is = state_.parameters.at(name).values;
      std::size_t off = 0;
      for (std::size_t i = 0; i < is.size(); ++i) {
        const double x = tensor.values[i];
        off += is[i] >= rounded(x - margin, type) && is[i] <= rounded(x + margin, type) ? 0 : 1;
      }
      if (off > 0) fail(fmt::format("parameters {} after the update: {} are not the nearest in 16 bits", name, off));
    }
  }

  void equal(const char* what, const ParameterSet& a, const ParameterSet& b) {
    for (const auto& [name, tensor] : b) {
      if (a.at(name).values == tensor.values) continue;
      fail(fmt::format("{}: {} differs by {:.3g}", what, name, distance(a.at(name), tensor)));
    }
  }

  void check_traffic(const Trace& trace) {
    if (trace.ranks.size() != program_.mesh.size()) return fail("the trace lacks ranks");
    for (const RankTrace& rank : trace.ranks) {
      const ExpectedTotals totals = expected_totals(program_, rank.rank);
      if (rank.peak_bytes != totals.peak_bytes) {
        fail(fmt::format("rank {}: peak {} bytes is not {}", index(rank.rank), rank.peak_bytes, totals.peak_bytes));
      }
      if (options_.traffic && rank.sent_bytes != totals.sent_bytes) {
        fail(fmt::format("rank {}: sent {} bytes is not {}", index(rank.rank), rank.sent_bytes, totals.sent_bytes));
      }
    }
  }

  const PlannedRun& run_;
  const NumericsOptions options_;
  std::unique_ptr<DataSource> data_;
  Program program_;
  TrainingState state_;  // the executed one, from the second step on
  NumericsResult result_;
  std::vector<std::string> gradients_off_;  ///< failures, unless first order says nothing
};

}  // namespace

NumericsResult check_numerics(const PlannedRun& run, const NumericsOptions& options) {
  NumericsResult result = Check(run, options).run();
  if (!result.drowned) return result;
  PlannedRun exact = run;
  exact.workload.precision = Precision::fp32;
  exact.workload.master_weights = true;
  exact.workload.gradient_dtype.reset();
  exact.workload.moment_dtype.reset();
  exact.plan.parameter_chunk = Plan{}.parameter_chunk;  // of the weights' type
  for (std::string& line : check_numerics(exact, options).failures) result.failures.push_back("in fp32: " + line);
  return result;
}

double gradient_bound(Precision precision) {
  switch (precision) {
    case Precision::fp64: return 1e-10;
    case Precision::fp32: return 2e-5;
    case Precision::bf16:
    case Precision::fp8: return 0x1p-8;
    case Precision::fp16: return 0x1p-11;
  }
  return 0.0;
}

}  // namespace orrery::test
