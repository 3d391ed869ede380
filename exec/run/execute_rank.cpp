#include "exec/run/execute_rank.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/comm/slow_world.hpp"
#include "exec/run/rank_runner.hpp"
#include "exec/run/remote_buffers.hpp"
#include "exec/run/run_record.hpp"

namespace orrery {
namespace {

/// A rank's report on a step to rank 0, before the times of its ops.
struct StepReport {
  std::uint64_t peak_bytes = 0, sent_bytes = 0, ops = 0;
  double core_seconds = 0.0;
  std::int64_t signal = 0;  ///< by which its process was asked to end; 0: none
  GradientSquares squares;
};

/// Counts as numbers in a row: the number of layers, then for each its number, experts, choices of each expert, kept
/// and room.
std::vector<std::uint64_t> packed(const RoutingCounts& routing) {
  std::vector<std::uint64_t> row{routing.size()};
  for (const auto& [layer, counts] : routing) {
    row.insert(row.end(), {layer, counts.chosen.size()});
    row.insert(row.end(), counts.chosen.begin(), counts.chosen.end());
    row.insert(row.end(), {counts.kept, counts.room});
  }
  return row;
}

RoutingCounts unpacked(const std::vector<std::uint64_t>& row) {
  RoutingCounts routing;
  std::size_t at = 0;
  for (std::uint64_t layers = row[at++]; layers > 0; --layers) {
    LayerCounts& counts = routing[static_cast<std::uint32_t>(row[at])];
    counts.chosen.resize(row[at + 1]);
    at += 2;
    for (std::uint64_t& chosen : counts.chosen) chosen = row[at++];
    counts.kept = row[at++];
    counts.room = row[at++];
  }
  return routing;
}

/// One rank's run.
class RankRun {
 public:
  RankRun(ProcessWorld& world, const Program& program, const RunOptions& options, const std::string& origin,
          Recorder* recorder, const RankWalkerMaker& make, SlowWorld* slow)
      : world_(world),
        options_(options),
        slow_(slow),
        made_(make(ranks_options(recorder))),
        runner_(*made_),
        buffers_(world, runner_),
        record_(program, options, origin) {}

  std::optional<RunResult> train() {
    runner_.start();
    std::uint64_t step = 0;
    do {
      core_seconds_before_ = program_core_seconds();
      const std::uint64_t sent_before = runner_.sent_bytes();
      const std::uint64_t data_step = step == 0 ? 0 : options_.first_step + step - 1;
      if (slow_ != nullptr) slow_->set(data_step >= options_.slow_links->from_step);
      runner_.walk(step, data_step);
      sent_bytes_ = runner_.sent_bytes() - sent_before;
    } while (pause(step++));
    return finish();
  }

 private:
  [[nodiscard]] RankOptions ranks_options(Recorder* recorder) {
    RankOptions how = rank_options(options_);
    how.recorder = recorder;
    how.clock_offset = world_.clock_offset();
    if (options_.fault) how.before_op = [this](Rank r, OpId op, std::uint64_t step) { inject(r, op, step); };
    return how;
  }

