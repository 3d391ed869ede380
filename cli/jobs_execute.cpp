#include "cli/jobs_execute.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/child_process.hpp"
#include "cli/interrupt.hpp"
#include "cli/plan_source.hpp"
#include "cli/status.hpp"
#include "core/base/counted.hpp"
#include "core/base/fnv.hpp"
#include "exec/checkpoint/generations.hpp"

namespace orrery {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds pause{2};         ///< between two looks at the processes
constexpr std::chrono::seconds longest_farewell{30};  ///< from the wish that processes end until they are killed

Microseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
}

/// Steps of the newest checkpoint in a folder: "0002-step-12".
std::uint64_t saved_steps(const std::filesystem::path& folder) {
  const std::vector<std::string> names = generations(*system_files(), folder);
  if (names.empty()) return 0;
  const std::string number = names.front().substr(names.front().rfind('-') + 1);
  std::uint64_t out = 0;
  std::from_chars(number.data(), number.data() + number.size(), out);
  return out;
}

/// Asks processes to end, so that they save side by side, and waits for them. What is left then is killed as it goes.
void end_all(const std::vector<ChildProcess*>& all) {
  for (const ChildProcess* child : all) child->signal(SIGTERM);
  const Clock::time_point last = Clock::now() + longest_farewell;
  const auto runs = [](ChildProcess* child) { return !child->ended().has_value(); };
  while (Clock::now() < last && std::any_of(all.begin(), all.end(), runs)) std::this_thread::sleep_for(pause);
}

[[noreturn]] void refuse_plan(const ClusterJob& job, const std::string& what) {
  refuse("jobs.plan", fmt::format("{} (line {}): {}", job.name, job.at.line, what));
}

}  // namespace

ExecutedJobs::ExecutedJobs(JobWorkload& w, const std::filesystem::path& workload_file, std::filesystem::path folder,
                           const CommonFlags& flags)
    : workload_(w), folder_(std::move(folder)), flags_(flags) {
  std::filesystem::create_directories(folder_);
  for (const ClusterJob& job : w.jobs) {
    if (!job.processes) refuse_plan(job, "--execute needs plans and steps of every job");
    std::map<std::uint32_t, std::string> by_ranks;
    for (const std::string& name : job.processes->plans) {
      const std::string path = (workload_file.parent_path() / name).string();
      const PlannedRun run = read_plan_source(path, flags_, std::nullopt);
      const auto ranks = static_cast<std::uint32_t>(run.plan.mesh.size());
      if (!by_ranks.emplace(ranks, path).second)
        refuse_plan(job, fmt::format("two plans are for {}", counted(ranks, "rank")));
    }
    if (by_ranks.count(job.gpus) == 0) refuse_plan(job, fmt::format("no plan is for its {}", counted(job.gpus, "GPU")));
    plans_.push_back(std::move(by_ranks));
  }
}

std::vector<std::string> ExecutedJobs::command(const std::string& plan, std::uint32_t ranks, std::uint64_t steps,
                                               const std::filesystem::path& saved) const {
  std::vector<std::string> out = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                  "run",
                                  plan,
                                  "--ranks",
                                  std::to_string(ranks),
                                  "--warmup",
                                  "0",
                                  "--steps",
                                  std::to_string(steps),
                                  "--json",
                                  "--checkpoint",
                                  saved.string()};
  if (saved_steps(saved) > 0) out.emplace_back("--resume");
  if (flags_.data) out.insert(out.end(), {"--data", *flags_.data});
  return out;
}

