#include "sim/estimate/estimate.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/record/live_memory.hpp"
#include "core/record/rates.hpp"
#include "sim/estimate/walk.hpp"

namespace orrery {

struct Estimator::Scratch {
  Prices prices;
  CompiledProgram compiled;
  Walk walk;
  LiveMemory memory;
  std::array<std::int64_t, operation_count> time{};
  std::array<std::uint64_t, operation_count> count{};
};

namespace {

constexpr double picosecond = 1e-12;

/// A node's ranks cannot finish before its cores have done all their compute work. On one node that is the work of all
/// ranks. With several nodes, the fullest has on each of its ranks at least the work of the least busy class.
Picoseconds least_by_cores(const Program& program, const Prices& prices, const std::vector<ClassTimes>& classes) {
  if (prices.core_count == 0 || prices.ranks_per_node <= prices.core_count || classes.empty()) return 0;
  if (prices.ranks_per_node >= program.mesh.size()) {
    double busy = 0;  // sums over ranks may pass 2^63
    for (const ClassTimes& t : classes) busy += static_cast<double>(t.busy);
    const double ranks = static_cast<double>(program.mesh.size()) / static_cast<double>(classes.size());
    return static_cast<Picoseconds>(std::min(busy * ranks / prices.core_count, 9e18));
  }
  Picoseconds least_busy = classes.front().busy;
  for (const ClassTimes& t : classes) least_busy = std::min(least_busy, t.busy);
  return least_busy / prices.core_count * prices.ranks_per_node;
}

/// The waiting of a class when the step takes `step` because ranks share cores.
///
/// A rank gives up its core where it waits, so the time that sharing adds lengthens the waits that are there, each kind
/// in proportion. simulate, which sees who holds a core, puts it at the same waits. A class that never waits idles at
/// the end of the step, which is bubble.
Exposed stretched(const Exposed& alone, Picoseconds waits, Picoseconds longer) {
  if (waits <= 0 || longer == waits) return alone;
  const double factor = static_cast<double>(longer) / static_cast<double>(waits);
  Exposed out = alone;
  out.all = static_cast<Picoseconds>(static_cast<double>(alone.all) * factor);
  out.collectives = static_cast<Picoseconds>(static_cast<double>(alone.collectives) * factor);
  return out;
}

}  // namespace

Estimator::Estimator() : scratch_(std::make_unique<Scratch>()) {}
Estimator::~Estimator() = default;
Estimator::Estimator(Estimator&&) noexcept = default;
Estimator& Estimator::operator=(Estimator&&) noexcept = default;

void Estimator::walk(const Program& program) {
  Scratch& s = *scratch_;
  if (s.prices.kinds == 1) {
    s.compiled.compile(program, s.prices);
    s.walk.run(s.compiled);
    return;
  }
  // Ranks that differ only along the class axes go through a step together, each on its own kind of node. No such
  // column of ranks is slower than the step, so the slowest column's time is the estimate.
  std::map<std::uint64_t, std::vector<std::uint32_t>> columns;  // kinds by class, of each column's first rank
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) {
    Rank first{r};
    for (const Axis a : program.class_axes) first = program.mesh.moved(first, a, 0);
    std::vector<std::uint32_t>& kinds = columns[index(first)];
    kinds.resize(program.classes.size(), 0);
    kinds[class_of(program, Rank{r})] = s.prices.kind_of(Rank{r});
  }
  std::set<std::vector<std::uint32_t>> distinct;
  for (const auto& [first, kinds] : columns) distinct.insert(kinds);
  const std::vector<std::uint32_t>* slowest = nullptr;
  Picoseconds longest = -1;
  for (const std::vector<std::uint32_t>& kinds : distinct) {
    s.compiled.compile(program, s.prices, kinds);
    s.walk.run(s.compiled);
    if (s.walk.step_time() <= longest) continue;
    longest = s.walk.step_time();
    slowest = &kinds;
  }
  if (distinct.size() == 1 || slowest == &*distinct.rbegin()) return;
  s.compiled.compile(program, s.prices, *slowest);
  s.walk.run(s.compiled);
}

Picoseconds Estimator::walked(const Program& program) const {
  const Scratch& s = *scratch_;
  return std::max(s.walk.step_time(), least_by_cores(program, s.prices, s.walk.classes()));
}

Picoseconds Estimator::evaluate(const Program& program, const CostModel& costs) {
  price(scratch_->prices, program, costs);
  walk(program);
  return walked(program);
}

Picoseconds Estimator::step_again() {
  Scratch& s = *scratch_;
  const Program& program = *s.compiled.program;
  if (s.prices.kinds > 1) {
    walk(program);
  } else {
    s.walk.run(s.compiled);
  }
  return walked(program);
}

