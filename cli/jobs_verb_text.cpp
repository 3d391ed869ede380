#include "cli/jobs_verb_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

/// "3.35 min", "2.1 h", "12 d": at least three digits.
std::string time_text(double seconds) {
  if (seconds < 1000.0) return fmt::format("{:.1f} s", seconds);
  if (seconds < 100.0 * 60.0) return fmt::format("{:.1f} min", seconds / 60.0);
  return seconds < 100.0 * 3600.0 ? fmt::format("{:.2f} h", seconds / 3600.0)
                                  : fmt::format("{:.1f} d", seconds / 86400.0);
}

std::string doubts_text(const JobsAnswer& a) {
  struct Group {
    std::size_t rows = 0;
    std::vector<std::uint32_t> lines;  ///< of the first
  };
  std::map<std::pair<bool, std::string>, Group> groups;
  for (const DoubtfulRow& row : a.workload.doubts) {
    Group& g = groups[{!row.left_out, row.why}];
    ++g.rows;
    if (g.lines.size() < 3) g.lines.push_back(row.at.line);
  }
  std::string out;
  for (const auto& [key, group] : groups) {
    std::string lines;
    for (const std::uint32_t line : group.lines) lines += fmt::format("{}{}", lines.empty() ? "" : ", ", line);
    if (group.rows > group.lines.size()) lines += " ...";
    out += fmt::format("{} {}: {} (line {})\n", key.first ? "doubtful" : "left out", counted(group.rows, "row"),
                       key.second, lines);
  }
  if (!a.too_large.empty()) {
    out += fmt::format("left out {}: more GPUs than the cluster has\n", counted(a.too_large.size(), "job"));
  }
  return out;
}

/// "llama-3-8b, 256 x 2048: 8 GPUs 3.1 s, 16 1.6 s"
std::string curves_text(const JobsAnswer& a) {
  std::string out;
  for (const PlannedCurve& c : a.curves) {
    std::string points;
    for (const StepPoint& p : c.points) {
      points += fmt::format("{}{} {:.3g} s", points.empty() ? "" : ", ", counted(p.gpus, "GPU"), p.step_s);
    }
    out +=
        fmt::format("step of {}, batch {} x {}: {}\n", c.training.model, c.training.batch, c.training.sequence, points);
  }
  return out;
}

Json curves_json(const JobsAnswer& a) {
  Json out = Json::array();
  for (const PlannedCurve& c : a.curves) {
    Json points = Json::array();
    for (const StepPoint& p : c.points) points.push_back({{"gpus", p.gpus}, {"step_s", p.step_s}, {"plan", p.plan}});
    out.push_back({{"model", c.training.model},
                   {"batch", c.training.batch},
                   {"sequence", c.training.sequence},
                   {"precision", c.training.precision},
                   {"optimizer", c.training.optimizer},
                   {"gpus", c.own},
                   {"points", points}});
  }
  return out;
}

std::string cluster_text(const JobsAnswer& a) {
  const std::vector<std::uint32_t>& nodes = a.options.gpus_of_nodes;
  std::uint64_t gpus = 0;
  for (const std::uint32_t n : nodes) gpus += n;
  return fmt::format("{}{} of {} = {}", a.cluster_name.empty() ? "" : a.cluster_name + ", ",
                     counted(nodes.size(), "node"), counted(nodes.front(), "GPU"), counted(gpus, "GPU"));
}

std::string best_text(const JobsAnswer& a) {
  if (a.played.size() < 2) return {};
  const auto less = [](const PlayedPolicy& x, const PlayedPolicy& y) {
    return x.figures.mean_completion < y.figures.mean_completion;
  };
  const PlayedPolicy& best = *std::min_element(a.played.begin(), a.played.end(), less);
  const PlayedPolicy& first = a.played.front();
  if (&best == &first || first.figures.mean_completion <= 0.0) {
    return fmt::format("\n{} has the least mean time of a job.\n", best.policy->name);
  }
  return fmt::format("\n{} has the least mean time of a job, {} below {}'s.\n", best.policy->name,
                     percent(1.0 - best.figures.mean_completion / first.figures.mean_completion), first.policy->name);
}

