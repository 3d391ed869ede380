#include "exec/run/run_record.hpp"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

/// A class whose step takes the mean of the loss, because its ranks hold the head.
std::uint32_t loss_class(const Program& program) {
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    for (const Slot& slot : program.classes[c].step) {
      for (const Kernel& k : program[slot.block].kernels) {
        if (k.kind == KernelKind::mean_loss) return c;
      }
    }
  }
  ORRERY_ASSERT(false);
  return 0;
}

}  // namespace

RunRecord::RunRecord(const Program& program, const RunOptions& options, std::string origin)
    : program_(program), options_(options), origin_(std::move(origin)) {}

bool RunRecord::take_stock(std::uint64_t step, std::span<const RankStep> ranks, double core_seconds,
                           const RunBuffers& buffers) {
  const std::uint64_t total = options_.warmup_steps + options_.steps;
  RunEvent event;
  const std::uint64_t told = step == 0 ? 0 : options_.steps_before + step;
  event.step = told;
  event.warmup = step <= options_.warmup_steps;
  event.program = &program_;
  event.buffers = &buffers;
  Trace trace;
  if (step > 0) {
    trace = trace_of(ranks);
    event.trace = &trace;
    event.loss = loss(buffers);
    if (event.loss) result_.losses.push_back(*event.loss);
  }
  if (options_.hooks != nullptr) {
    if (step == 0 && options_.steps_before == 0) options_.hooks->init({origin_, program_.mesh.size()});
    if (step > 0) tell_step(*options_.hooks, program_, trace, {told, event.warmup, 0, event.loss});
  }
  if (step > 0 && options_.noise) take_noise(step, ranks);
  if (options_.on_event) options_.on_event(event);
  if (step > options_.warmup_steps) {
    result_.cores.needed += needed_core_time(program_, trace, std::max(1U, std::thread::hardware_concurrency()));
    result_.cores.had += core_seconds;
    record(std::move(trace), step - options_.warmup_steps - 1);
  }
  if (step < total && options_.cancel != nullptr && options_.cancel->load()) {
    result_.cancelled = true;
    return false;
  }
  if (step < total && options_.hand_over != nullptr && options_.hand_over->load()) {
    handed_over_ = true;
    return false;
  }
  return step < total;
}

void RunRecord::take_noise(std::uint64_t step, std::span<const RankStep> ranks) {
  const NoiseBatches& batches = *options_.noise;
  if (!noise_) noise_.emplace(batches.small, batches.large);
  NoiseEvent told{step, batches.small, batches.large, 0.0, 0.0, {}};
  // Every replica's gradient is over its own part of the batch, but divided by the targets of all: n times as much is
  // its mean. The mean over n replicas of the squares of that is n times their sum.
  for (const RankStep& rank : ranks) {
    told.small_square += batches.large / batches.small * rank.squares.apart;
    told.large_square += rank.squares.summed;
  }
  noise_->add(told.small_square, told.large_square);
  told.scale = noise_->scale();
  if (options_.hooks != nullptr) options_.hooks->noise(told);
  result_.noise = told;
}

RunResult RunRecord::take() {
  if (options_.hooks != nullptr && !handed_over_) {
    options_.hooks->shutdown({options_.steps_before + result_.losses.size()});
  }
  return std::move(result_);
}

void RunRecord::add_rank(Rank rank, const RankMemory& memory, const RoutingCounts& routing) {
  result_.memory.push_back(memory);
  // Tensor ranks, and a row of a grid's ranks, route the same tokens.
  if (program_.mesh.coordinate(rank, Axis::tensor) == 0 && program_.mesh.coordinate(rank, Axis::column) == 0) {
    add_counts(result_.routing, routing);
  }
}

// Keeps the trace of recorded step `number` if its turn has come.
void RunRecord::record(Trace trace, std::uint64_t number) {
  std::int64_t end = 0;
  for (const RankTrace& rank : trace.ranks) {
    for (const Span& span : rank.spans) end = std::max(end, span.end);
  }
  RecordedTimes& times = result_.times;
  times.fastest = times.steps == 0 ? end : std::min(times.fastest, end);
  times.slowest = std::max(times.slowest, end);
  ++times.steps;
  if (number % result_.trace_stride != 0) return;
  std::vector<Trace>& kept = result_.traces;
  if (kept.size() >= std::max<std::size_t>(options_.kept_traces, 2)) {
    for (std::size_t i = 1; 2 * i < kept.size(); ++i) kept[i] = std::move(kept[2 * i]);
    kept.resize((kept.size() + 1) / 2);
    result_.trace_stride *= 2;
    if (number % result_.trace_stride != 0) return;
  }
  kept.push_back(std::move(trace));
}

Trace RunRecord::trace_of(std::span<const RankStep> ranks) const {
  constexpr std::int64_t picoseconds = 1000;  // per nanosecond
  std::int64_t origin = std::numeric_limits<std::int64_t>::max();
  for (const RankStep& rank : ranks) {
    for (const OpTimes& t : rank.times) origin = std::min(origin, t.start);
  }
  Trace trace;
  trace.origin = origin_;
  trace.concurrent_lanes = options_.concurrent_lanes;
  for (std::uint32_t r = 0; r < ranks.size(); ++r) {
    RankTrace rank;
    rank.rank = Rank{r};
    rank.spans.reserve(ranks[r].times.size());
    for (const OpTimes& t : ranks[r].times) {
      rank.spans.push_back({(t.start - origin) * picoseconds, (t.end - origin) * picoseconds});
    }
    rank.peak_bytes = ranks[r].peak_bytes;
    rank.sent_bytes = ranks[r].sent_bytes;
    trace.ranks.push_back(std::move(rank));
  }
  return trace;
}

std::optional<double> RunRecord::loss(const RunBuffers& buffers) const {
  for (std::uint32_t b = 0; b < program_.buffers.size(); ++b) {
    if (program_.buffers[b].name != "loss") continue;
    const Rank rank = representative(program_, loss_class(program_));
    const std::span<std::byte> bytes = buffers.find(rank, {BufferId{b}, 0, 0});
    ORRERY_ASSERT(program_.buffers[b].dtype == DType::f64 && bytes.size() == sizeof(double), bytes.size());
    return *reinterpret_cast<const double*>(bytes.data());
  }
  return std::nullopt;  // a Program that trains nothing
}

}  // namespace orrery
