#include "core/record/summarize.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "core/program/tail_history.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/rates.hpp"
#include "core/record/traffic.hpp"

namespace orrery {

namespace {

constexpr std::uint32_t no_link = UINT32_MAX;

/// An op that another may wait for: its end, and the times since which communication, and collectives, have gone on
/// without a pause.
struct Done {
  std::int64_t end = 0;
  std::int64_t from = 0;
  std::int64_t collective_from = 0;
  std::uint32_t link = no_link;  ///< the last of those collectives, where idle stretches are reported one by one
};

/// The latest of several ends. Among equal ends the one with the longest communication and the longest collectives
/// counts.
Done latest_of(const std::vector<Done>& causes) {
  Done latest = causes.front();
  for (const Done& d : causes) {
    if (d.end > latest.end) {
      latest = d;
    } else if (d.end == latest.end) {
      latest.from = std::min(latest.from, d.from);
      if (d.collective_from < latest.collective_from) {
        latest.collective_from = d.collective_from;
        latest.link = d.link;
      }
    }
  }
  return latest;
}

/// Reports the idle stretches of one rank one by one.
class IdleTold {
 public:
  explicit IdleTold(const IdleVisitor& visit) : visit_(visit) {}

  /// A collective that was ready at `begin`, behind those of `before`.
  std::uint32_t link(Operation operation, const Done& before) {
    if (!visit_) return no_link;
    links_.push_back({operation, before.end, before.link});
    return static_cast<std::uint32_t>(links_.size() - 1);
  }
  /// Reports the stretch from `idle` to `end`; up to cause.end it was a wait for the cause.
  void gap(const Done& cause, std::int64_t idle, std::int64_t end) {
    if (!visit_ || end <= idle) return;
    if (cause.end > idle) {
      part(IdlePart::Cause::bubble, {}, idle, cause.from);
      part(IdlePart::Cause::message, {}, std::max(idle, cause.from), cause.collective_from);
      const std::int64_t first = std::max(idle, cause.collective_from);
      chain_.clear();
      for (std::uint32_t l = cause.link; l != no_link; l = links_[l].before) {
        chain_.push_back(l);
        if (links_[l].begin <= first) break;
      }
      for (auto l = chain_.rbegin(); l != chain_.rend(); ++l) {
        const std::int64_t upper = l + 1 == chain_.rend() ? cause.end : links_[*(l + 1)].begin;
        part(IdlePart::Cause::collective, links_[*l].operation, std::max(first, links_[*l].begin), upper);
      }
    }
    part(IdlePart::Cause::bubble, {}, std::max(idle, cause.end), end);
  }
  void part(IdlePart::Cause cause, Operation operation, std::int64_t start, std::int64_t end) const {
    if (visit_ && end > start) visit_({cause, operation, {start, end}});
  }

