#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/amounts.hpp"
#include "cli/common.hpp"
#include "cli/hosted_command.hpp"
#include "cli/interrupt.hpp"
#include "cli/jobs_execute.hpp"
#include "cli/jobs_failures.hpp"
#include "cli/jobs_verb_text.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"
#include "cli/wrapping.hpp"
#include "core/base/counted.hpp"
#include "core/base/nearest.hpp"
#include "core/base/units_text.hpp"
#include "jobs/job_drawings.hpp"
#include "jobs/job_workload_file.hpp"
#include "jobs/measured_speed.hpp"
#include "jobs/philly_like.hpp"

namespace orrery {
namespace {

std::vector<std::string> policy_names() {
  std::vector<std::string> names;
  for (const JobPolicyRow& row : job_policies()) names.emplace_back(row.name);
  return names;
}

/// Names between commas; "all" is every policy for rigid jobs.
std::vector<const JobPolicyRow*> policies_of(const std::string& list) {
  std::vector<const JobPolicyRow*> out;
  for (std::string_view rest = list;;) {
    const std::string name(rest.substr(0, rest.find(',')));
    if (name == "all") {
      for (const JobPolicyRow& row : job_policies()) {
        if (!row.elastic) out.push_back(&row);
      }
    } else if (const JobPolicyRow* row = find_job_policy(name)) {
      out.push_back(row);
    } else {
      const std::vector<std::string> near = nearest(name, policy_names(), 1);
      refuse("jobs.policy", fmt::format("--policy: \"{}\" is no policy", name),
             {(near.empty() ? "" : fmt::format("Near: {}. ", near.front())) +
              fmt::format("Known: {}, and all.", fmt::join(policy_names(), ", "))});
    }
    if (name.size() == rest.size()) break;
    rest.remove_prefix(name.size() + 1);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::find(out.begin() + static_cast<std::ptrdiff_t>(i) + 1, out.end(), out[i]) != out.end()) {
      refuse("jobs.policy", fmt::format("--policy names {} twice", out[i]->name));
    }
  }
  return out;
}

class JobsVerb final : public Verb {
 public:
  const char* name() const override { return "jobs"; }
  const char* summary() const override { return "play many jobs on one cluster under scheduling policies"; }

  void declare(Command& c) override {
    c.positional("WORKLOAD", workload_,
                 "a file of jobs: Orrery's TOML, Tiresias's, Philly's, Helios's, Acme's or Sia's CSV, or what sacct -P "
                 "prints; or philly-like, which makes --count jobs");
    c.option("--on", on_, "the cluster: a name, a .toml file, or as h200:8x4");
    c.option("--nodes", nodes_, "in place of --on: nodes, all alike", {1, 1'000'000});
    c.option("--gpus-per-node", per_node_, "GPUs of each node, with --nodes", {1, 1024});
    c.option("--gpus", flags_.gpus, "GPUs of the cluster, in place of its own number", {1, 1'000'000});
    c.option("--policy", policy_,
             fmt::format("{}, or all that are not elastic; several with commas between them",
                         fmt::join(policy_names(), ", ")));
    c.choice("--places", places_, {"packed", "consolidated"},
             "packed: a job takes as few nodes as are free for it; consolidated: it waits until it has as few as it "
             "needs");
    c.option("--restart", restart_, "time for which a stopped job holds its GPUs before it goes on (\"30 s\")");
    c.option("--scattered", scattered_,
             "a job on more nodes than it needs takes so many times as long (1 to 100); its speed is rounded to a "
             "ten-thousandth of that on few nodes");
    c.option("--tables", tables_, "folder of measured speeds, for workloads of Sia's form (docs/jobs.md)");
    c.option("--tables-type", tables_type_, "type of GPU in --tables, as in placements-TYPE.csv; default: aws");
    c.choice("--plans", plans_, {"change", "keep"},
             "of jobs that name a model: change: the best plan on each number of GPUs; keep: the plan of the job's own "
             "GPUs with more or fewer replicas");
    c.option(
        "--reliability", failures_.reliability,
        "let nodes fail as often as this says: a name (rsc-1, llama-3) or a .toml file; jobs go on from their last "
        "checkpoints");
    c.option("--save-every", failures_.save_every,
             "time between two checkpoints of a job, with --reliability; default: 1 h");
    c.flag("--leave-out-large", leave_out_large_, "leave out jobs that want more GPUs than there are");
    c.option("--count", count_, "jobs of philly-like", {1, 10'000'000});
    c.option("--seed", seed_, "of philly-like, and of failures", {});
    c.option(
        "--execute", execute_,
        "run the jobs, too: as processes of this machine, under each policy, with their checkpoints in this folder");
    c.group("Output");
    c.flag("--list", list_, "list the policies, their rules and sources");
    c.flag("--each", each_, "JSON has the times of every job too");
    c.option("--svg", svg_, "draw the GPUs over time into this file");
    c.option("--trace", trace_, "write the GPUs over time into this file, for ui.perfetto.dev");
    declare_output(c, flags_, "write the answer here, as JSON");
    c.examples(
        "  orrery jobs jobs.csv --on dgx-h100 --gpus 64 --policy fifo,easy,srtf\n"
        "  orrery jobs jobs.toml --nodes 4 --gpus-per-node 4 --policy all --svg gantt.svg\n"
        "  sacct -P -a -o JobID,Submit,Start,End,AllocTRES,State > jobs.txt\n"
        "  orrery jobs jobs.txt --nodes 16 --gpus-per-node 8 --policy fifo,2d-las --restart \"60 s\"\n"
        "  orrery jobs philly-like --count 82248 --nodes 80 --gpus-per-node 8 --leave-out-large --json");
  }

