#include "forecast/run_events.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

#include "core/base/fnv.hpp"
#include "core/base/random.hpp"
#include "forecast/save_count.hpp"

namespace orrery {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// Random numbers of one run, in the order in which it asks.
class Draws {
 public:
  Draws(std::uint64_t seed, std::uint64_t run) : key_(random_bits(seed, stream_of("run"), run)) {}
  [[nodiscard]] double uniform() { return static_cast<double>(mix(key_ ^ mix(count_++)) >> 11) * 0x1.0p-53; }
  /// An exponential draw with mean 1.
  [[nodiscard]] double exponential() { return -std::log1p(-uniform()); }

 private:
  std::uint64_t key_, count_ = 0;
};

class Run {
 public:
  Run(double work, const SavePlan& saves, const RunHazards& hazards, const FewerReplicas& fewer, Draws draws,
      std::vector<WholeRunEvent>* history, std::uint64_t most_events)
      : work_(work),
        saves_(saves),
        count_(saves),
        h_(hazards),
        fewer_(fewer),
        draws_(draws),
        events_(history),
        most_events_(most_events),
        nodes_(hazards.nodes + (hazards.spares ? static_cast<double>(*hazards.spares) : 0.0)),
        limited_(hazards.spares && hazards.repair) {}

  SimulatedRun play() {
    weibull_scale_ = h_.shape == 1.0 ? 1.0 : 1.0 / std::tgamma(1.0 + 1.0 / h_.shape);
    draw_failure();
    next_planned_ = h_.planned_stops > 0.0 ? draws_.exponential() / h_.planned_stops : never;
    next_slow_ = h_.slow_starts > 0.0 ? draws_.exponential() / h_.slow_starts : never;
    begin_stretch();
    while (!out_.finished && !given_up()) {
      if (state_ == State::running) {
        run_on();
      } else if (state_ == State::restarting) {
        restart();
      } else {
        wait();
      }
    }
    out_.ledger.productive = Seconds::of(kept_);
    return out_;
  }

 private:
  enum class State : std::uint8_t { running, restarting, waiting };

  [[nodiscard]] bool given_up() const { return out_.events >= most_events_; }
  void note(WholeRunEventKind kind) {
    ++out_.events;
    const auto whole = [](double seconds) { return static_cast<std::uint64_t>(std::llround(seconds * 1e9)); };
    for (const std::uint64_t word : {whole(now_), whole(kept_), static_cast<std::uint64_t>(kind)})
      out_.history = mix(out_.history ^ word);
    if (events_ != nullptr) events_->push_back({Seconds::of(now_), Seconds::of(kept_), kind});
  }
  void lose(LostTime why, double seconds) { out_.ledger[why] += Seconds::of(seconds); }

  void draw_failure() {
    const double rate = h_.failures();
    if (rate <= 0.0) {
      next_failure_ = never;
    } else if (h_.shape == 1.0) {
      next_failure_ = now_ + draws_.exponential() / rate;
    } else {
      next_failure_ = now_ + weibull_scale_ * std::pow(draws_.exponential(), 1.0 / h_.shape) / rate;
    }
  }

  /// Time of the next thing that has nothing to do with steps, and it happens: slow nodes begin and end, repairs end.
  [[nodiscard]] double next_aside() const {
    return std::min({next_slow_, slow_end_, repairs_.empty() ? never : repairs_.top()});
  }
  /// Whether a job with fewer replicas may have one back.
  bool aside() {
    if (!repairs_.empty() && now_ >= repairs_.top()) {
      repairs_.pop();
      note(WholeRunEventKind::repaired);
      return missing_ > 0 && missing_replicas() < missing_;
    }
    if (now_ >= slow_end_) {
      slow_end_ = never;
      note(WholeRunEventKind::slow_found);
      return false;
    }
    // Another node that turns slow while one is slow extends the time; steps do not get slower.
    slow_end_ = now_ + h_.slow_until_found.base();
    next_slow_ = now_ + draws_.exponential() / h_.slow_starts;
    note(WholeRunEventKind::slow_start);
    return false;
  }