 private:
  struct Link {
    Operation operation{};
    std::int64_t begin = 0;
    std::uint32_t before = no_link;
  };
  const IdleVisitor& visit_;
  std::vector<Link> links_;
  std::vector<std::uint32_t> chain_;
};

/// Adds the parts of the compute lane's gap from `idle` to the end of `cause`.
void add_gap(RankTimes& times, const Done& cause, std::int64_t idle) {
  if (cause.end <= idle) return;
  times.exposed += cause.end - std::max(idle, cause.from);
  times.collectives += cause.end - std::max(idle, cause.collective_from);
}

/// Adds an op on a device that does one op at a time and has been idle since `idle`.
void add_serially(RankTimes& times, const IdleTold& told, const Op& op, Operation operation, const Span& span,
                  std::int64_t idle) {
  using enum IdlePart::Cause;
  if (op.lane.kind == LaneKind::compute) return told.part(bubble, {}, idle, span.start);
  if (std::holds_alternative<Exchange>(op.action)) {
    const std::int64_t moving = std::max(span.start, idle);
    times.exposed += span.end - moving;
    told.part(bubble, {}, idle, moving);
    return told.part(message, {}, moving, span.end);
  }
  times.exposed += span.end - idle;
  times.collectives += span.end - idle;
  told.part(collective, operation, idle, span.end);
}

}  // namespace

RankTimes account(const Program& program, const RankTrace& trace, bool concurrent_lanes, const IdleVisitor& visit) {
  RankTimes times;
  IdleTold told(visit);
  TailHistory<Done> tails;
  std::vector<Done> in_block;
  std::vector<Done> causes;
  std::uint32_t run = UINT32_MAX;
  std::int64_t idle = 0;  // end of the last compute op (of any op on a serial device)
  const auto& slots = program.classes[class_of(program, trace.rank)].step;
  std::size_t ops = 0;
  for_each_op(program, slots, [&](const OpRun& r) {
    ORRERY_ASSERT(index(r.id) < trace.spans.size(), index(r.id), trace.spans.size());
    ++ops;
    if (r.block_run != run) {
      run = r.block_run;
      tails.enter(r.receives_ahead);
      in_block.assign(r.block->ops.size(), {});
    }
    if (!is_timed(*r.op)) return;
    const Span& span = trace.spans[index(r.id)];
    const Operation operation = operation_of(program, *r.block, *r.op);
    times.time[index(operation)] += span.end - span.start;
    ++times.count[index(operation)];
    times.end = std::max(times.end, span.end);
    const std::size_t lane = lane_number(r.op->lane);
    if (lane == 0) times.busy += span.end - span.start;
    if (!concurrent_lanes) {
      add_serially(times, told, *r.op, operation, span, idle);
      idle = std::max(idle, span.end);
      return;
    }
    causes.assign(1, tails.last(lane));
    for (std::uint32_t w = r.op->waits.first; w < r.op->waits.first + r.op->waits.count; ++w) {
      const Wait& wait = r.block->waits[w];
      causes.push_back(wait.kind == Wait::Kind::tail ? tails.at_entry(lane_number(wait.lane)) : in_block[wait.op]);
    }
    const Done ready = latest_of(causes);
    Done done{span.end, span.end, span.end};
    if (lane == 0) {
      add_gap(times, ready, idle);
      told.gap(ready, idle, span.start);
      idle = span.end;
    } else if (std::holds_alternative<Exchange>(r.op->action)) {
      done.from = span.start;
    } else {
      done.from = ready.from;
      done.collective_from = ready.collective_from;
      done.link = told.link(operation, ready);
    }
    in_block[r.op_index] = done;
    tails.issued(lane, done);
  });
  ORRERY_ASSERT(ops == trace.spans.size(), ops, trace.spans.size());
  if (concurrent_lanes && times.end > idle) {
    causes.assign(tails.last().begin(), tails.last().end());
    const Done last = latest_of(causes);
    add_gap(times, last, idle);
    told.gap(last, idle, times.end);
  }
  return times;
}

std::uint64_t program_sent_bytes(const Program& program) {
  // Each class sends rank by rank. How much one rank of a ring sends depends on how the chunks round, but the sum over
  // the ring does not; so count whole rings and divide by the classes that take part.
  const std::uint64_t per_class = program.mesh.size() / std::max<std::size_t>(1, program.classes.size());
  std::vector<std::uint64_t> runs(program.blocks.size());
  // Bytes of all rings divided by the group's size. The quotients are added at once, the remainders when all members'
  // classes are in, because their sum is divisible. Multiplying first would pass 2^64 on wide axes.
  std::map<std::uint64_t, std::uint64_t> remainder_by_size;
  std::uint64_t bytes = 0;
  for (const RankClass& ranks : program.classes) {
    runs.assign(program.blocks.size(), 0);
    for (const Slot& slot : ranks.step) runs[index(slot.block)] += slot.repeat;
    for (std::size_t b = 0; b < runs.size(); ++b) {
      if (runs[b] == 0) continue;
      const Block& block = program.blocks[b];
      for (const Op& op : block.ops) {
        if (const auto* collective = std::get_if<Collective>(&op.action)) {
          const std::uint64_t size = group_size(program[collective->group], program.mesh);
          const std::uint64_t ring = group_sent_bytes(program, block, op);
          bytes += ring / size * runs[b] * per_class;
          remainder_by_size[size] += ring % size * runs[b] * per_class;
        } else if (std::holds_alternative<Exchange>(op.action)) {
          bytes += sent_bytes(program, block, op, Rank{0}) * runs[b] * per_class;
        }
      }
    }
  }
  for (const auto& [size, remainder] : remainder_by_size) bytes += remainder / size;
  return bytes;
}

Report summarize(const PlannedRun& run, const Program& program, const Trace& trace, bool concurrent_lanes,
                 std::span<const std::uint32_t> counts) {
  Report report;
  report.origin = trace.origin;
  ORRERY_ASSERT(!trace.ranks.empty());
  ORRERY_ASSERT(counts.empty() || counts.size() == trace.ranks.size(), counts.size(), trace.ranks.size());
  const std::uint64_t all_ranks =
      counts.empty() ? trace.ranks.size() : std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  const auto ranks = static_cast<double>(all_ranks);
  constexpr double picosecond = 1e-12;

  std::int64_t step = 0;
  std::vector<RankTimes> times;
  times.reserve(trace.ranks.size());
  for (const RankTrace& r : trace.ranks) {
    times.push_back(account(program, r, concurrent_lanes));
    step = std::max(step, times.back().end);
  }
  report.step_time = Seconds::of(static_cast<double>(step) * picosecond);

  // Sums over very many ranks may pass 2^63 ps; doubles keep them exact up to 2^53 and close beyond.
  struct StageSums {
    double busy = 0.0;
    double exposed = 0.0;
    double exchanges = 0.0;  // exposed and bubble at once
    double bubble = 0.0;
    double ranks = 0.0;
  };
  std::map<std::uint32_t, StageSums> stages;
  StageSums all;
  std::array<double, operation_count> time{};
  std::array<std::uint64_t, operation_count> count{};
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::uint32_t n = counts.empty() ? 1 : counts[i];
    for (StageSums* sums : {&all, &stages[program.mesh.coordinate(trace.ranks[i].rank, Axis::pipeline)]}) {
      sums->busy += n * static_cast<double>(times[i].busy);
      sums->exposed += n * static_cast<double>(times[i].exposed);
      sums->exchanges += n * static_cast<double>(times[i].exposed - times[i].collectives);
      sums->bubble += n * static_cast<double>(step - times[i].busy - times[i].collectives);
      sums->ranks += n;
    }
    for (std::size_t o = 0; o < operation_count; ++o) {
      time[o] += n * static_cast<double>(times[i].time[o]);
      count[o] += n * times[i].count[o];
    }
  }
  const auto mean = [](double sum, double n) { return Seconds::of(sum / n * picosecond); };
  report.compute = mean(all.busy, ranks);
  report.exposed_communication = mean(all.exposed, ranks);
  report.exposed_exchange = mean(all.exchanges, ranks);
  report.bubble_fraction = step > 0 ? all.bubble / (ranks * static_cast<double>(step)) : 0.0;
  for (const auto& [stage, s] : stages) {
    report.time_by_stage.push_back(
        {stage, mean(s.busy, s.ranks), mean(s.exposed, s.ranks), mean(s.exchanges, s.ranks), mean(s.bubble, s.ranks)});
  }
  for (std::size_t o = 0; o < operation_count; ++o) {
    if (count[o] == 0) continue;
    report.operations.push_back({name_of(static_cast<Operation>(o)), mean(time[o], ranks), count[o] / all_ranks});
  }

  LiveMemory memory;
  memory.read(program);
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    report.memory_by_stage.push_back(memory.peak(program, c));
    report.peak_memory_bytes = std::max(report.peak_memory_bytes, report.memory_by_stage.back().peak);
  }
  for (const RankTrace& r : trace.ranks) report.peak_memory_bytes = std::max(report.peak_memory_bytes, r.peak_bytes);
  report.sent_bytes = program_sent_bytes(program);
  add_rates(report, run, program, program_flops(program));
  return report;
}

}  // namespace orrery