Picoseconds Estimator::time_in(Pass pass, std::uint32_t rank_class) const {
  const CompiledProgram& compiled = scratch_->compiled;
  Picoseconds time = 0;
  for (const Slot& slot : compiled.program->classes[rank_class].step) {
    if ((*compiled.program)[slot.block].pass != pass) continue;
    time += compiled.blocks[compiled.place_of(rank_class, slot.block)].all * slot.repeat;
  }
  return time;
}

Seconds Estimator::step_time(const Program& program, const CostModel& costs) {
  return Seconds::of(static_cast<double>(evaluate(program, costs)) * picosecond);
}

Report Estimator::estimate(const PlannedRun& run, const Program& program, const CostModel& costs) {
  Report report;
  report.origin = "estimate";
  const Picoseconds step = evaluate(program, costs);
  report.step_time = Seconds::of(static_cast<double>(step) * picosecond);
  Scratch& s = *scratch_;
  const std::vector<ClassTimes>& classes = s.walk.classes();
  const auto count = static_cast<double>(classes.size());

  // Sums over classes may pass 2^63 ps; doubles keep them exact up to 2^53 and close beyond.
  double busy = 0;
  double exposed = 0;
  double collectives = 0;
  std::int64_t exchange = 0;
  std::uint64_t exchanges = 0;
  const auto seconds = [](double ps) { return Seconds::of(ps * picosecond); };
  report.time_by_stage.reserve(classes.size());
  report.memory_by_stage.reserve(classes.size());
  s.memory.read(program);
  for (std::uint32_t c = 0; c < classes.size(); ++c) {
    const ClassTimes& t = classes[c];
    const Exposed waited = stretched(t.exposed, s.walk.step_time() - t.busy, step - t.busy);
    busy += static_cast<double>(t.busy);
    exposed += static_cast<double>(waited.all);
    collectives += static_cast<double>(waited.collectives);
    exchange += t.exchange;
    exchanges += t.exchanges;
    report.memory_by_stage.push_back(s.memory.peak(program, c));
    report.peak_memory_bytes = std::max(report.peak_memory_bytes, report.memory_by_stage.back().peak);
    report.time_by_stage.push_back({report.memory_by_stage.back().stage, seconds(static_cast<double>(t.busy)),
                                    seconds(static_cast<double>(waited.all)),
                                    seconds(static_cast<double>(waited.all - waited.collectives)),
                                    seconds(static_cast<double>(step - t.busy - waited.collectives))});
  }
  report.compute = seconds(busy / count);
  report.exposed_communication = seconds(exposed / count);
  report.exposed_exchange = seconds((exposed - collectives) / count);
  const double lanes = static_cast<double>(step) * count;
  report.bubble_fraction = step > 0 ? (lanes - busy - collectives) / lanes : 0.0;

  s.time.fill(0);
  s.count.fill(0);
  const std::vector<std::uint64_t>& runs = s.walk.block_runs();
  for (std::size_t b = 0; b < runs.size(); ++b) {
    if (runs[b] == 0) continue;
    const CompiledBlock& block = s.compiled.blocks[b];
    for (std::uint32_t i = 0; i < block.sum_count; ++i) {
      const CompiledBlock::Sum& sum = s.compiled.sums[block.first_sum + i];
      s.time[index(sum.operation)] += sum.time * static_cast<std::int64_t>(runs[b]);
      s.count[index(sum.operation)] += sum.count * runs[b];
    }
  }
  if (exchanges > 0) {
    s.time[index(exchange_operation)] += exchange;
    s.count[index(exchange_operation)] += exchanges;
  }
  for (std::size_t o = 0; o < operation_count; ++o) {
    if (s.count[o] == 0) continue;
    report.operations.push_back({name_of(static_cast<Operation>(o)), seconds(static_cast<double>(s.time[o]) / count),
                                 s.count[o] / classes.size()});
  }
  report.sent_bytes = s.walk.sent_bytes();
  report.assumptions.push_back("every message has its link to itself");
  if (!run.model.rope_scaling.empty()) {
    report.assumptions.push_back("scaled rotary angles (" + run.model.rope_scaling + ") cost what plain ones do");
  }
  if (s.prices.concurrent_lanes) {
    report.assumptions.push_back(communication_beside_compute(costs));
  } else {
    report.assumptions.push_back("a rank does one operation at a time");
  }
  if (s.prices.core_count > 0 && s.prices.ranks_per_node > s.prices.core_count) {
    report.assumptions.push_back("ranks that share cores: at least their compute time over the cores");
  }
  if (s.prices.kinds > 1) report.assumptions.push_back(pace_of_kinds(costs));
  std::vector<std::uint64_t> of_block(program.blocks.size(), 0);
  for (std::size_t b = 0; b < runs.size(); ++b) of_block[b % of_block.size()] += runs[b];
  add_rates(report, run, program, program_flops(program, of_block));
  return report;
}

Report estimate(const PlannedRun& run, const Program& program, const CostModel& costs) {
  return Estimator().estimate(run, program, costs);
}

}  // namespace orrery
