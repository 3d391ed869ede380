#include "exec/run/launch.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include "core/base/diagnostics.hpp"
#include "exec/comm/socket_communicator.hpp"
#include "exec/run/heart.hpp"
#include "exec/run/post_mortem.hpp"

namespace orrery {
namespace {

constexpr int failed_status = 3;

/// One rank's process as its parent sees it.
struct Child {
  pid_t process = 0;
  bool ended = false;
  int state = 0;  ///< as waitpid gives it
};

class Launch {
 public:
  Launch(const LaunchOptions& options, const std::function<int(ProcessWorld&, Recorder&)>& work)
      : options_(options), work_(work), children_(options.ranks), silences_(options.ranks, Silence(options.heartbeat)) {
    for (std::uint32_t r = 0; r < options.ranks; ++r) {
      records_.push_back(std::make_unique<Recorder>(Recorder::file(options.records, Rank{r}), Rank{r}, options.ranks));
    }
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &ends, &mask_before_);
  }
  ~Launch() {
    end_all();
    pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  LaunchOutcome run() {
    start();
    LaunchOutcome outcome;
    outcome.failure = watch();
    end_all();
    outcome.ended_now = ended_now_;
    if (outcome.failure) {
      for (const auto& record : records_) outcome.recordings.push_back(record->read());
    } else if (!ended_now_) {
      outcome.status = WEXITSTATUS(children_[0].state);
    }
    return outcome;
  }

 private:
  void start() {
    std::vector<std::vector<Socket>> sockets = connected_sockets(options_.ranks);
    const pid_t parent = getpid();
    std::fflush(nullptr);
    for (std::uint32_t r = 0; r < options_.ranks; ++r) {
      const pid_t process = fork();
      if (process < 0) throw Error(std::string("cannot start a process for every rank: ") + std::strerror(errno));
      if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(failed_status);
        std::vector<Socket> own = std::move(sockets[r]);
        sockets.clear();
        pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
        _exit(live(Rank{r}, std::move(own)));
      }
      children_[r].process = process;
      records_[r]->set_process(process);
    }
  }

  /// A rank's process, from start to end; returns its exit status.
  int live(Rank rank, std::vector<Socket> sockets) {
    Recorder& record = *records_[index(rank)];
    int status = failed_status;
    try {
      const Heart heart(record, options_.heartbeat);
      WaitOptions waits;
      waits.watchdog = options_.watchdog;
      waits.ends = options_.ends;
      waits.crowded = std::uint64_t{options_.ranks} * options_.ends > std::thread::hardware_concurrency();
      waits.last_end = [this] {
        std::int64_t last = 0;
        for (const auto& r : records_) last = std::max(last, r->last_end());
        return last;
      };
      waits.waiting = [&record](std::optional<Rank> whom) { record.set_waits_for(whom); };
      SocketWorld world(rank, std::move(sockets), std::move(waits));
      status = work_(world, record);
      record.set_state(RankState::finished);
    } catch (const Aborted&) {
      record.set_state(RankState::ended);
    } catch (const std::exception& e) {
      const RankState said = record.state();
      if (said != RankState::gave_up && said != RankState::failed) record.set_state(RankState::failed, e.what());
    }
    std::fflush(nullptr);
    return status;
  }

  /// Notes which processes have ended; returns whether any is left.
  bool reap() {
    bool left = false;
    for (Child& c : children_) {
      if (!c.ended && waitpid(c.process, &c.state, WNOHANG) == c.process) c.ended = true;
      left = left || !c.ended;
    }
    return left;
  }

  [[nodiscard]] bool ended_well(std::uint32_t r) const {
    return children_[r].ended && WIFEXITED(children_[r].state) && records_[r]->state() == RankState::finished;
  }

  /// Heeds what others want; returns false where all is to end now.
  bool heed() {
    ended_now_ = options_.end_now && options_.end_now();
    const int signal = options_.own_signal ? options_.own_signal() : 0;
    if (signal != 0 && !passed_on_ && !children_[0].ended) {
      kill(children_[0].process, signal);
      passed_on_ = true;
    }
    return !ended_now_;
  }

