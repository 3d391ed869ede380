#include "cli/simulate_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "core/base/counted.hpp"
#include "core/base/random.hpp"
#include "core/base/source_excerpt.hpp"
#include "core/base/units_text.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/report_file.hpp"
#include "core/spec/node_kinds.hpp"
#include "sim/memory/fit.hpp"
#include "sim/net/cluster_fabric.hpp"

namespace orrery {

namespace {

/// Largest timeline that the viewers still open.
constexpr double most_bytes = 2e9;

struct LoadedJob {
  LoadedPlan loaded;
  std::vector<std::uint32_t> gpus;   ///< by the devices that its plan counts
  std::vector<std::uint32_t> nodes;  ///< that these lie on
  std::optional<CostModel> costs;
  std::string name;
};

std::vector<std::uint32_t> nodes_of(std::vector<std::uint32_t> gpus, std::uint32_t per_node) {
  for (std::uint32_t& g : gpus) g /= per_node;
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  return gpus;
}

/// The jobs, each loaded as for a cluster of its own size.
std::vector<LoadedJob> load_jobs(const JobsRequest& request, const CommonFlags& flags) {
  CommonFlags own = flags;
  own.gpus.reset();  // says how large the cluster is
  std::vector<LoadedJob> jobs;
  for (const std::string& plan : request.plans) {
    jobs.emplace_back();
    jobs.back().loaded = load_plan(plan, own, request.cluster);
    const Plan& loaded = jobs.back().loaded.run.plan;
    jobs.back().name = loaded.name.empty() ? plan : loaded.name;
    const std::uint64_t ranks = loaded.mesh.size();
    if (request.stragglers && request.stragglers->count > ranks) {
      refuse("cli.stragglers", fmt::format("--stragglers asks for {} of {} of {}", request.stragglers->count,
                                           counted(ranks, "rank"), escaped(jobs.back().name)));
    }
  }
  // Plans of one name are told apart by their places.
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const auto same = [&](const LoadedJob& other) {
      return other.loaded.run.plan.name == jobs[j].loaded.run.plan.name;
    };
    if (std::count_if(jobs.begin(), jobs.end(), same) > 1) jobs[j].name += fmt::format(" #{}", j + 1);
  }
  return jobs;
}

/// The cluster at its size: that of --gpus, or the fabric's, or its file's, or a larger one where the jobs need it.
ClusterSpec sized_cluster(const JobsRequest& request, const CommonFlags& flags, const Library& library,
                          std::uint32_t needed) {
  Diagnostics d;
  std::optional<ClusterSpec> cluster = named_cluster(library, with_nic(*request.cluster, flags), flags.gpus, d);
  require_none(d);
  const std::uint32_t per_node = cluster->devices_per_node;
  if (!flags.gpus) {
    std::uint32_t gpus =
        std::max(static_cast<std::uint32_t>(cluster->devices()), (needed + per_node - 1) / per_node * per_node);
    if (request.fabric) {
      const std::optional<Fabric> fabric = named_fabric(library, *request.fabric, d);
      require_none(d);
      gpus = fabric->gpus();
    }
    cluster = named_cluster(library, with_nic(*request.cluster, flags), gpus, d);
    require_none(d);
  }
  if (needed > cluster->devices()) {
    refuse("cli.jobs",
           fmt::format("{} has {} here, but the jobs reach up to GPU {}", escaped(cluster->name),
                       counted(cluster->devices(), "GPU"), needed - 1),
           {"--gpus N says how many it has; with --fabric it has those of the fabric."});
  }
  if (cluster->device.cores_shared > 0) {
    refuse("cli.jobs", fmt::format("the ranks of {} share cores", escaped(cluster->name)),
           {"Jobs side by side share links only; how they would share cores is not simulated."});
  }
  if (flags.lanes != "auto") cluster->device.concurrent_lanes = flags.lanes == "concurrent";
  return std::move(*cluster);
}

/// Puts the jobs onto their GPUs of the cluster, and prices them there.
void settle(std::vector<LoadedJob>& jobs, const ClusterSpec& cluster) {
  for (LoadedJob& job : jobs) {
    PlannedRun& run = job.loaded.run;
    std::vector<std::uint32_t> placement(run.plan.mesh.size());
    for (std::size_t rank = 0; rank < placement.size(); ++rank) {
      placement[rank] = job.gpus[run.plan.placement.empty() ? rank : run.plan.placement[rank]];
    }
    run.plan.placement = std::move(placement);
    run.cluster = cluster;
    job.costs.emplace(cost_model(job.loaded));
    job.nodes = nodes_of(job.gpus, cluster.devices_per_node);
  }
}

/// The bytes that links carry in a second, for a drawing.
std::vector<LinkLoad> loads_of(const JobsSimulation& s) {
  std::vector<LinkLoad> out;
  for (const SharedLoad& l : s.links) {
    out.push_back({l.link, utilization(l, s.jobs) * l.bandwidth * Seconds::of(1.0), l.bandwidth});
  }
  return out;
}

/// The busiest links come first.
void sort_by_load(JobsSimulation& s) {
  std::stable_sort(s.links.begin(), s.links.end(), [&](const SharedLoad& a, const SharedLoad& b) {
    return utilization(a, s.jobs) > utilization(b, s.jobs);
  });
}

/// One line for links of a kind that the jobs load alike.
std::string links_text(const Fabric& fabric, const JobsSimulation& s, const std::vector<LoadedJob>& jobs,
                       std::size_t count) {
  struct Line {
    const SharedLoad* first;
    std::size_t links = 1;
  };
  std::vector<Line> lines;
  for (const SharedLoad& load : s.links) {
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      bool alike = fabric.link(line.first->link).kind == fabric.link(load.link).kind;
      for (std::size_t j = 0; j < jobs.size(); ++j) {
        alike = alike && std::abs(utilization(*line.first, s.jobs, j) - utilization(load, s.jobs, j)) < 0.0005;
      }
      return alike;
    });
    if (same != lines.end()) {
      ++same->links;
    } else if (lines.size() < count) {
      lines.push_back({&load});
    }
  }
  std::vector<std::string> headers{"busiest links", "<", "of what each could"};
  for (const LoadedJob& job : jobs) headers.push_back("by " + job.name);
  Table table(headers);
  for (const Line& l : lines) {
    std::vector<std::string> cells{fabric.name(l.first->link),
                                   l.links > 1 ? fmt::format("and {} more", l.links - 1) : "",
                                   percent(utilization(*l.first, s.jobs))};
    for (std::size_t j = 0; j < jobs.size(); ++j) cells.push_back(percent(utilization(*l.first, s.jobs, j)));
    table.row(std::move(cells));
  }
  return table.str();
}