  int run() override {
    if (list_) return list();
    if (!workload_) refuse("jobs.workload", "a workload is missing", {"orrery jobs jobs.csv --on dgx-h100 --gpus 64"});
    require_output(flags_);
    require_svg(svg_);
    if (trace_) require_folder(*trace_);
    refuse_standard_output("--trace", trace_);
    if (execute_) {
      refuse_hosted("jobs --execute", "`orrery jobs --execute` at a shell runs them.");
      catch_end_signals(SecondSignal::ends);
    } else {
      catch_interrupt();
    }
    JobsAnswer a;
    a.options = simulation(a.cluster_name);
    const std::vector<const JobPolicyRow*> policies = policies_of(policy_);
    require_used_flags(policies);
    read(a);
    if (failures_.reliability) require_starts(a.workload, a.options, policies);
    keep_apart(*workload_, {flags_.output, svg_, trace_});
    try {
      std::optional<ExecutedJobs> executed;
      if (execute_) measure_here(a, policies, executed);
      for (const JobPolicyRow* policy : policies) play(a, *policy);
      for (PlayedPolicy& p : a.played) {
        if (executed) p.executed = executed->play(*p.policy, a.options);
      }
    } catch (const JobsBrokenOff& broken) {
      say(broken.kept.empty() ? "interrupted\n" : fmt::format("interrupted; {}\n", broken.kept));
      return interrupted_status();
    }
    draw(a);
    answer(flags_, jobs_json(a, each_), wrapped(jobs_text(a), output_columns()));
    return status_fine;
  }

 private:
  int list() const {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    std::string text;
    for (const JobPolicyRow& row : job_policies()) {
      rows.push_back({{"policy", row.name},
                      {"rule", row.rule},
                      {"preempts", row.preempts},
                      {"elastic", row.elastic},
                      {"source", row.source}});
      text += fmt::format("  {:<8}{}{}\n          {}\n", row.name, row.rule,
                          row.elastic    ? " (elastic)"
                          : row.preempts ? " (preempts)"
                                         : "",
                          row.source);
    }
    answer(flags_, {{"policies", rows}}, wrapped(text, output_columns()));
    return status_fine;
  }

