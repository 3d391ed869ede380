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

/// The processes of one play.
struct ExecutedJobs::Processes {
  struct Running {
    std::unique_ptr<ChildProcess> child;
    std::vector<NodeShare> places;
    std::uint32_t starts = 0;
  };
  std::vector<Running> jobs;
  std::filesystem::path folder;

  Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  /// Whatever ends the play ends the processes: they save first.
  ~Processes() {
    std::vector<ChildProcess*> all;
    for (const Running& r : jobs) {
      if (r.child) all.push_back(r.child.get());
    }
    end_all(all);
  }

  [[nodiscard]] std::filesystem::path saved(JobNumber j) const { return folder / fmt::format("job-{}", j + 1); }
};

JobHistory ExecutedJobs::play(const JobPolicyRow& row, const JobSimulation& options) {
  Processes all;
  all.jobs.resize(workload_.jobs.size());
  all.folder = folder_of(row);
  std::filesystem::create_directories(all.folder);
  JobHistory out;
  ClusterState state(workload_, options.gpus_of_nodes, options.places, options.costs);
  if (options.keep_stretches) state.keep_stretches(&out.stretches);
  const std::unique_ptr<JobPolicy> policy = row.make();
  const std::vector<ClusterJob>& jobs = workload_.jobs;
  const auto steps_left = [&](JobNumber j) { return jobs[j].processes->steps - saved_steps(all.saved(j)); };
  out.begin = jobs.front().submit;
  state.advance(out.begin);
  const Clock::time_point begin = Clock::now() - std::chrono::microseconds(out.begin);
  std::size_t arrived = 0, done = 0;
  Microseconds look = out.begin;
  while (done < jobs.size()) {
    if (interrupted().load()) throw JobsBrokenOff{"the jobs' checkpoints are in " + all.folder.string()};
    std::vector<JobNumber> ended;
    for (const JobNumber j : state.running()) {
      const std::optional<int> status = all.jobs[j].child->ended();
      if (!status) continue;
      if (*status != 0)
        throw Error(fmt::format("{} ended with {}:\n{}", jobs[j].name, *status, all.jobs[j].child->errors()));
      ended.push_back(j);
    }
    const Microseconds now = since(begin);
    const bool comes = arrived < jobs.size() && jobs[arrived].submit <= now;
    if (ended.empty() && !comes && now < look) {
      std::this_thread::sleep_for(pause);
      continue;
    }
    // A policy with rounds is asked at the whole time of the round.
    state.advance(ended.empty() && !comes ? std::max(state.now(), look) : std::max(state.now(), now));
    std::sort(ended.begin(), ended.end());
    for (const JobNumber j : ended) {
      if (steps_left(j) != 0)
        throw Error(fmt::format("{} has ended {} short", jobs[j].name, counted(steps_left(j), "step")));
      state.finish(j);
      policy->ended(state, j);
      ++done;
    }
    for (; arrived < jobs.size() && jobs[arrived].submit <= state.now(); ++arrived) {
      state.submit(static_cast<JobNumber>(arrived));
      policy->submitted(state, static_cast<JobNumber>(arrived));
    }
    out.most_crowd = std::max(out.most_crowd, state.crowd());
    static_cast<void>(state.take_changes());
    policy->decide(state);
    std::vector<JobNumber> changed = state.take_changes();
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    // First all that stop are asked to, so that they save side by side.
    for (const JobNumber j : changed) {
      Processes::Running& r = all.jobs[j];
      if (r.child && state.progress(j).places != r.places) r.child->signal(SIGTERM);
    }
    for (const JobNumber j : changed) {
      Processes::Running& r = all.jobs[j];
      const JobProgress& p = state.progress(j);
      if (!r.child || p.places == r.places) continue;
      const int status = r.child->wait();
      // 1: it was asked before it had ended a step.
      if (status != 0 && status != status_no && status != 128 + SIGTERM) {
        throw Error(fmt::format("{} ended with {}:\n{}", jobs[j].name, status, r.child->errors()));
      }
      r.child.reset();
      r.places.clear();
    }
    for (const JobNumber j : changed) {
      Processes::Running& r = all.jobs[j];
      const JobProgress& p = state.progress(j);
      if (p.phase != JobPhase::running || r.child) continue;
      const std::string name = all.saved(j).string() + fmt::format("-{}", ++r.starts);
      // A job that ended while it was asked to stop has no step left; it says so at once.
      const std::vector<std::string> words = steps_left(j) > 0
                                                 ? command(plans_[j].at(p.gpus), p.gpus, steps_left(j), all.saved(j))
                                                 : std::vector<std::string>{"/bin/true"};
      r.child = std::make_unique<ChildProcess>(words, name + ".json", name + ".err");
      r.places = p.places;
    }
    look = policy->next_look(state);
  }
  out.end = state.now();
  out.gpus = state.all_gpus();
  out.jobs = state.all();
  out.busy = state.busy();
  out.crowd = state.crowd_time();
  out.hash = state.history();
  return out;
}

}  // namespace orrery