std::string text_of(const std::vector<LoadedJob>& jobs, const Fabric& fabric, const JobsSimulation& together,
                    const std::vector<JobResult>& alone) {
  const ClusterSpec& cluster = *jobs.front().loaded.run.cluster;
  std::string out = fmt::format("{} on {} ({}), over {}\n", counted(jobs.size(), "job"), escaped(cluster.name),
                                escaped(devices_text(cluster)), escaped(fabric.spec().name));
  for (const LoadedJob& job : jobs) {
    out +=
        fmt::format("  {}: {}, {}; nodes {}; calibration: {}\n", escaped(job.name), escaped(job.loaded.run.model.name),
                    counted(job.gpus.size(), "rank"), runs_text(job.nodes), escaped(job.loaded.calibration.origin));
    out += resolutions_text(job.loaded.resolved);
  }
  std::vector<std::string> headers{""};
  for (const LoadedJob& job : jobs) headers.push_back(job.name);
  Table table(headers);
  const auto row = [&](const char* title, auto&& cell) {
    std::vector<std::string> cells{title};
    for (std::size_t j = 0; j < jobs.size(); ++j) cells.push_back(cell(together.jobs[j], alone[j]));
    table.row(std::move(cells));
  };
  row("step alone", [](const JobResult&, const JobResult& a) { return short_text(a.step_time); });
  row("step together", [](const JobResult& t, const JobResult&) { return short_text(t.step_time); });
  row("  shortest", [](const JobResult& t, const JobResult&) { return short_text(t.shortest); });
  row("  longest", [](const JobResult& t, const JobResult&) { return short_text(t.longest); });
  row("slowdown", [](const JobResult& t, const JobResult& a) {
    return a.step_time.base() > 0.0 ? fmt::format("{:.3f}", t.step_time / a.step_time) : std::string("-");
  });
  row("exposed communication alone",
      [](const JobResult&, const JobResult& a) { return short_text(a.exposed_communication); });
  row("exposed communication together",
      [](const JobResult& t, const JobResult&) { return short_text(t.exposed_communication); });
  row("bubble alone", [](const JobResult&, const JobResult& a) { return short_text(a.bubble); });
  row("bubble together", [](const JobResult& t, const JobResult&) { return short_text(t.bubble); });
  row("peak memory", [](const JobResult& t, const JobResult&) {
    return short_text(Bytes::of(static_cast<double>(t.last.peak_memory_bytes)));
  });
  row("steps ended", [](const JobResult& t, const JobResult&) { return std::to_string(t.steps); });
  out += "\n" + table.str() + "\n" + links_text(fabric, together, jobs, 8);
  out += fmt::format("\n  {} simulated; the first step of a job does not count; {} events, history {:016x}\n",
                     short_text(together.time), together.events, together.history_hash);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (together.jobs[j].last.fits) continue;
    out += fmt::format("  {} does not fit in memory: it needs {}\n", escaped(jobs[j].name),
                       text_of(memory_verdict(together.jobs[j].last)));
  }
  return out;
}

