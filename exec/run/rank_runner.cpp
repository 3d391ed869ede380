#include "exec/run/rank_runner.hpp"

#include <algorithm>
#include <string>

#include "core/base/diagnostics.hpp"
#include "core/program/op_count.hpp"
#include "core/program/tail_history.hpp"
#include "exec/run/op_text.hpp"

namespace orrery {
namespace {

constexpr std::uint32_t no_thread = ~std::uint32_t{0};

bool takes_lane(const Op& op) {
  return !std::holds_alternative<Alloc>(op.action) && !std::holds_alternative<Free>(op.action);
}

}  // namespace

std::vector<Lane> lanes_of(const Program& program, Rank rank) {
  std::array<std::optional<Lane>, lane_count> used;
  const RankClass& lists = program.classes[class_of(program, rank)];
  for (const auto* slots : {&lists.setup, &lists.step}) {
    for (const Slot& slot : *slots) {
      for (const Op& op : program[slot.block].ops) {
        if (takes_lane(op)) used[lane_number(op.lane)] = op.lane;
      }
    }
  }
  std::vector<Lane> lanes;
  for (const auto& lane : used) {
    if (lane) lanes.push_back(*lane);
  }
  return lanes;
}

RankOptions rank_options(const RunOptions& options) {
  RankOptions how;
  how.concurrent_lanes = options.concurrent_lanes;
  how.poison = options.poison;
  how.gradient_squares = options.noise.has_value();
  how.disk_folder = options.disk_folder;
  if (options.device_room) how.room[index(Tier::device)] = *options.device_room;
  if (options.host_room) how.room[index(Tier::host)] = *options.host_room;
  return how;
}

std::uint32_t ends_of(const Program& program, bool concurrent_lanes) {
  std::size_t lanes = 0;
  for (std::uint32_t c = 0; concurrent_lanes && c < program.classes.size(); ++c) {
    lanes = std::max(lanes, lanes_of(program, representative(program, c)).size());
  }
  return static_cast<std::uint32_t>(1 + lanes);
}

RankRunner::RankRunner(const Program& program, const Workload& workload, const DataSource& data, World& world,
                       Rank rank, const RankOptions& options)
    : program_(program),
      world_(world),
      rank_(rank),
      options_(options),
      groups_(groups_of(program, rank)),
      storage_(program, options.poison,
               options.concurrent_lanes ? Storage::Taking::at_first_use : Storage::Taking::at_alloc, options.room,
               options.disk_folder),
      issuer_(program, groups_, storage_),
      lanes_(options.concurrent_lanes ? lanes_of(program, rank) : std::vector<Lane>{}),
      progress_(lanes_.size()) {
  thread_of_.fill(no_thread);
  for (std::uint32_t i = 0; i < lanes_.size(); ++i) {
    thread_of_[lane_number(lanes_[i])] = i;
    progress_.lanes[i].lane = lanes_[i];
  }
  for (std::uint32_t end = 0; end <= lanes_.size(); ++end) {
    runners_.push_back(std::make_unique<OpRunner>(program, workload, data, groups_, world.communicator(rank, end), rank,
                                                  options.clock_offset));
  }
  if (!options.gradient_squares) return;
  squares_.resize(runners_.size());
  for (std::size_t i = 0; i < runners_.size(); ++i) runners_[i]->count_squares(&squares_[i]);
}

void RankRunner::start() {
  if (lanes_.empty()) return;
  Lanes::Hooks hooks;
  hooks.carry_out = [this](std::uint32_t lane, const IssuedOp& op) {
    guarded(op.run, progress_.lanes[lane], [&] { carry_out(lane + 1, op); });
  };
  hooks.aborted = [this] { return world_.aborted(); };
  hooks.spin = !world_.crowded();
  threads_ = std::make_unique<Lanes>(static_cast<std::uint32_t>(lanes_.size()), std::move(hooks));
}

const std::vector<Slot>& RankRunner::list(std::uint64_t step) const {
  const RankClass& lists = program_.classes[class_of(program_, rank_)];
  return step == 0 ? lists.setup : lists.step;
}

void RankRunner::walk(std::uint64_t step, std::uint64_t data_step) {
  progress_.list.reset();
  for (LaneProgress& lane : progress_.lanes) lane.reset();
  progress_.step.store(step, std::memory_order_relaxed);
  times_.assign(op_count(program_, list(step)), {});
  std::fill(squares_.begin(), squares_.end(), GradientSquares{});
  lanes_.empty() ? walk_serially(data_step) : issue_all(data_step);
}

template <class Work>
void RankRunner::guarded(const OpRun& run, LaneProgress& progress, Work work) {
  const std::uint64_t step = progress_.step.load(std::memory_order_relaxed);
  progress.current.store(index(run.id), std::memory_order_relaxed);
  try {
    work();
  } catch (const std::exception& e) {
    throw OpFailed(op_text(program_, rank_, step == 0, index(run.id)) + ": " + e.what());
  }
  progress.completed.store(index(run.id), std::memory_order_relaxed);
  progress.current.store(LaneProgress::none, std::memory_order_relaxed);
}

void RankRunner::carry_out(std::size_t runner, const IssuedOp& op) {
  const std::uint64_t step = progress_.step.load(std::memory_order_relaxed);
  if (options_.recorder != nullptr) options_.recorder->begin(runner, step, op.run.id);
  if (options_.before_op) options_.before_op(rank_, op.run.id, step);
  const OpTimes times = runners_[runner]->run(op);
  times_[index(op.run.id)] = times;
  if (options_.recorder != nullptr) options_.recorder->end(runner, {step, op.run.id, times.start, times.end});
}

void RankRunner::walk_serially(std::uint64_t data_step) {
  IssuedOp op;
  for_each_op(program_, list(progress_.step.load(std::memory_order_relaxed)), [&](const OpRun& run) {
    guarded(run, progress_.list, [&] {
      issuer_.issue(run, data_step, op);
      carry_out(0, op);
    });
  });
}

void RankRunner::issue_all(std::uint64_t data_step) {
  const std::uint64_t step = progress_.step.load(std::memory_order_relaxed);
  const std::int64_t began = now_ns() + options_.clock_offset;
  TailHistory<Lanes::After> tails;
  std::vector<Lanes::After> in_block;  // the block's ops so far; count 0: took no lane
  std::uint32_t block_run = ~std::uint32_t{0};
  for_each_op(program_, list(step), [&](const OpRun& run) {
    if (run.block_run != block_run) {
      block_run = run.block_run;
      tails.enter(run.receives_ahead);
      in_block.assign(run.block->ops.size(), {});
    }
    IssuedOp op;
    guarded(run, progress_.list, [&] {
      issuer_.issue(run, data_step, op);
      if (!takes_lane(*run.op)) carry_out(0, op);
    });
    if (!takes_lane(*run.op)) return;
    const std::uint32_t lane = thread_of_[lane_number(run.op->lane)];
    std::vector<Lanes::After> after;
    for (std::uint32_t w = run.op->waits.first; w < run.op->waits.first + run.op->waits.count; ++w) {
      const Wait& wait = run.block->waits[w];
      after.push_back(wait.kind == Wait::Kind::op ? in_block[wait.op] : tails.at_entry(lane_number(wait.lane)));
    }
    // Ops without a lane, and lanes on which nothing was issued, are not waited for.
    std::erase_if(after, [&](const Lanes::After& a) { return a.count == 0 || a.lane == lane; });
    const Lanes::After issued = {lane, threads_->issue(lane, std::move(op), std::move(after))};
    tails.issued(lane_number(run.op->lane), issued);
    in_block[run.op_index] = issued;
  });
  threads_->drain();
  // The instant at which the compute lane passed the ops without time.
  std::int64_t passed = began;
  for_each_op(program_, list(step), [&](const OpRun& run) {
    OpTimes& times = times_[index(run.id)];
    if (!takes_lane(*run.op)) {
      times = {passed, passed};
    } else if (run.op->lane.kind == LaneKind::compute) {
      passed = times.end;
    }
  });
}

std::uint64_t RankRunner::sent_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& runner : runners_) bytes += runner->sent_bytes();
  return bytes;
}

std::uint64_t RankRunner::outside_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& runner : runners_) bytes += runner->outside_bytes();
  return bytes;
}

GradientSquares RankRunner::gradient_squares() const {
  GradientSquares sum;
  for (const GradientSquares& s : squares_) sum = {sum.apart + s.apart, sum.summed + s.summed};
  return sum;
}

RankMemory RankRunner::memory() const {
  return {storage_.peak_bytes(), storage_.held_bytes(),           storage_.reserved_bytes(),
          outside_bytes(),       storage_.peak_bytes(Tier::host), storage_.peak_bytes(Tier::disk)};
}

RoutingCounts RankRunner::routing() const {
  RoutingCounts sum;
  for (const auto& runner : runners_) add_counts(sum, runner->routing());
  return sum;
}

}  // namespace orrery