  /// Waits until all have ended, one has failed or nobody wants them any more.
  std::optional<RankFailure> watch() {
    const double period = std::clamp(options_.heartbeat.base() / 20.0, 0.002, 0.1);
    auto looked = std::chrono::steady_clock::now();
    while (reap()) {
      if (!heed()) return std::nullopt;
      for (std::uint32_t r = 0; r < options_.ranks; ++r) {
        if (children_[r].ended && !ended_well(r)) return judge_ends();
      }
      sigset_t ends;
      sigemptyset(&ends);
      sigaddset(&ends, SIGCHLD);
      const timespec longest{0, static_cast<long>(period * 1e9)};
      sigtimedwait(&ends, nullptr, &longest);
      const auto now = std::chrono::steady_clock::now();
      // No rank is at fault when a machine stands still: each look counts for at most twice its usual time.
      const double passed = std::min(std::chrono::duration<double>(now - looked).count(), 2.0 * period);
      looked = now;
      if (const auto silent = look_for_silence(passed)) return silent;
    }
    for (std::uint32_t r = 0; r < options_.ranks; ++r) {
      if (!ended_well(r)) return judge_ends();
    }
    return std::nullopt;
  }

  std::optional<RankFailure> look_for_silence(double passed) {
    for (std::uint32_t r = 0; r < options_.ranks; ++r) {
      const Child& c = children_[r];
      if (silences_[r].too_long(records_[r]->last_beat(), Seconds::of(passed)) && !c.ended) {
        return RankFailure{RankFailure::Kind::silent, Rank{r}, silent_text(Rank{r}, options_.heartbeat, c.process)};
      }
    }
    return std::nullopt;
  }

  /// Called when at least one process has ended as it should not. Returns whose fault it was.
  RankFailure judge_ends() {
    // A rank that saw its partner go may be noticed before that partner is.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    do {
      reap();
      if (const auto culprit = culprit_of_ends()) return *culprit;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } while (std::chrono::steady_clock::now() < limit);
    std::vector<Recording> recordings;
    for (const auto& record : records_) recordings.push_back(record->read());
    return stalled_rank(recordings);
  }

  [[nodiscard]] std::optional<RankFailure> culprit_of_ends() const {
    for (std::uint32_t r = 0; r < options_.ranks; ++r) {
      const Child& c = children_[r];
      if (c.ended && WIFSIGNALED(c.state)) {
        return RankFailure{RankFailure::Kind::killed, Rank{r}, killed_text(Rank{r}, WTERMSIG(c.state))};
      }
    }
    for (std::uint32_t r = 0; r < options_.ranks; ++r) {
      const Child& c = children_[r];
      const RankState state = records_[r]->state();
      // The rank has reported its failure, though its process may take a while to end.
      if (state == RankState::failed) {
        return RankFailure{RankFailure::Kind::failed, Rank{r}, records_[r]->read().message};
      }
      if (!c.ended || ended_well(r)) continue;
      if (state == RankState::starting || state == RankState::running) {
        return RankFailure{RankFailure::Kind::left, Rank{r}, left_text(Rank{r}, WEXITSTATUS(c.state))};
      }
    }
    return std::nullopt;
  }

  void end_all() {
    for (Child& c : children_) {
      if (c.process <= 0 || c.ended) continue;
      kill(c.process, SIGKILL);
      while (waitpid(c.process, &c.state, 0) < 0 && errno == EINTR) {
      }
      c.ended = true;
    }
  }

  const LaunchOptions& options_;
  const std::function<int(ProcessWorld&, Recorder&)>& work_;
  std::vector<Child> children_;
  std::vector<Silence> silences_;  ///< by rank
  std::vector<std::unique_ptr<Recorder>> records_;
  sigset_t mask_before_{};
  bool passed_on_ = false;  ///< the signal, to rank 0's process
  bool ended_now_ = false;
};

}  // namespace

LaunchOutcome launch(const LaunchOptions& options, const std::function<int(ProcessWorld&, Recorder&)>& work) {
  return Launch(options, work).run();
}

}  // namespace orrery
