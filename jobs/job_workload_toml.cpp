#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/toml_reader.hpp"
#include "jobs/job_workload_file.hpp"

namespace orrery {
namespace {

const std::vector<std::string_view> ends = {"completed", "failed", "cancelled"};
constexpr std::size_t most_jobs = 1'000'000;

/// The speeds of a job: numbers of GPUs, and how fast it is on each, in any unit.
std::vector<JobSpeed> read_speeds(TomlTable& table, std::uint32_t gpus) {
  std::vector<std::uint32_t> counts;
  std::vector<double> speeds;
  const bool has = table.has("speed_gpus") || table.has("speeds");
  if (!has || !table.read("speed_gpus", counts, {1, 1'000'000}, 1000) ||
      !table.read("speeds", speeds, {1e-9, 1e9}, 1000)) {
    return {};
  }
  if (counts.size() != speeds.size()) {
    table.error("speeds", "jobs.speeds", "speed_gpus and speeds have different lengths",
                {fmt::format("speed_gpus has {}, speeds has {}.", counts.size(), speeds.size())});
    return {};
  }
  const auto named = std::find(counts.begin(), counts.end(), gpus);
  if (named == counts.end() ||
      std::adjacent_find(counts.begin(), counts.end(), std::greater_equal<>()) != counts.end()) {
    table.error("speed_gpus", "jobs.speeds", "speed_gpus must ascend and have the job's gpus among them",
                {fmt::format("run is the time on {} GPUs, so the speed there is needed.", gpus)});
    return {};
  }
  std::vector<JobSpeed> out;
  const double unit = speeds[static_cast<std::size_t>(named - counts.begin())];
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double part = static_cast<double>(full_speed) * speeds[i] / unit;
    if (part < 1.0 || part > 1e8) {
      table.error("speeds", "jobs.speeds", "a speed is out of proportion",
                  {fmt::format("On {} GPUs it is {:.3g} times that on {}; from 0.0001 to 10000 is allowed.", counts[i],
                               speeds[i] / unit, gpus)});
      return {};
    }
    out.push_back({counts[i], std::llround(part)});
  }
  return out;
}

/// What a job trains, where it says that and not how long it runs.
std::optional<JobTraining> read_training(TomlTable& table) {
  if (!table.has("model")) return std::nullopt;
  JobTraining out;
  table.read("model", out.model);
  table.read("batch", out.batch, {1, 1'000'000'000});
  table.read("sequence", out.sequence, {1, 1'000'000'000});
  table.read("steps", out.steps, {1, 1'000'000'000});
  table.read("precision", out.precision, Need::optional);
  table.read("optimizer", out.optimizer, Need::optional);
  return out;
}

/// The plans of a job that is run on this machine.
std::optional<JobProcesses> read_processes(TomlTable& table) {
  if (!table.has("plans")) return std::nullopt;
  JobProcesses out;
  table.read("plans", out.plans, 100);
  table.read("steps", out.steps, {1, 1'000'000'000});
  if (out.plans.empty()) table.error("plans", "jobs.plan", "a job needs at least one plan", {});
  return out;
}

Microseconds whole(Seconds t) { return std::llround(t.base() * static_cast<double>(microseconds_per_second)); }

}  // namespace

std::optional<JobWorkload> parse_job_workload_toml(std::string text, const std::string& file, Diagnostics& d) {
  const std::size_t before = d.size();
  std::optional<TomlTable> root = parse_toml(std::move(text), file, d);
  if (!root || !read_schema(*root, "a workload of jobs", 1)) return std::nullopt;
  JobWorkload out;
  out.format = "orrery";
  const Seconds longest = Seconds::of(static_cast<double>(longest_time / microseconds_per_second));
  for (TomlTable& table : root->tables("job", most_jobs, Need::required)) {
    ClusterJob job;
    Seconds submit, run;
    table.read("name", job.name);
    table.read("submit", submit, {Seconds{}, longest});
    job.training = read_training(table);
    job.processes = job.training ? std::nullopt : read_processes(table);
    const bool runs = !job.training && !job.processes;
    if (runs) table.read("run", run, {Seconds{}, longest});
    table.read("gpus", job.gpus, {1, 1'000'000});
    table.read_enum("end", ends, job.end, Need::optional);
    if (runs) job.speeds = read_speeds(table, job.gpus);
    table.finish();
    job.submit = whole(submit);
    job.run = whole(run);
    job.at = table.origin().position(table.path("name"));
    out.jobs.push_back(std::move(job));
  }
  root->finish();
  if (d.size() > before) return std::nullopt;
  return out;
}

}  // namespace orrery