Json figures_json(const JobFigures& f) {
  return {{"mean_completion_s", f.mean_completion},
          {"median_completion_s", f.median_completion},
          {"p99_completion_s", f.p99_completion},
          {"gpu_time_weighted_completion_s", f.weighted_completion},
          {"mean_queue_s", f.mean_queue},
          {"makespan_s", f.makespan},
          {"gpu_hours", f.gpu_time / 3600.0},
          {"lost_gpu_hours", f.lost / 3600.0},
          {"undone_gpu_hours", f.undone / 3600.0},
          {"failures", f.failures},
          {"utilization", f.utilization},
          {"mean_contention", f.mean_crowd},
          {"most_contention", f.most_crowd},
          {"stops", f.stops},
          {"mean_finish_time_fairness", f.mean_fairness},
          {"worst_finish_time_fairness", f.worst_fairness},
          {"unfair_share", f.unfair}};
}

const char* name_of(JobEnd end) {
  return end == JobEnd::completed ? "completed" : end == JobEnd::failed ? "failed" : "cancelled";
}

Json each_json(const JobWorkload& w, const JobHistory& h) {
  Json out = Json::array();
  for (std::size_t j = 0; j < w.jobs.size(); ++j) {
    const JobProgress& p = h.jobs[j];
    out.push_back({{"name", w.jobs[j].name},
                   {"gpus", w.jobs[j].gpus},
                   {"recorded_end", name_of(w.jobs[j].end)},
                   {"submit_s", seconds_of(w.jobs[j].submit)},
                   {"run_s", seconds_of(w.jobs[j].run)},
                   {"start_s", seconds_of(p.first_start)},
                   {"end_s", seconds_of(p.end)},
                   {"stops", p.stops},
                   {"failures", p.failures},
                   {"gpu_s", seconds_of(p.used)},
                   {"lost_gpu_s", seconds_of(p.lost)},
                   {"undone_gpu_s", seconds_of(p.undone)}});
  }
  return out;
}

/// Ends on this machine over those of the simulation.
struct Executed {
  double simulated_s = 0.0, executed_s = 0.0;  ///< mean time of a job from submission to end
  double worst = 1.0;                          ///< ratio of a job's times that is furthest from 1
};

Executed executed_of(const JobWorkload& w, const PlayedPolicy& p) {
  Executed out;
  for (std::size_t j = 0; j < w.jobs.size(); ++j) {
    const double simulated = seconds_of(p.history.jobs[j].end - w.jobs[j].submit);
    const double executed = seconds_of(p.executed->jobs[j].end - w.jobs[j].submit);
    out.simulated_s += simulated / static_cast<double>(w.jobs.size());
    out.executed_s += executed / static_cast<double>(w.jobs.size());
    const double ratio = simulated > 0.0 ? executed / simulated : 1.0;
    if (std::fabs(std::log(ratio)) > std::fabs(std::log(out.worst))) out.worst = ratio;
  }
  return out;
}

std::string executed_text(const JobsAnswer& a) {
  if (a.played.empty() || !a.played.front().executed) return {};
  Table table({"policy", "simulated", "here", "ratio", "worst job", "stops"});
  for (const PlayedPolicy& p : a.played) {
    const Executed e = executed_of(a.workload, p);
    std::uint64_t stops = 0;
    for (const JobProgress& j : p.executed->jobs) stops += j.stops;
    table.row({std::string(p.policy->name), time_text(e.simulated_s), time_text(e.executed_s),
               fmt::format("{:.2f}", e.simulated_s > 0.0 ? e.executed_s / e.simulated_s : 1.0),
               fmt::format("{:.2f}", e.worst), with_commas(stops)});
  }
  return fmt::format("\nRun here as processes, {} for {} of this machine: mean time of a job:\n",
                     counted(a.options.gpus_of_nodes.size() * a.options.gpus_of_nodes.front(), "rank"),
                     counted(std::thread::hardware_concurrency(), "core")) +
         table.str();
}

Json executed_json(const JobsAnswer& a, const PlayedPolicy& p) {
  const Executed e = executed_of(a.workload, p);
  Json jobs = Json::array();
  for (std::size_t j = 0; j < a.workload.jobs.size(); ++j) {
    const ClusterJob& job = a.workload.jobs[j];
    jobs.push_back({{"name", job.name},
                    {"steps", job.processes->steps},
                    {"stops", p.executed->jobs[j].stops},
                    {"time_s", seconds_of(p.executed->jobs[j].end - job.submit)},
                    {"simulated_time_s", seconds_of(p.history.jobs[j].end - job.submit)}});
  }
  return {{"mean_completion_s", e.executed_s}, {"simulated_mean_completion_s", e.simulated_s}, {"jobs", jobs}};
}

std::size_t ended(const JobWorkload& w, JobEnd end) {
  return static_cast<std::size_t>(
      std::count_if(w.jobs.begin(), w.jobs.end(), [end](const ClusterJob& j) { return j.end == end; }));
}

}  // namespace