  /// A flag that would change nothing is a mistake.
  void require_used_flags(const std::vector<const JobPolicyRow*>& policies) const {
    if (each_ && !flags_.json && !flags_.output) refuse("cli.flags", "--each goes with --json or --output");
    if (scattered_ && places_ == "consolidated") {
      refuse("cli.flags", "--scattered goes with --places packed", {"A consolidated job is never scattered."});
    }
    if (execute_ && (restart_ || failures_.reliability || scattered_)) {
      refuse("cli.flags", "--execute goes without --restart, --reliability and --scattered",
             {"Times are measured on this machine."});
    }
    if (tables_type_ && !tables_) refuse("cli.flags", "--tables-type goes with --tables");
    if (restart_ && tables_) {
      refuse("cli.flags", "--restart does not go with --tables",
             {"These jobs have the restarts of their applications."});
    }
    if (restart_ && !failures_.reliability &&
        std::none_of(policies.begin(), policies.end(), [](const JobPolicyRow* p) { return p->preempts; })) {
      refuse("cli.flags", "--restart goes with a policy that stops jobs",
             {fmt::format("--policy {} stops none; orrery jobs --list says which do.", policy_)});
    }
  }

  [[nodiscard]] JobSimulation simulation(std::string& cluster_name) const {
    JobSimulation out;
    if (on_.has_value() == nodes_.has_value()) {
      refuse("jobs.cluster", "a cluster is needed, by --on or by --nodes",
             {"--on dgx-h100 --gpus 64, or --nodes 8 --gpus-per-node 8."});
    }
    if (nodes_.has_value() != per_node_.has_value()) {
      refuse("jobs.cluster", "--nodes and --gpus-per-node go together");
    }
    if (on_) {
      Diagnostics d;
      const std::optional<ClusterSpec> cluster = named_cluster(library_of(flags_), *on_, flags_.gpus, d);
      require_none(d);
      out.gpus_of_nodes.assign(cluster->nodes, cluster->devices_per_node);
      cluster_name = cluster->name;
    } else {
      if (flags_.gpus) refuse("jobs.cluster", "--gpus goes with --on");
      out.gpus_of_nodes.assign(*nodes_, *per_node_);
    }
    out.places = places_ == "packed" ? PlaceRule::packed : PlaceRule::consolidated;
    if (restart_) out.costs.restart = job_time(*restart_, "--restart");
    failures_.read(library_of(flags_), seed_.value_or(1), out);
    if (scattered_) {
      out.costs.scattered_speed =
          std::llround(static_cast<double>(full_speed) / number_of(*scattered_, "--scattered", 1.0, 100.0));
    }
    out.keep_stretches = svg_ || trace_;
    return out;
  }

  void read(JobsAnswer& a) const {
    a.workload_name = *workload_;
    if (*workload_ == "philly-like") {
      a.workload = philly_like(count_.value_or(1000), seed_.value_or(1));
    } else {
      if (count_ || (seed_ && !failures_.reliability)) refuse("cli.flags", "--count and --seed go with philly-like");
      Diagnostics d;
      std::optional<JobWorkload> read = read_job_workload(*workload_, d);
      require_none(d);
      a.workload = std::move(*read);
    }
    measure(a);
    leave_out_large(a);
    const auto processes = [](const ClusterJob& j) { return j.processes.has_value(); };
    if (!execute_ && std::any_of(a.workload.jobs.begin(), a.workload.jobs.end(), processes)) {
      refuse("jobs.execute", "jobs with plans have no times before they run here",
             {"--execute FOLDER measures and runs them."});
    }
    plan(a);
    if (last_end_s(a.workload, a.options.costs) > latest_end_s) {
      refuse("jobs.too-long", "the jobs take too long together",
             {fmt::format("One by one they would take {:.3g} s; at most {:g} s can be played.",
                          last_end_s(a.workload, a.options.costs), latest_end_s)});
    }
  }

  /// Runs and speeds of Sia's jobs come from tables.
  void measure(JobsAnswer& a) const {
    if ((a.workload.format == "sia") != tables_.has_value()) {
      refuse("jobs.tables", tables_ ? "--tables goes with workloads of Sia's form" : "these jobs have no runs",
             {"Sia's jobs name an application; --tables FOLDER has a folder for each, with its speeds."});
    }
    if (!tables_) return;
    std::uint64_t gpus = 0;
    for (const std::uint32_t node : a.options.gpus_of_nodes) gpus += node;
    Diagnostics d;
    add_measured_speeds(a.workload, *tables_, tables_type_.value_or("aws"), static_cast<std::uint32_t>(gpus), d);
    require_none(d);
    if (a.workload.jobs.empty()) refuse("jobs.none", "no job was measured on its GPUs");
  }