ExecutedJobs::Pace ExecutedJobs::pace_of(const std::string& plan, std::uint32_t ranks, std::uint64_t steps) {
  const std::filesystem::path saved = folder_ / fmt::format("measured-{}", paces_.size());
  const auto [at, fresh] = paces_.try_emplace(plan);
  if (!fresh) return at->second;
  std::filesystem::remove_all(saved);
  const Clock::time_point begin = Clock::now();
  ChildProcess child(command(plan, ranks, steps, saved), saved.string() + ".json", saved.string() + ".err");
  while (!child.ended()) {
    if (interrupted().load()) {
      end_all({&child});
      throw JobsBrokenOff{};
    }
    std::this_thread::sleep_for(pause);
  }
  if (child.wait() != 0) throw Error(fmt::format("{} does not run:\n{}", plan, child.errors()));
  const double wall_s = seconds_of(since(begin));
  std::ifstream report(saved.string() + ".json");
  const auto json = nlohmann::json::parse(report, nullptr, false);
  if (json.is_discarded() || !json.contains("step_time_s")) throw Error(fmt::format("{} says no time of a step", plan));
  Pace& pace = at->second;
  pace.step_s = std::fmax(json["step_time_s"].get<double>(), 1e-6);
  pace.start_s = std::fmax(0.0, wall_s - static_cast<double>(steps) * pace.step_s);
  return pace;
}

std::filesystem::path ExecutedJobs::folder_of(const JobPolicyRow& row) const { return folder_ / row.name; }

void ExecutedJobs::require_new(const std::vector<const JobPolicyRow*>& policies) const {
  for (const JobPolicyRow* row : policies) {
    if (!std::filesystem::exists(folder_of(*row))) continue;
    refuse("jobs.execute", fmt::format("{} is there already", folder_of(*row).string()),
           {"--execute needs a folder in which no run of this policy is kept."});
  }
}

void ExecutedJobs::measure() {
  const auto whole = [](double s) { return std::llround(s * static_cast<double>(microseconds_per_second)); };
  for (std::size_t j = 0; j < workload_.jobs.size(); ++j) {
    ClusterJob& job = workload_.jobs[j];
    const std::uint64_t few = std::max<std::uint64_t>(1, job.processes->steps / 4);
    const Pace own = pace_of(plans_[j].at(job.gpus), job.gpus, few);
    job.run = whole(own.step_s * static_cast<double>(job.processes->steps));
    job.startup = whole(own.start_s);
    job.restart = job.startup;
    job.speeds.clear();
    for (const auto& [ranks, plan] : plans_[j]) {
      const double speed = static_cast<double>(full_speed) * own.step_s / pace_of(plan, ranks, few).step_s;
      job.speeds.push_back({ranks, std::llround(std::clamp(speed, 1.0, 1e8))});
    }
  }
}

/// One play of the workload: the policy's state beside the processes that follow it.
class ExecutedJobs::Play {
 public:
  Play(const ExecutedJobs& of, const JobPolicyRow& row, const JobSimulation& options)
      : of_(of),
        jobs_(of.workload_.jobs),
        folder_(of.folder_of(row)),
        state_(of.workload_, options.gpus_of_nodes, options.places, options.costs),
        policy_(row.make()),
        running_(jobs_.size()) {
    std::filesystem::create_directories(folder_);
    if (options.keep_stretches) state_.keep_stretches(&out_.stretches);
  }
  Play(const Play&) = delete;
  Play& operator=(const Play&) = delete;
  /// However the play ends, no process outlives it, and each saves first.
  ~Play() {
    std::vector<ChildProcess*> all;
    for (const Running& r : running_) {
      if (r.child) all.push_back(r.child.get());
    }
    end_all(all);
  }

  [[nodiscard]] JobHistory run() {
    out_.begin = look_ = jobs_.front().submit;
    state_.advance(out_.begin);
    begin_ = Clock::now() - std::chrono::microseconds(out_.begin);
    while (done_ < jobs_.size()) {
      if (interrupted().load()) throw JobsBrokenOff{"the jobs' checkpoints are in " + folder_.string()};
      if (!step()) std::this_thread::sleep_for(pause);
    }
    out_.end = state_.now();
    out_.gpus = state_.all_gpus();
    out_.jobs = state_.all();
    out_.busy = state_.busy();
    out_.crowd = state_.crowd_time();
    out_.hash = state_.history();
    return std::move(out_);
  }

 private:
  /// The process of a job, where it has GPUs.
  struct Running {
    std::unique_ptr<ChildProcess> child;
    std::vector<NodeShare> places;
    std::uint32_t starts = 0;
  };

