#include "cli/jobs_verb_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

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
                   {"gpu_s", seconds_of(p.used)},
                   {"lost_gpu_s", seconds_of(p.lost)}});
  }
  return out;
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
  out += doubts_text(a) + "\n";
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
  return out + best_text(a);
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
                    {"scattered_speed", static_cast<double>(a.options.costs.scattered_speed) / full_speed}};
  out["policies"] = Json::array();
  for (const PlayedPolicy& p : a.played) {
    Json row{{"policy", p.policy->name}, {"rule", p.policy->rule}, {"source", p.policy->source}};
    row.update(figures_json(p.figures));
    row["events"] = p.history.events;
    row["history"] = fmt::format("{:016x}", p.history.hash);
    if (each) row["jobs"] = each_json(a.workload, p.history);
    out["policies"].push_back(std::move(row));
  }
  return out;
}

}  // namespace orrery
