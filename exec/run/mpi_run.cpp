#include "exec/run/mpi_run.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/diagnostics.hpp"
#include "exec/run/execute_rank.hpp"
#include "exec/run/heart.hpp"
#include "exec/run/issue.hpp"
#include "exec/run/op_runner.hpp"
#include "exec/run/post_mortem.hpp"
#include "exec/run/rank_runner.hpp"

namespace orrery {
namespace {

/// Blocks SIGTERM in this thread and those that it starts.
class HeldSignal {
 public:
  HeldSignal() {
    sigemptyset(&held_);
    sigaddset(&held_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
  }
  ~HeldSignal() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignal(const HeldSignal&) = delete;
  HeldSignal& operator=(const HeldSignal&) = delete;
  [[nodiscard]] bool came() const {
    const timespec now{0, 0};
    return sigtimedwait(&held_, nullptr, &now) == SIGTERM;
  }

 private:
  sigset_t held_{}, before_{};
};

/// The ranks of this host, by their records.
class Neighbours {
 public:
  Neighbours(MpiSession& session, const Program& program, const MpiRunOptions& options)
      : session_(session), program_(program), options_(options), looked_(std::chrono::steady_clock::now()) {
    const auto file = [&](Rank r) { return Recorder::file(options.records, r); };
    try {
      std::filesystem::create_directories(options.records);
      own_ = std::make_unique<Recorder>(file(session.rank()), session.rank(), session.ranks());
    } catch (const std::exception& e) {
      options.tell("rank " + std::to_string(index(session.rank())) + ": " + e.what());
      session.abort(options.failed_status);
    }
    own_->set_process(getpid());
    own_->beat(now_ns());
    static_cast<void>(session.all_gather(0));  // all are there
    for (const Rank r : session.neighbours()) {
      records_.push_back(std::make_unique<Recorder>(file(r)));
      silences_.emplace_back(options.heartbeat);
    }
  }

  [[nodiscard]] Recorder& own() { return *own_; }

  [[nodiscard]] std::int64_t last_end() const {
    std::int64_t last = 0;
    for (const auto& r : records_) last = std::max(last, r->last_end());
    return last;
  }

  /// Called with each beat: tests whether all others live.
  void look(const HeldSignal& terminate) {
    const auto now = std::chrono::steady_clock::now();
    const double usual = Heart::period(options_.heartbeat).base();
    const double passed = std::min(std::chrono::duration<double>(now - looked_).count(), 2.0 * usual);
    looked_ = now;
    const bool ended = terminate.came();
    for (std::size_t i = 0; i < records_.size(); ++i) {
      const Recording r = records_[i]->read();
      const bool over = r.state == RankState::finished || r.state == RankState::failed;
      if (over || r.rank == session_.rank()) continue;
      const bool silent = silences_[i].too_long(r.last_beat, Seconds::of(passed));
      // A process that beats is there, so the system is asked only about the others.
      if ((ended || silences_[i].begun()) && process_is_gone(r.process)) {
        fail({RankFailure::Kind::killed, r.rank, gone_text(r.rank, r.process)});
      }
      if (silent) {
        fail({RankFailure::Kind::silent, r.rank, silent_text(r.rank, options_.heartbeat, r.process)});
      }
    }
    if (ended) options_.asked_to_end();
    if (const auto status = options_.end_now()) {
      remove_records();
      session_.abort(*status);
    }
  }

  void remove_records() const {
    std::error_code ignored;
    std::filesystem::remove_all(options_.records, ignored);
  }

  /// One of this host's processes reports; then the job ends.
  [[noreturn]] void fail(const RankFailure& failure) {
    const int told = open((options_.records / "told").c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (told < 0) {
      std::this_thread::sleep_for(std::chrono::seconds(2));  // it is being told
      session_.abort(options_.failed_status);
    }
    std::vector<Recording> recordings;
    for (const auto& record : records_) recordings.push_back(record->read());
    RankFailure of = failure;
    if (failure.kind == RankFailure::Kind::stalled) of = stalled_rank(recordings);
    options_.tell(post_mortem_text(program_, of, recordings) + "\n  The ranks' last operations are kept in " +
                  options_.records.string() + ".");
    session_.abort(options_.failed_status);
  }

 private:
  MpiSession& session_;
  const Program& program_;
  const MpiRunOptions& options_;
  std::unique_ptr<Recorder> own_;
  std::vector<std::unique_ptr<Recorder>> records_;  ///< of this host's ranks
  std::vector<Silence> silences_;
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace

std::optional<RunResult> execute_mpi(MpiSession& session, const Program& program, const Workload& workload,
                                     const DataSource& data, const RunOptions& options, const MpiRunOptions& how) {
  const HeldSignal terminate;
  Neighbours neighbours(session, program, how);
  std::optional<RunResult> result;
  {
    const Heart heart(neighbours.own(), how.heartbeat, [&] { neighbours.look(terminate); });
    WaitOptions waits;
    waits.watchdog = options.watchdog;
    waits.ends = ends_of(program, options.concurrent_lanes);
    waits.last_end = [&] { return neighbours.last_end(); };
    waits.waiting = [&](std::optional<Rank> whom) { neighbours.own().set_waits_for(whom); };
    // It outlives the handlers: until the job ends, MPI may still write into messages that it was given.
    std::optional<MpiWorld> world;
    try {
      world.emplace(session, std::move(waits));
      if (how.library_collectives) world->use_library_collectives(ranks_of_groups(program, session.rank()));
      result = execute_rank(*world, program, workload, data, options, "run mpi", &neighbours.own());
    } catch (const std::exception& e) {
      const auto kind =
          neighbours.own().state() == RankState::gave_up ? RankFailure::Kind::stalled : RankFailure::Kind::failed;
      neighbours.fail({kind, session.rank(), e.what()});
    } catch (const Aborted&) {
      session.abort(how.failed_status);
    }
  }
  static_cast<void>(session.all_gather(0));  // nobody looks any more
  neighbours.remove_records();
  return result;
}

}  // namespace orrery
