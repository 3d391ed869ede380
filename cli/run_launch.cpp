// Processes of `orrery run` that are started here: once, or with --supervise again after a failure.

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>

#include "cli/interrupt.hpp"
#include "cli/replan.hpp"
#include "cli/run_verb.hpp"
#include "core/base/counted.hpp"
#include "exec/run/op_runner.hpp"
#include "exec/run/post_mortem.hpp"
#include "exec/run/rank_runner.hpp"
#include "planner/describe.hpp"

namespace orrery {

LaunchOutcome RunVerb::start_ranks(Prepared& p, RunCheckpoints& checkpoints, const RecordsFolder& records,
                                   const TrainRank& train) const {
  const Program& program = p.loaded.program;
  LaunchOptions how;
  how.ranks = static_cast<std::uint32_t>(program.mesh.size());
  if (backend_ == "processes") how.ends = ends_of(program, p.options.concurrent_lanes);
  how.watchdog = p.options.watchdog;
  how.heartbeat = Seconds::of(heartbeat_);
  how.records = records.path();
  how.own_signal = interrupting_signal;
  how.end_now = interrupted_again;
  return launch(how, [&](ProcessWorld& world, Recorder& recorder) { return train(world, recorder, p, checkpoints); });
}

int RunVerb::launch_ranks(Prepared& p, const TrainRank& train) {
  catch_end_signals(SecondSignal::is_watched);
  if (supervise_.wanted) return supervise(p, train);
  const RecordsFolder records(records_);
  RunCheckpoints checkpoints(checkpoints_, p.loaded.run, p.loaded.program);
  if (adapt_.tolerance) changes_ = std::make_unique<RunJournal>();
  const LaunchOutcome outcome = start_ranks(p, checkpoints, records, train);
  if (outcome.ended_now) return interrupted_again_status();
  if (!outcome.failure) return outcome.status;
  if (changes_ && !changes_->read().empty()) {
    // The recorded ops are those of a Program that only the ranks had.
    throw Error(records.kept(
        fmt::format("{}\n  The plan had changed after step {}.", outcome.failure->what, changes_->read().back().step)));
  }
  throw Error(records.kept(post_mortem_text(p.loaded.program, *outcome.failure, outcome.recordings)));
}

void RunVerb::shrink(Prepared& p) const {
  const std::size_t left = p.loaded.program.mesh.size() - 1;
  if (left == 0) throw Error("no rank is left to go on with");
  p.loaded = plan_on_fewer(as_measured(p.loaded.run), static_cast<std::uint32_t>(left), flags_, &interrupted());
  refuse_too_large(p.loaded.program);
}

int RunVerb::supervise(Prepared& p, const TrainRank& train) {
  CheckpointFlags flags = checkpoints_;
  auto checkpoints = std::make_unique<RunCheckpoints>(flags, p.loaded.run, p.loaded.program);
  const std::uint64_t first = checkpoints->first_step(), last = first + warmup_ + steps_ - 1;
  supervision_ = std::make_unique<Supervision>(supervise_, first);
  for (;;) {
    const RecordsFolder records(records_);
    supervision_->starts(now_ns());
    const LaunchOutcome outcome = start_ranks(p, *checkpoints, records, train);
    if (outcome.ended_now) return interrupted_again_status();
    if (!outcome.failure) return outcome.status;
    const std::int64_t noticed = now_ns();
    const std::string what = outcome.failure->what;
    const std::string post_mortem = post_mortem_text(p.loaded.program, *outcome.failure, outcome.recordings);
    run_log_.survived(post_mortem.substr(0, post_mortem.find('\n')));

    const bool same = supervise_.restart == "same" || interrupted();
    try {
      // The newest good checkpoint may be older than the newest, or may not be there yet.
      checkpoints.reset();
      flags.resume = !generations(*system_files(), *flags.folder).empty();
      if (!same) shrink(p);
      checkpoints = std::make_unique<RunCheckpoints>(flags, p.loaded.run, p.loaded.program);
    } catch (const std::exception& no_way) {
      throw Error(records.kept(fmt::format("{}\n  It cannot go on: {}", post_mortem, no_way.what())));
    }
    const std::uint64_t done = checkpoints->first_step() - 1, ranks = p.loaded.program.mesh.size();
    const bool again = supervision_->fails(noticed, what, done, ranks);
    if (interrupted()) throw Error(records.kept(post_mortem + "\n  It was asked to end, so it does not start again."));
    if (!again) {
      throw Error(records.kept(fmt::format("{}\n  {} (--tries) brought no new checkpoint after step {}.", post_mortem,
                                           counted(supervise_.tries, "restart"), done)));
    }
    const std::uint64_t kept = done + 1 > first ? done + 1 - first : 0;
    p.options.warmup_steps = warmup_ - std::min(warmup_, kept);
    p.options.steps = last - done - p.options.warmup_steps;
    const std::string plan = describe(p.loaded.run.plan);
    say(fmt::format("warning: {}; restart {} goes on after step {}{}\n", what, supervision_->restarts(), done,
                    same ? "" : fmt::format(" on {}: {}", counted(ranks, "rank"), plan)));
    if (LifecycleHooks* hooks = run_log_.hooks()) hooks->restart({supervision_->restarts(), done, ranks, plan});
  }
}

}  // namespace orrery
