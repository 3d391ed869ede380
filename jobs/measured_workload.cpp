#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "jobs/measured_speed.hpp"

namespace orrery {
namespace {

/// What Sia's simulator says of an application beside its tables: seconds for which a job waits at each start
/// (siasosp23/artifacts aaf7a0d, sia-simulator/applications.py), and how much longer real runs took than the tables say
/// (SLOWDOWNS of simulator_config.py, which its authors fitted to runs on real GPUs).
struct ApplicationCosts {
  std::string_view application;
  std::int64_t restart_s = 30;
  double slowdown = 1.0;
};
constexpr std::array known_costs = {ApplicationCosts{"cifar10", 50, 1.8},   ApplicationCosts{"deepspeech2", 25, 1.2},
                                    ApplicationCosts{"bert", 120, 1.2},     ApplicationCosts{"yolov3", 80, 1.2},
                                    ApplicationCosts{"imagenet", 250, 1.2}, ApplicationCosts{"ncf", 15, 1.5}};

ApplicationCosts costs_of(const std::string& application) {
  for (const ApplicationCosts& c : known_costs) {
    if (c.application == application) return c;
  }
  return {};
}

struct Measured {
  std::vector<JobSpeed> speeds;
  double run_s = 0.0;
};

}  // namespace

void add_measured_speeds(JobWorkload& w, const std::filesystem::path& tables, const std::string& type,
                         std::uint32_t most, Diagnostics& d) {
  std::map<std::string, std::optional<MeasuredJob>> applications;
  std::map<std::pair<std::string, std::uint32_t>, Measured> measured;
  std::vector<ClusterJob> jobs;
  for (ClusterJob& job : w.jobs) {
    const auto [app, fresh] = applications.try_emplace(job.application);
    // A name from the file must not lead out of the folder.
    const bool plain = !job.application.empty() && job.application.find_first_of("/\\.") == std::string::npos;
    if (fresh && plain) app->second = read_measured_job(tables / job.application, type, d);
    const ApplicationCosts costs = costs_of(job.application);
    if (app->second) {
      constexpr auto longest_s = static_cast<double>(longest_time / microseconds_per_second);
      const auto [at, first] = measured.try_emplace({job.application, job.gpus});
      if (first) at->second.speeds = measured_speeds(*app->second, job.gpus, most, at->second.run_s);
      if (!(at->second.run_s * costs.slowdown <= longest_s)) at->second = {};
      job.speeds = at->second.speeds;
      job.run = std::llround(at->second.run_s * costs.slowdown * static_cast<double>(microseconds_per_second));
    }
    if (job.speeds.empty()) {
      w.doubts.push_back({job.at, "was not measured on its GPUs"});
      continue;
    }
    job.startup = costs.restart_s * microseconds_per_second;
    job.restart = job.startup;
    jobs.push_back(std::move(job));
  }
  w.jobs = std::move(jobs);
}

}  // namespace orrery