nlohmann::ordered_json times_json(const JobResult& r) {
  return {{"step_time_s", r.step_time.base()},
          {"shortest_step_s", r.shortest.base()},
          {"longest_step_s", r.longest.base()},
          {"compute_s", r.compute.base()},
          {"exposed_communication_s", r.exposed_communication.base()},
          {"bubble_s", r.bubble.base()},
          {"steps", r.steps}};
}

nlohmann::ordered_json json_of(const std::vector<LoadedJob>& jobs, const Fabric& fabric, const JobsSimulation& together,
                               const std::vector<JobResult>& alone) {
  nlohmann::ordered_json json;
  const ClusterSpec& cluster = *jobs.front().loaded.run.cluster;
  json["cluster"] = cluster.name;
  json["gpus"] = cluster.devices();
  json["fabric"] = fabric.spec().name;
  json["simulated_s"] = together.time.base();
  json["events"] = together.events;
  json["history_hash"] = fmt::format("{:016x}", together.history_hash);
  if (together.link_classes) {
    json["link_classes"] = *together.link_classes;
    json["flow_classes"] = *together.flow_classes;
  }
  json["jobs"] = nlohmann::ordered_json::array();
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const JobResult& t = together.jobs[j];
    nlohmann::ordered_json job{{"name", jobs[j].name},         {"model", jobs[j].loaded.run.model.name},
                               {"ranks", jobs[j].gpus.size()}, {"gpus", jobs[j].gpus},
                               {"nodes", jobs[j].nodes},       {"rank_classes", t.rank_classes}};
    job["alone"] = times_json(alone[j]);
    job["together"] = times_json(t);
    job["slowdown"] = alone[j].step_time.base() > 0.0 ? nlohmann::ordered_json(t.step_time / alone[j].step_time)
                                                      : nlohmann::ordered_json(nullptr);
    job["last_step"] = to_json(t.last);
    json["jobs"].push_back(std::move(job));
  }
  json["links_used"] = together.links.size();
  json["links"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < std::min<std::size_t>(100, together.links.size()); ++i) {
    const SharedLoad& l = together.links[i];
    nlohmann::ordered_json sent = nlohmann::ordered_json::array(), share = nlohmann::ordered_json::array();
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      sent.push_back(l.by_job[j].base());
      share.push_back(utilization(l, together.jobs, j));
    }
    json["links"].push_back({{"link", index(l.link)},
                             {"name", fabric.name(l.link)},
                             {"utilization", utilization(l, together.jobs)},
                             {"utilization_by_job", std::move(share)},
                             {"sent_bytes_per_step_by_job", std::move(sent)}});
  }
  return json;
}

void write_timeline(const std::string& file, const std::vector<LoadedJob>& jobs, const JobsSimulation& together) {
  double size = 0.0;
  std::vector<JobTimeline> timelines;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    JobTimeline timeline{jobs[j].name, &jobs[j].loaded.program, {}};
    for (const JobStep& s : together.jobs[j].timeline) timeline.steps.push_back({s.begin, &s.trace});
    size += chrome_trace_size(jobs[j].loaded.program, false) * static_cast<double>(timeline.steps.size());
    timelines.push_back(std::move(timeline));
  }
  if (size > most_bytes) {
    refuse("cli.trace-size", fmt::format("the timeline of the jobs would take about {}", short_text(Bytes::of(size))),
           {"Jobs whose steps take about as long as each other have a short one."});
  }
  FileWriter out(file);
  ChromeTraceSink sink;
  sink.write = [&](std::string_view text) { out.write(text); };
  write_job_timelines(timelines, sink);
  out.close();
}

}  // namespace