  void inject(Rank rank, OpId op, std::uint64_t step) {
    const Fault& fault = *options_.fault;
    if (fault.rank != rank || fault.op != op || fault.step != step) return;
    switch (fault.kind) {
      case Fault::Kind::throws: throw Error("injected fault");
      case Fault::Kind::exits: _exit(0);  // as a library that ends the process would
      case Fault::Kind::killed: raise(SIGKILL); break;
      case Fault::Kind::stopped: raise(SIGSTOP); break;
      case Fault::Kind::stalls:
        while (!world_.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        throw Aborted{};
    }
  }

  [[nodiscard]] bool first() const { return world_.rank() == Rank{0}; }

  /// All ranks have ended the step and none begins another; returns whether one follows.
  bool pause(std::uint64_t step) {
    runner_.barrier();
    const StepReport own{runner_.memory().peak_bytes,
                         sent_bytes_,
                         runner_.times().size(),
                         program_core_seconds() - core_seconds_before_,
                         options_.own_signal ? options_.own_signal() : 0,
                         runner_.gradient_squares()};
    bool go = false;
    if (first()) {
      go = take_stock(step, own);
      buffers_.release();
      end_pause(world_, go);
    } else {
      control_send(world_, Rank{0}, &own, sizeof own);
      control_send(world_, Rank{0}, runner_.times().data(), own.ops * sizeof(OpTimes));
      go = serve_pause(world_, runner_) == PauseCommand::Kind::go;
    }
    if (go) runner_.barrier();  // all begin together
    return go;
  }

  bool take_stock(std::uint64_t step, const StepReport& own) {
    std::vector<std::vector<OpTimes>> times(world_.ranks());
    std::vector<RankStep> ranks{{runner_.times(), own.peak_bytes, own.sent_bytes, own.squares}};
    double core_seconds = own.core_seconds;
    for (std::uint32_t r = 1; r < world_.ranks(); ++r) {
      StepReport report;
      control_receive(world_, Rank{r}, &report, sizeof report);
      times[r].resize(report.ops);
      control_receive(world_, Rank{r}, times[r].data(), report.ops * sizeof(OpTimes));
      ranks.push_back({times[r], report.peak_bytes, report.sent_bytes, report.squares});
      core_seconds += report.core_seconds;
      if (report.signal != 0 && options_.heard_of_signal) options_.heard_of_signal(static_cast<int>(report.signal));
    }
    return record_.take_stock(step, ranks, core_seconds, buffers_);
  }

  std::optional<RunResult> finish() {
    RankMemory memory = runner_.memory();
    std::vector<std::uint64_t> routing = packed(runner_.routing());
    std::uint64_t count = routing.size();
    if (!first()) {
      control_send(world_, Rank{0}, &memory, sizeof memory);
      control_send(world_, Rank{0}, &count, sizeof count);
      control_send(world_, Rank{0}, routing.data(), count * sizeof(std::uint64_t));
      return std::nullopt;
    }
    record_.add_rank(Rank{0}, memory, unpacked(routing));
    for (std::uint32_t r = 1; r < world_.ranks(); ++r) {
      control_receive(world_, Rank{r}, &memory, sizeof memory);
      control_receive(world_, Rank{r}, &count, sizeof count);
      routing.resize(count);
      control_receive(world_, Rank{r}, routing.data(), count * sizeof(std::uint64_t));
      record_.add_rank(Rank{r}, memory, unpacked(routing));
    }
    return record_.take();
  }

  ProcessWorld& world_;
  const RunOptions& options_;
  SlowWorld* slow_;
  std::unique_ptr<RankWalker> made_;
  RankWalker& runner_;
  RemoteBuffers buffers_;
  RunRecord record_;
  std::uint64_t sent_bytes_ = 0;  ///< in the last list
  double core_seconds_before_ = 0.0;
};

std::optional<RunResult> train_rank(ProcessWorld& world, const Program& program, const RunOptions& options,
                                    const std::string& origin, Recorder* recorder, const RankWalkerMaker& make,
                                    SlowWorld* slow) {
  ORRERY_ASSERT(world.ranks() == program.mesh.size(), world.ranks(), program.mesh.size());
  const std::string who = "rank " + std::to_string(index(world.rank()));
  const auto fail = [&](const std::string& why) {
    // This comes first: others end once they see the world go, and the watcher then asks whose fault it was.
    if (recorder != nullptr) recorder->set_state(RankState::failed, why);
    world.abort(why);
    throw Error(why);
  };
  try {
    if (recorder != nullptr) recorder->set_state(RankState::running);
    RankRun run(world, program, options, origin, recorder, make, slow);
    std::optional<RunResult> result = run.train();
    if (recorder != nullptr) recorder->set_state(RankState::finished);
    return result;
  } catch (const Aborted&) {
    // The first rank to give up says for whom it waited; what others see afterwards is no news.
    const std::string why = world.reason();
    if (recorder != nullptr) recorder->set_state(why.empty() ? RankState::ended : RankState::gave_up, why);
    if (why.empty()) throw;
    throw Error(why);
  } catch (const OpFailed& e) {
    fail(who + " failed in " + e.what());
  } catch (const std::exception& e) {
    fail(who + " failed between steps: " + e.what());
  }
  return std::nullopt;
}

}  // namespace

std::optional<RunResult> execute_rank(ProcessWorld& world, const Program& program, const Workload& workload,
                                      const DataSource& data, const RunOptions& options, const std::string& origin,
                                      Recorder* recorder) {
  std::optional<SlowWorld> slow;
  if (options.slow_links) slow.emplace(world, options.slow_links->rate);
  World& links = slow ? static_cast<World&>(*slow) : world;
  return train_rank(
      world, program, options, origin, recorder,
      [&](const RankOptions& how) {
        return std::make_unique<RankRunner>(program, workload, data, links, world.rank(), how);
      },
      slow ? &*slow : nullptr);
}

std::optional<RunResult> execute_rank(ProcessWorld& world, const Program& program, const RunOptions& options,
                                      const std::string& origin, Recorder* recorder, const RankWalkerMaker& make) {
  return train_rank(world, program, options, origin, recorder, make, nullptr);
}

}  // namespace orrery