  [[nodiscard]] double speed() const {
    return 1.0 / ((slow_end_ < never ? h_.slow_factor : 1.0) * fewer_.slowdown[missing_]);
  }

  void begin_stretch() {
    x_ = 0.0;
    missing_ = missing_replicas();
    out_.most_replicas_missing = std::max<std::uint64_t>(out_.most_replicas_missing, missing_);
    to_the_end_ = count_.time_for(work_ - kept_);
    state_ = State::running;
  }

  void run_on() {
    const double pace = speed();
    const double end = now_ + (to_the_end_ - x_) / pace;
    const double next = std::min({end, next_failure_, next_planned_, next_aside()});
    if (pace < 1.0) lose(LostTime::slow, (next - now_) * (1.0 - pace));
    x_ += (next - now_) * pace;
    now_ = next;
    if (next == end) {
      finish();
    } else if (next == next_failure_) {
      roll_back();
      fail();
    } else if (next == next_planned_) {
      next_planned_ = now_ + draws_.exponential() / h_.planned_stops;
      stop_for(h_.planned_stop, WholeRunEventKind::planned_stop);
    } else if (aside()) {
      stop_for(Seconds(), WholeRunEventKind::planned_stop);  // a replica comes back
    }
  }

  void finish() {
    lose(LostTime::save, to_the_end_ - (work_ - kept_));
    kept_ = work_;
    stored_ = work_;
    out_.finished = true;
    note(WholeRunEventKind::finished);
  }

  /// Ends a stretch in which `saves` saves count.
  void keep(double saves) {
    const double kept = saves * saves_.interval.base();
    lose(LostTime::save, count_.end_of(saves) - kept);
    kept_ += kept;
  }

  void roll_back() {
    // A copy in memory counts at once; what is written beside the steps is only the save to storage.
    const bool levels = saves_.storage_every > 1;
    const double written = x_ - saves_.until_it_counts.base();
    const double counted = count_.ended(levels ? x_ : written);
    keep(counted);
    lose(LostTime::lost_work, x_ - count_.end_of(counted));
    if (levels) {
      const double before = kept_;
      const double stored = count_.to_storage(count_.ended(written));
      if (stored > 0.0) stored_ = kept_ - (counted - stored) * saves_.interval.base();
      if (draws_.uniform() < h_.needs_storage) kept_ = stored_;
      lose(LostTime::lost_work, before - kept_);
    } else {
      stored_ = kept_;
    }
  }

  void fail() {
    ++out_.failures;
    const double which = draws_.uniform() * h_.failures();
    WholeRunEventKind kind = WholeRunEventKind::job_failure;
    double lost = 0.0;
    if (which < h_.node_failures) {
      kind = WholeRunEventKind::node_failure;
      lost = 1.0;
    } else if (which < h_.node_failures + h_.group_failures) {
      kind = WholeRunEventKind::group_failure;
      lost = std::round(h_.group_nodes);
    }
    if (limited_) {
      // No more nodes are under repair than there are.
      for (double i = 0.0; i < lost && usable() > 0.0; i += 1.0) repairs_.push(now_ + h_.repair->base());
    }
    draw_failure();
    note(kind);
    // A node that is lost may be the slow one; it is not known, and it stays.
    begin_restart(h_.phases());
  }

  /// A stop with a save before it. All of its time counts as planned.
  void stop_for(Seconds length, WholeRunEventKind kind) {
    const double saves = count_.ended(x_);
    keep(saves);
    const double inside = x_ - count_.end_of(saves);
    const double work = std::min({inside, saves_.interval.base(), work_ - kept_});
    kept_ += work;
    stored_ = kept_;
    lose(LostTime::planned_stop, inside - work);  // a save that was under way is part of the stop's
    note(kind);
    begin_restart({{{LostTime::planned_stop, saves_.blocking},
                    {LostTime::planned_stop, length},
                    {LostTime::planned_stop, h_.restart},
                    {LostTime::planned_stop, h_.load}}});
  }