int run_simulate_jobs(const JobsRequest& request, const CommonFlags& flags) {
  const Library library = library_of(flags);
  for (const std::string& plan : request.plans) {
    keep_apart(plan_path(plan, library), {flags.output, request.trace, request.draw});
  }
  std::vector<LoadedJob> jobs = load_jobs(request, flags);
  std::vector<std::uint32_t> ranks;
  for (const LoadedJob& job : jobs) ranks.push_back(static_cast<std::uint32_t>(job.loaded.run.plan.mesh.size()));
  Diagnostics d;
  const std::optional<ClusterSpec> whole = named_cluster(library, with_nic(*request.cluster, flags), std::nullopt, d);
  require_none(d);
  std::vector<std::vector<std::uint32_t>> gpus = place_jobs(ranks, whole->devices_per_node, request.placement);
  std::uint32_t needed = 0;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    jobs[j].gpus = std::move(gpus[j]);
    needed = std::max(needed, *std::max_element(jobs[j].gpus.begin(), jobs[j].gpus.end()) + 1);
  }
  const ClusterSpec cluster = sized_cluster(request, flags, library, needed);
  settle(jobs, cluster);
  const Fabric fabric = with_faults(
      request.fabric ? fabric_for_cluster(library, *request.fabric, cluster) : Fabric(cluster_fabric(cluster)),
      request.faults);
  if (request.draw) require_drawing(*request.draw, fabric);
  refuse_standard_output("--trace", request.trace);
  if (request.trace) require_folder(*request.trace);
  require_output(flags);

  const std::map<std::uint32_t, double> slow = slow_gpus_of(request.slow_gpus);
  std::vector<std::vector<SlowRank>> slow_ranks;
  for (const LoadedJob& job : jobs) {
    slow_ranks.push_back(slow_ranks_on(slow, job.gpus.size(), job.loaded.run.plan.placement));
  }
  require_ranks_on(slow, slow_ranks);
  std::vector<FabricJob> played;
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const LoadedPlan& loaded = jobs[j].loaded;
    std::optional<Stragglers> stragglers = request.stragglers;
    std::optional<Noise> noise = request.noise;
    if (stragglers && j > 0) stragglers->seed = mix(stragglers->seed ^ mix(j));
    if (noise && j > 0) noise->seed = mix(noise->seed ^ mix(j));
    played.push_back(
        {&loaded.run, &loaded.program, &*jobs[j].costs, loaded.run.plan.placement, stragglers, slow_ranks[j], noise});
  }
  JobsOptions options;
  options.fabric = {&fabric, request.rule, request.seed};
  options.expand = request.expand;
  Progress progress;
  options.progress.report = [&](std::uint64_t done, std::uint64_t total) { progress.show("simulate", done, total); };
  options.progress.cancelled = &interrupted();
  catch_interrupt();
  std::vector<JobResult> alone;
  JobsSimulation together;
  try {
    // When alone and without noise, every step is like the first.
    options.steps = request.noise ? request.steps : 1;
    for (const FabricJob& job : played) alone.push_back(std::move(simulate_jobs({job}, options).jobs.front()));
    options.steps = request.steps;
    options.timeline = request.trace.has_value();
    together = simulate_jobs(played, options);
  } catch (const SimulationCancelled& stopped) {
    progress.clear();
    if (flags.json) {
      print_json({{"complete", false}, {"simulated_s", static_cast<double>(stopped.clock) * 1e-12}});
    } else {
      print(fmt::format("Interrupted after {} of {} of the jobs.\n", stopped.done, counted(stopped.total, "step")));
    }
    return status_no;
  }
  progress.clear();
  sort_by_load(together);
  if (request.trace) write_timeline(*request.trace, jobs, together);
  if (request.draw) write_drawing(*request.draw, fabric, loads_of(together), Seconds::of(1.0));
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const LoadedPlan& loaded = jobs[j].loaded;
    judge_memory(together.jobs[j].last, loaded.run, loaded.program, loaded.calibration.calibration);
    tell_prices(together.jobs[j].last, loaded.calibration);
  }
  const nlohmann::ordered_json json = json_of(jobs, fabric, together, alone);
  write_output(flags, json_text(json));
  if (prints_output(flags)) {
    // It has been printed.
  } else if (flags.json) {
    print_json(json);
  } else {
    std::string out = text_of(jobs, fabric, together, alone);
    if (request.trace) out += fmt::format("  timeline in {}\n", *request.trace);
    print(out);
  }
  const bool fits =
      std::all_of(together.jobs.begin(), together.jobs.end(), [](const JobResult& r) { return r.last.fits; });
  return fits ? status_fine : status_no;
}

}  // namespace orrery