std::string jobs_text(const JobsAnswer& a) {
  std::string out = fmt::format("{} of {} ({}) on {}\n", counted(a.workload.jobs.size(), "job"), a.workload_name,
                                a.workload.format, cluster_text(a));
  const std::size_t failed = ended(a.workload, JobEnd::failed), cancelled = ended(a.workload, JobEnd::cancelled);
  if (failed + cancelled > 0) {
    out += fmt::format("{} failed and {} were cancelled; they run to their recorded ends\n", failed, cancelled);
  }
  out += doubts_text(a) + curves_text(a) + "\n";
  Table times({"policy", "mean", "median", "p99", "queue", "makespan"});
  Table shares({"policy", "busy", "GPU-hours", "lost", "stops", "wanting", "unfair", "worst"});
  for (const PlayedPolicy& p : a.played) {
    const JobFigures& f = p.figures;
    const std::string name(p.policy->name);
    times.row({name, time_text(f.mean_completion), time_text(f.median_completion), time_text(f.p99_completion),
               time_text(f.mean_queue), time_text(f.makespan)});
    shares.row({name, percent(f.utilization), short_count(f.gpu_time / 3600.0),
                percent(f.gpu_time > 0.0 ? f.lost / f.gpu_time : 0.0), with_commas(f.stops),
                fmt::format("{:.1f}", f.mean_crowd), percent(f.unfair), fmt::format("{:.3g}", f.worst_fairness)});
  }
  out += "Time of a job from submission to end, mean wait for the first GPUs, and time\n  of all:\n" + times.str() +
         "\nUse of the GPUs, jobs stopped by the policy, jobs that want GPUs at a time, and\n  finish-time fairness "
         "(share of jobs above 1, and the worst):\n" +
         shares.str();
  if (a.options.failures.node_failures_per_s > 0.0) {
    out += "\nNodes that failed, jobs that lost their GPUs by it, and GPU-hours of work done\n  again:\n";
    Table failures({"policy", "nodes", "jobs", "GPU-hours again"});
    for (const PlayedPolicy& p : a.played) {
      failures.row({std::string(p.policy->name), with_commas(p.history.node_failures), with_commas(p.figures.failures),
                    short_count(p.figures.undone / 3600.0)});
    }
    out += failures.str();
  }
  return out + executed_text(a) + best_text(a);
}

Json jobs_json(const JobsAnswer& a, bool each) {
  Json out;
  Json doubts = Json::array();
  for (const DoubtfulRow& row : a.workload.doubts) {
    doubts.push_back({{"line", row.at.line}, {"why", row.why}, {"left_out", row.left_out}});
  }
  out["workload"] = {{"name", a.workload_name},
                     {"format", a.workload.format},
                     {"jobs", a.workload.jobs.size()},
                     {"failed", ended(a.workload, JobEnd::failed)},
                     {"cancelled", ended(a.workload, JobEnd::cancelled)},
                     {"too_large", a.too_large.size()},
                     {"doubts", doubts}};
  out["cluster"] = {{"name", a.cluster_name.empty() ? Json(nullptr) : Json(a.cluster_name)},
                    {"gpus_of_nodes", a.options.gpus_of_nodes},
                    {"places", a.options.places == PlaceRule::packed ? "packed" : "consolidated"},
                    {"restart_s", seconds_of(a.options.costs.restart)},
                    {"node_failures_per_1000_node_days", a.options.failures.node_failures_per_s * 86.4e6},
                    {"save_interval_s", seconds_of(a.options.costs.save_interval)},
                    {"scattered_speed", static_cast<double>(a.options.costs.scattered_speed) / full_speed}};
  if (!a.curves.empty()) {
    out["plans"] = a.plans == JobPlans::change ? "change" : "keep";
    out["curves"] = curves_json(a);
  }
  out["policies"] = Json::array();
  for (const PlayedPolicy& p : a.played) {
    Json row{{"policy", p.policy->name}, {"rule", p.policy->rule}, {"source", p.policy->source}};
    row.update(figures_json(p.figures));
    row["node_failures"] = p.history.node_failures;
    row["events"] = p.history.events;
    row["history"] = fmt::format("{:016x}", p.history.hash);
    if (p.executed) row["executed"] = executed_json(a, p);
    if (each) row["jobs"] = each_json(a.workload, p.history);
    out["policies"].push_back(std::move(row));
  }
  return out;
}

}  // namespace orrery