  using Phases = std::array<std::pair<LostTime, Seconds>, 4>;
  void begin_restart(const Phases& phases) {
    phases_ = phases;
    state_ = can_run() ? State::restarting : State::waiting;
  }

  void restart() {
    for (const auto& [why, length] : phases_) {
      const double end = now_ + length.base();
      if (next_failure_ < end) {
        lose(why, next_failure_ - now_);
        now_ = next_failure_;
        return fail();
      }
      lose(why, length.base());
      now_ = end;
    }
    while (next_aside() <= now_ && !given_up()) aside();
    note(WholeRunEventKind::resumed);
    if (next_planned_ < now_) next_planned_ = now_ + draws_.exponential() / h_.planned_stops;
    begin_stretch();
  }

  /// For a node to be repaired.
  void wait() {
    // Repairs may have ended during the restart that the last failure broke off.
    const double next = std::max(now_, std::min(next_aside(), next_failure_));
    lose(LostTime::queue, next - now_);
    now_ = next;
    if (next >= next_failure_) return fail();
    aside();
    if (can_run()) state_ = State::restarting;
  }

  [[nodiscard]] double usable() const { return nodes_ - static_cast<double>(repairs_.size()); }
  [[nodiscard]] std::size_t missing_replicas() const {
    if (!limited_ || usable() >= h_.nodes) return 0;
    return static_cast<std::size_t>(std::ceil((h_.nodes - usable()) / fewer_.nodes_per_replica));
  }
  [[nodiscard]] bool can_run() const { return missing_replicas() < fewer_.slowdown.size(); }

  double work_;
  const SavePlan& saves_;
  SaveCount count_;
  const RunHazards& h_;
  const FewerReplicas& fewer_;
  Draws draws_;
  std::vector<WholeRunEvent>* events_;
  std::uint64_t most_events_;
  double nodes_;  ///< with spares
  bool limited_;  ///< the number of nodes counts
  SimulatedRun out_;
  State state_ = State::running;
  Phases phases_{};
  double now_ = 0.0;
  double kept_ = 0.0, stored_ = 0.0;  ///< work that stays, in memory or storage, and in storage
  double x_ = 0.0;                    ///< of the stretch, at healthy speed
  double to_the_end_ = 0.0;
  double next_failure_ = never, next_planned_ = never, next_slow_ = never, slow_end_ = never;
  double weibull_scale_ = 1.0;
  std::size_t missing_ = 0;
  std::priority_queue<double, std::vector<double>, std::greater<>> repairs_;
};

}  // namespace

std::string_view name_of(WholeRunEventKind kind) {
  switch (kind) {
    case WholeRunEventKind::node_failure: return "node failure";
    case WholeRunEventKind::group_failure: return "group failure";
    case WholeRunEventKind::job_failure: return "job failure";
    case WholeRunEventKind::planned_stop: return "planned stop";
    case WholeRunEventKind::slow_start: return "slow node";
    case WholeRunEventKind::slow_found: return "slow node found";
    case WholeRunEventKind::resumed: return "resumed";
    case WholeRunEventKind::repaired: return "repaired";
    case WholeRunEventKind::finished: return "finished";
  }
  return "";
}

SimulatedRun simulate_run(Seconds work, const SavePlan& saves, const RunHazards& hazards, const FewerReplicas& fewer,
                          std::uint64_t seed, std::uint64_t number, std::vector<WholeRunEvent>* history,
                          std::uint64_t most_events) {
  return Run(work.base(), saves, hazards, fewer, Draws(seed, number), history, most_events).play();
}

}  // namespace orrery