  /// Runs and speeds of jobs that name a model come from the planner.
  void plan(JobsAnswer& a) const {
    const auto named = [](const ClusterJob& j) { return j.training.has_value(); };
    if (std::none_of(a.workload.jobs.begin(), a.workload.jobs.end(), named)) {
      if (plans_ != "change") refuse("cli.flags", "--plans goes with jobs that name a model");
      return;
    }
    if (!on_) {
      refuse("jobs.plan", "jobs that name a model need a cluster with devices",
             {"--on dgx-h100 --gpus 64 in place of --nodes."});
    }
    a.plans = plans_ == "change" ? JobPlans::change : JobPlans::keep;
    const std::vector<std::uint32_t>& nodes = a.options.gpus_of_nodes;
    a.curves = add_planned_speeds(a.workload, *on_, flags_, nodes.front(),
                                  static_cast<std::uint32_t>(nodes.size()) * nodes.front(), a.plans);
  }

  /// Jobs that can never run are a mistake, or left out where that is wanted.
  void leave_out_large(JobsAnswer& a) const {
    std::uint64_t gpus = 0;
    for (const std::uint32_t node : a.options.gpus_of_nodes) gpus += node;
    std::vector<ClusterJob>& jobs = a.workload.jobs;
    std::uint32_t most = 0;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (jobs[j].gpus <= gpus) continue;
      a.too_large.push_back(static_cast<JobNumber>(j));
      most = std::max(most, jobs[j].gpus);
    }
    if (a.too_large.empty()) return;
    if (!leave_out_large_) {
      const ClusterJob& first = jobs[a.too_large.front()];
      refuse("jobs.too-large",
             fmt::format("{} more GPUs than the {} of the cluster",
                         a.too_large.size() == 1 ? "a job wants" : counted(a.too_large.size(), "job") + " want", gpus),
             {fmt::format("The first is {} (line {}), which wants {}; the most is {}.", first.name, first.at.line,
                          first.gpus, most),
              "--leave-out-large plays the others."});
    }
    jobs.erase(std::remove_if(jobs.begin(), jobs.end(), [gpus](const ClusterJob& j) { return j.gpus > gpus; }),
               jobs.end());
    if (jobs.empty()) refuse("jobs.none", "no job fits on the cluster");
  }

  /// Speeds of jobs that run on this machine are measured on it.
  void measure_here(JobsAnswer& a, const std::vector<const JobPolicyRow*>& policies,
                    std::optional<ExecutedJobs>& executed) const {
    executed.emplace(a.workload, *workload_, *execute_, flags_);
    executed->require_new(policies);
    executed->measure();
  }

  void play(JobsAnswer& a, const JobPolicyRow& policy) {
    a.options.progress = [&](std::uint64_t done, std::uint64_t total) {
      if (interrupted()) throw JobsBrokenOff{};
      progress_.show(std::string(policy.name), done, total);
    };
    JobHistory history = simulate_jobs(a.workload, policy, a.options);
    progress_.clear();
    const JobFigures figures = job_figures(a.workload, history);
    a.played.push_back({&policy, std::move(history), figures, {}});
  }

  void draw(const JobsAnswer& a) const {
    std::vector<DrawnHistory> drawn;
    for (const PlayedPolicy& p : a.played) drawn.push_back({std::string(p.policy->name), &p.history});
    if (svg_) write_file(*svg_, job_gantt_svg(drawn, a.workload, a.options.gpus_of_nodes));
    if (!trace_) return;
    FileWriter file(*trace_);
    write_job_trace(drawn, a.workload, a.options.gpus_of_nodes, [&](std::string_view text) { file.write(text); });
    file.close();
  }

  std::optional<std::string> workload_, on_, svg_, trace_, tables_, tables_type_, restart_, scattered_, execute_;
  FailureFlags failures_;
  std::optional<std::uint32_t> nodes_, per_node_, count_, seed_;
  std::string policy_ = "fifo", places_ = "packed", plans_ = "change";
  bool leave_out_large_ = false, list_ = false, each_ = false;
  CommonFlags flags_;
  Progress progress_;
};

}  // namespace

std::unique_ptr<Verb> jobs_verb() { return std::make_unique<JobsVerb>(); }

}  // namespace orrery
