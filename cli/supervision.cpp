#include "cli/supervision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/common.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "exec/run/op_runner.hpp"

namespace orrery {
namespace {

constexpr double from_ns = 1e-9;

std::optional<Seconds> stated(const SuperviseFlags& flags) {
  if (!flags.between_failures) return std::nullopt;
  Seconds value;
  std::string problem;
  if (!parse_quantity(*flags.between_failures, value, problem)) {
    refuse("cli.supervise", fmt::format("--mean-time-between-failures: {}", problem),
           {"It is a time with its unit: \"90 s\", \"2 h\", \"5 d\"."});
  }
  if (!(value.base() > 0.0 && value.base() <= 1e10)) {
    refuse("cli.supervise",
           fmt::format("--mean-time-between-failures is {}; it must be above 0 and at most 1e10 s", exact_text(value)));
  }
  return value;
}

std::string seconds_text(double s) { return short_text(Seconds::of(s)); }

}  // namespace

void declare_supervision(Command& c, SuperviseFlags& flags) {
  c.group("A run that survives failures");
  c.flag("--supervise", flags.wanted,
         "where a rank's process fails, start again from the newest good checkpoint; the ranks are processes of this "
         "machine");
  c.option("--tries", flags.tries, "restarts without a new checkpoint between them, after which the run ends",
           {1, 1'000'000});
  c.choice("--restart", flags.restart, {"same", "fewer"},
           "--supervise: all ranks again, or without the one that failed, under the plan that the planner picks for "
           "the rest");
  c.option("--mean-time-between-failures", flags.between_failures,
           "--supervise: of the whole job, \"2 h\"; it decides when to save where --every does not. Default: measured");
  c.group("");
}

void check_supervision(const SuperviseFlags& flags, bool processes_here, bool keeps_checkpoints) {
  if (!flags.wanted) {
    if (flags.between_failures) refuse("cli.supervise", "--mean-time-between-failures is for --supervise");
    if (flags.restart != "same") refuse("cli.supervise", "--restart is for --supervise");
    return;
  }
  if (!processes_here) {
    refuse("cli.supervise", "--supervise watches processes that are started here",
           {"These are the ranks of --ranks N. mpirun, srun and torchrun watch their own; after a failure they, or a "
            "script, start the job again with --resume."});
  }
  if (!keeps_checkpoints) {
    refuse("cli.supervise", "--supervise needs a folder to go on from: --checkpoint DIR");
  }
  if (flags.tries < 1 || flags.tries > 1'000'000) {
    refuse("cli.supervise", fmt::format("--tries is {}; it must be from 1 to 1000000", flags.tries));
  }
  static_cast<void>(stated(flags));
}

Supervision::Supervision(const SuperviseFlags& flags, std::uint64_t first_step)
    : pace_(stated(flags)),
      first_step_(first_step),
      last_step_(first_step - 1),
      tries_(flags.tries),
      tries_left_(flags.tries),
      fewer_(flags.restart == "fewer"),
      furthest_(first_step - 1) {}

void Supervision::starts(std::int64_t now) {
  if (begun_at_ == 0) begun_at_ = now;
  started_at_ = last_at_ = now;
  began_ = false;
}

void Supervision::apply(const JournalEntry& e) {
  switch (e.kind) {
    case JournalEntry::Kind::began:
      began_ = true;
      starting_ += static_cast<double>(e.at - started_at_) * from_ns;
      if (!failures_.empty()) {
        restarting_ += static_cast<double>(e.at - noticed_at_) * from_ns;
        ++restarts_that_began_;
      }
      pace_.began();
      break;
    case JournalEntry::Kind::step:
      pace_.step_ended(Seconds::of(static_cast<double>(e.took) * from_ns));
      step_times_.push_back(static_cast<double>(e.took) * from_ns);
      if (e.has_loss != 0) losses_.push_back(e.loss);
      last_step_ = e.step;
      break;
    case JournalEntry::Kind::saved: pace_.saved(Seconds::of(static_cast<double>(e.took) * from_ns)); break;
  }
  last_at_ = e.at;
}

void Supervision::note(const JournalEntry& entry) {
  journal_.note(entry);
  apply(entry);
}

bool Supervision::fails(std::int64_t now, std::string what, std::uint64_t from, std::uint64_t ranks) {
  for (const JournalEntry& e : journal_.read()) apply(e);
  journal_.clear();
  (began_ ? unfinished_ : starting_) += static_cast<double>(now - last_at_) * from_ns;
  pace_.ran(Seconds::of(static_cast<double>(now - started_at_) * from_ns));
  pace_.failed();
  failures_.push_back({std::move(what), static_cast<double>(now - begun_at_) * from_ns, 0.0, last_step_, from, ranks});
  // What lies behind the checkpoint has to be done again. Where newer ones are damaged it may be older than this run.
  const std::size_t kept = from + 1 > first_step_ ? from + 1 - first_step_ : 0;
  first_step_ = std::min(first_step_, from + 1);
  for (std::size_t i = kept; i < step_times_.size(); ++i) repeated_ += step_times_[i];
  step_times_.resize(std::min(kept, step_times_.size()));
  losses_.resize(std::min(kept, losses_.size()));
  failures_.back().kept = std::accumulate(step_times_.begin(), step_times_.end(), 0.0);
  last_step_ = from;
  noticed_at_ = now;
  if (from > furthest_) tries_left_ = tries_;
  furthest_ = std::max(furthest_, from);
  if (tries_left_ == 0) return false;
  --tries_left_;
  return true;
}

void Supervision::began(std::uint64_t step) { note({JournalEntry::Kind::began, 0, step, now_ns(), 0, 0.0}); }

void Supervision::step_ended(std::uint64_t step, std::int64_t took, std::optional<double> loss) {
  note({JournalEntry::Kind::step, loss ? 1U : 0U, step, now_ns(), took, loss.value_or(0.0)});
}

void Supervision::saved(std::uint64_t step, std::int64_t took) {
  note({JournalEntry::Kind::saved, 0, step, now_ns(), took, 0.0});
}

void Supervision::ends() {
  ended_at_ = now_ns();
  pace_.ran(Seconds::of(static_cast<double>(ended_at_ - started_at_) * from_ns));
}

WallTime Supervision::wall() const {
  WallTime t;
  t.kept = std::accumulate(step_times_.begin(), step_times_.end(), 0.0);
  t.repeated = repeated_;
  t.saves = pace_.save_time().base();
  t.unfinished = unfinished_;
  t.starting = starting_;
  t.other = static_cast<double>(ended_at_ - begun_at_) * from_ns - t.all();
  return t;
}

std::optional<double> Supervision::restart_s() const {
  if (restarts_that_began_ == 0) return std::nullopt;
  return restarting_ / restarts_that_began_;
}

std::string Supervision::text() const {
  const WallTime t = wall();
  std::string out = fmt::format("\n  {} of {} is kept work; {} survived\n", percent(t.kept / t.all()),
                                seconds_text(t.all()), counted(failures_.size(), "failure"));
  out += fmt::format("  lost: saves {}, repeated steps {}, unfinished steps {}, starting {}, other {}\n",
                     seconds_text(t.saves), seconds_text(t.repeated), seconds_text(t.unfinished),
                     seconds_text(t.starting), seconds_text(t.other));
  if (pace_.saves() > 0 && pace_.steps() > 0) {
    out +=
        fmt::format("  best interval between checkpoints: {} of {}; a save takes {}, a failure comes every {} ({})\n",
                    counted(pace_.interval(), "step"), short_text(pace_.step()), short_text(pace_.save()),
                    short_text(pace_.between_failures()), pace_.is_stated() ? "as stated" : "measured");
  }
  constexpr std::size_t shown = 10;
  const std::size_t first = failures_.size() > shown ? failures_.size() - shown : 0;
  if (first > 0) out += fmt::format("  {} before these:\n", counted(first, "failure"));
  for (std::size_t i = first; i < failures_.size(); ++i) {
    const Failure& f = failures_[i];
    out += fmt::format("  after step {}: {}; went on after step {}{}\n", f.step, escaped(f.what), f.from,
                       fewer_ ? fmt::format(" on {}", counted(f.ranks, "rank")) : "");
  }
  return out;
}

nlohmann::ordered_json Supervision::json() const {
  const WallTime t = wall();
  nlohmann::ordered_json out;
  out["wall_s"] = t.all();
  out["kept_share"] = t.kept / t.all();
  out["kept_steps"] = kept_steps();
  out["kept_s"] = t.kept;
  out["lost_s"] = {{"saves", t.saves},
                   {"repeated_steps", t.repeated},
                   {"unfinished_steps", t.unfinished},
                   {"starting", t.starting},
                   {"other", t.other}};
  const auto known = [](bool is, double value) {
    return is ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  const bool steps = pace_.steps() > 0, saves = pace_.saves() > 0;
  out["trained_steps"] = pace_.steps();
  out["step_s"] = known(steps, steps ? pace_.step().base() : 0.0);
  out["saves"] = pace_.saves();
  out["save_s"] = known(saves, saves ? pace_.save().base() : 0.0);
  out["restart_s"] = known(restart_s().has_value(), restart_s().value_or(0.0));
  out["mean_time_between_failures_s"] = pace_.between_failures().base();
  out["mean_time_is_stated"] = pace_.is_stated();
  out["interval_steps"] = nullptr;
  if (steps && saves) out["interval_steps"] = pace_.interval();
  out["failures"] = nlohmann::ordered_json::array();
  for (const Failure& f : failures_) {
    out["failures"].push_back({{"what", f.what},
                               {"at_s", f.at},
                               {"kept_s", f.kept},
                               {"step", f.step},
                               {"went_on_after", f.from},
                               {"ranks", f.ranks}});
  }
  return out;
}

}  // namespace orrery