  [[nodiscard]] std::filesystem::path saved(JobNumber j) const { return folder_ / fmt::format("job-{}", j + 1); }
  [[nodiscard]] std::uint64_t steps_left(JobNumber j) const {
    return jobs_[j].processes->steps - saved_steps(saved(j));
  }
  [[noreturn]] void fail(JobNumber j, int status) const {
    throw Error(fmt::format("{} ended with {}:\n{}", jobs_[j].name, status, running_[j].child->errors()));
  }

  /// Tells the policy what has happened, and follows it. False where nothing has.
  bool step() {
    const std::vector<JobNumber> ended = ended_jobs();
    const Microseconds now = since(begin_);
    const bool comes = arrived_ < jobs_.size() && jobs_[arrived_].submit <= now;
    if (ended.empty() && !comes && now < look_) return false;
    // A policy with rounds is asked at the whole time of the round.
    state_.advance(std::max(state_.now(), ended.empty() && !comes ? look_ : now));
    for (const JobNumber j : ended) {
      if (steps_left(j) != 0)
        throw Error(fmt::format("{} has ended {} short", jobs_[j].name, counted(steps_left(j), "step")));
      state_.finish(j);
      policy_->ended(state_, j);
      ++done_;
    }
    for (; arrived_ < jobs_.size() && jobs_[arrived_].submit <= state_.now(); ++arrived_) {
      state_.submit(static_cast<JobNumber>(arrived_));
      policy_->submitted(state_, static_cast<JobNumber>(arrived_));
    }
    out_.most_crowd = std::max(out_.most_crowd, state_.crowd());
    static_cast<void>(state_.take_changes());
    policy_->decide(state_);
    std::vector<JobNumber> changed = state_.take_changes();
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    stop(changed);
    start(changed);
    look_ = policy_->next_look(state_);
    return true;
  }

  /// Jobs whose processes have ended, by their numbers.
  [[nodiscard]] std::vector<JobNumber> ended_jobs() {
    std::vector<JobNumber> out;
    for (const JobNumber j : state_.running()) {
      const std::optional<int> status = running_[j].child->ended();
      if (!status) continue;
      if (*status != 0) fail(j, *status);
      out.push_back(j);
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  /// Stops the processes of jobs that have other GPUs now, or none. All are asked first, so that they save side by
  /// side.
  void stop(const std::vector<JobNumber>& changed) {
    std::vector<JobNumber> stopping;
    for (const JobNumber j : changed) {
      if (!running_[j].child || state_.progress(j).places == running_[j].places) continue;
      running_[j].child->signal(SIGTERM);
      stopping.push_back(j);
    }
    for (const JobNumber j : stopping) {
      const int status = running_[j].child->wait();
      // 1: it was asked before it had ended a step.
      if (status != 0 && status != status_no && status != 128 + SIGTERM) fail(j, status);
      running_[j].child.reset();
      running_[j].places.clear();
    }
  }

  /// Starts the processes of jobs that have GPUs and none yet.
  void start(const std::vector<JobNumber>& changed) {
    for (const JobNumber j : changed) {
      Running& r = running_[j];
      const JobProgress& p = state_.progress(j);
      if (p.phase != JobPhase::running || r.child) continue;
      const std::string name = saved(j).string() + fmt::format("-{}", ++r.starts);
      // A job that ended while it was asked to stop has no step left; it says so at once.
      const std::vector<std::string> words =
          steps_left(j) > 0 ? of_.command(of_.plans_[j].at(p.gpus), p.gpus, steps_left(j), saved(j))
                            : std::vector<std::string>{"/bin/true"};
      r.child = std::make_unique<ChildProcess>(words, name + ".json", name + ".err");
      r.places = p.places;
    }
  }

  const ExecutedJobs& of_;
  const std::vector<ClusterJob>& jobs_;
  std::filesystem::path folder_;
  JobHistory out_;
  ClusterState state_;
  std::unique_ptr<JobPolicy> policy_;
  std::vector<Running> running_;  ///< by job
  Clock::time_point begin_;
  Microseconds look_ = 0;  ///< when the policy wants to be asked, whatever happens
  std::size_t arrived_ = 0, done_ = 0;
};

JobHistory ExecutedJobs::play(const JobPolicyRow& row, const JobSimulation& options) {
  return Play(*this, row, options).run();
}

}  // namespace orrery
