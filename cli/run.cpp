#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/common.hpp"
#include "cli/gpu_ranks.hpp"
#include "cli/job.hpp"
#include "cli/lifecycle_file.hpp"
#include "cli/progress.hpp"
#include "cli/report_text.hpp"
#include "cli/run_checkpoints.hpp"
#include "cli/status.hpp"
#include "cli/verbs.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/program/program_text.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/live_memory.hpp"
#include "core/record/report_file.hpp"
#include "exec/device/cuda_load.hpp"
#include "exec/device/execute_device.hpp"
#include "exec/run/execute_rank.hpp"
#include "exec/run/launch.hpp"
#include "exec/run/mpi_run.hpp"
#include "exec/run/post_mortem.hpp"
#include "exec/run/rank_runner.hpp"
#include "exec/run/run_report.hpp"
#include "exec/train/data.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t most_steps = 1'000'000'000;
constexpr std::uint32_t most_processes = 128;
constexpr std::uint32_t most_gpus = 1024;

/// Live bytes of all ranks at their peaks.
double needed_bytes(const Program& program) {
  LiveMemory memory;
  memory.read(program);
  const double ranks_per_class = static_cast<double>(program.mesh.size()) / static_cast<double>(program.classes.size());
  double sum = 0.0;
  for (std::uint32_t c = 0; c < program.classes.size(); ++c) {
    sum += ranks_per_class * static_cast<double>(memory.peak(program, c).peak);
  }
  return sum;
}

class RunVerb final : public Verb {
 public:
  const char* name() const override { return "run"; }
  const char* summary() const override { return "train a plan for real, its ranks being threads or processes"; }

  void declare(Command& c) override {
    c.positional("PLAN", plan_, "a plan file, or the name of an example plan");
    c.choice("--backend", backend_, {"threads", "processes", "mpi", "cuda"},
             "what a rank is: a thread, a process of this machine that is started here, one that mpirun or srun has "
             "started, or a GPU");
    c.flag("--share-gpu", share_gpu_, "--backend cuda: all ranks of the plan take turns on one GPU");
    c.option("--gpu", gpu_, "--backend cuda: number of the GPU, from 0", {0, most_gpus});
    c.choice(
        "--graphs", graphs_, {"off", "on"},
        "--backend cuda: whether a step is given to the GPU as one CUDA graph, from the second on, where it can be");
    c.option("--ranks", ranks_,
             "start so many processes, as --backend processes does, or one for each GPU; the plan's number of ranks",
             {1, most_processes});
    c.option("--rank", rank_, "--backend cuda: which rank this process is, where no launcher says so", {0, most_gpus});
    c.option("--world-size", world_size_, "with --rank: of how many", {1, most_gpus});
    c.option("--local-rank", local_rank_, "which of the job's processes on this host this is", {0, most_gpus});
    c.option("--rendezvous", rendezvous_, "HOST:PORT of rank 0, or a file: where the processes of a job meet");
    c.option("--nccl", nccl_, "--backend cuda: the NCCL library, libnccl.so.2 if not said");
    c.option("--steps", steps_, "optimizer steps to record", {1, most_steps});
    c.option("--warmup", warmup_, "steps before those", {0, most_steps});
    c.option("--trace", trace_, "write the median step's timeline here; opens in Perfetto (ui.perfetto.dev)");
    c.option("--log", log_, "write what happens here: a line of JSON for every operation, microbatch, step and so on");
    c.option("--disk", disk_, "folder for the files of the disk tier, removed after the run");
    c.option("--watchdog", watchdog_, "longest wait for another rank, in seconds");
    c.option("--heartbeat", heartbeat_, "longest time in which a rank's process gives no sign of life, in seconds");
    c.option("--records", records_, "folder for the ranks' last operations, kept where a process fails");
    declare_checkpoints(c, checkpoints_);
    declare_machine(c, flags_);
    declare_output(c, flags_, "write the report here, as JSON");
    c.examples(
        "  orrery run demo-2x2x2 --steps 10\n"
        "  orrery run plan.toml --steps 100 --checkpoint saved --every 20\n"
        "  orrery run other.toml --steps 100 --checkpoint saved --resume\n"
        "  orrery run plan.toml --steps 5 --trace measured.json -o measured-report.json\n"
        "  orrery run demo-2x2x2 --ranks 8 --heartbeat 2\n"
        "  mpirun -n 8 orrery run demo-2x2x2 --backend mpi\n"
        "  orrery run demo-2x2x2 --backend cuda --share-gpu\n"
        "  orrery run demo-2x2x2 --backend cuda --ranks 8\n"
        "  torchrun --no-python --nproc-per-node 8 orrery run demo-2x2x2 --backend cuda\n"
        "  orrery simulate plan.toml --trace predicted.json && orrery compare predicted.json measured.json");
  }

  int run() override;

 private:
  /// All that is needed to begin.
  struct Prepared {
    LoadedPlan loaded;
    std::unique_ptr<DataSource> data;
    RunOptions options;
    std::unique_ptr<LifecycleFile> log;
    std::vector<std::string> notes;  ///< for the report: what it ran on
  };
  /// Throws what is wrong with arguments and files.
  [[nodiscard]] Prepared prepare() const;
  void refuse_too_large(const Program&) const;
  /// The run on the machine that it was measured on.
  [[nodiscard]] PlannedRun as_measured(const PlannedRun& planned) const;

  int run_on_threads();
  int run_as_processes();
  int run_over_mpi();
  int run_on_gpu();
  [[nodiscard]] Issue issue() const { return graphs_ == "on" ? Issue::graphs : Issue::ops; }
  /// Refuses flags that do not go with the backend.
  void check_backend() const;
  /// A process for every rank, each with a GPU, started here.
  int run_on_gpus();
  /// This process is one of a job's that others have started.
  int run_in_job(const JobPlace&);
  /// Trains this process's rank: the exit status.
  int train_on_gpu(ProcessWorld&, int gpu, const NcclCalls&, Prepared&, RunCheckpoints&, Recorder*);
  /// Shows how far the run is while `train` goes on; on rank 0.
  template <class Train>
  RunResult watched(Prepared&, RunCheckpoints&, Train train) const;
  /// Writes and prints what came of it: the exit status.
  int show(const Prepared&, const RunResult&, const RunCheckpoints&) const;

  CommonFlags flags_;
  CheckpointFlags checkpoints_;
  std::string plan_, backend_ = "threads", graphs_ = "off";
  std::optional<std::string> trace_, log_, disk_, records_, rendezvous_, nccl_;
  std::optional<std::uint32_t> ranks_, rank_, world_size_, local_rank_;
  std::optional<std::uint32_t> gpu_;
  bool share_gpu_ = false;
  std::uint64_t steps_ = 5, warmup_ = 1;
  double watchdog_ = 60.0, heartbeat_ = 5.0;
};

void RunVerb::refuse_too_large(const Program& program) const {
  constexpr std::uint64_t most_ranks = 512;
  if (program.mesh.size() > most_ranks) {
    throw Error(fmt::format("the plan has {} ranks; at most {} threads are started", program.mesh.size(), most_ranks));
  }
  const double installed = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  const double needed = needed_bytes(program);
  if (needed > installed) {
    throw Error(fmt::format("the ranks need {} together; this machine has {}", short_text(Bytes::of(needed)),
                            short_text(Bytes::of(installed))));
  }
}

PlannedRun RunVerb::as_measured(const PlannedRun& planned) const {
  PlannedRun run = planned;
  if (run.cluster->device.cores_shared > 0 || backend_ == "cuda") return run;
  // Threads of this machine are no GPUs: their utilization, memory and cost are not those of the plan's cluster.
  Diagnostics d;
  run.cluster = library_of(flags_).cluster("local-cpu", ".", std::nullopt, d);
  require_none(d);
  adapt_to_this_machine(*run.cluster);
  // One machine, however many threads.
  run.cluster->devices_per_node = static_cast<std::uint32_t>(run.plan.mesh.size());
  for (NetworkLevel& level : run.cluster->levels) level.size = run.cluster->devices_per_node;
  return run;
}

RunVerb::Prepared RunVerb::prepare() const {
  if (steps_ < 1 || steps_ > 1'000'000'000) refuse("cli.steps", "--steps is from 1 to 1000000000");
  if (warmup_ > 1'000'000'000) refuse("cli.warmup", "--warmup is from 0 to 1000000000");
  keep_apart(plan_path(plan_, library_of(flags_)), {flags_.output, trace_, log_});
  Prepared p{load_plan(plan_, flags_, "local-cpu", ClusterUse::fall_back), nullptr, {}, nullptr, {}};
  if (const std::string& scaling = p.loaded.run.model.rope_scaling; !scaling.empty()) {
    refuse("cli.rope-scaling",
           fmt::format("{} scales its rotary angles ({}), which no kernel here does", p.loaded.run.model.name, scaling),
           {"estimate and simulate hold, since it costs nothing. To train with plain angles, leave rope_scaling out."});
  }
  if (backend_ != "cuda") refuse_too_large(p.loaded.program);
  if (records_ && !std::filesystem::is_directory(*records_)) {
    refuse("cli.records", fmt::format("--records names no folder: {}", *records_));
  }
  require_output(flags_);
  refuse_standard_output("--trace", trace_);
  refuse_standard_output("--log", log_);
  if (trace_) require_folder(*trace_);
  if (log_) require_folder(*log_);
  p.data = data_of(p.loaded.run.model, p.loaded.run.workload);
  p.options.steps = steps_;
  p.options.warmup_steps = warmup_;
  p.options.concurrent_lanes = p.loaded.run.cluster->device.concurrent_lanes;
  p.options.watchdog = Seconds::of(watchdog_);
  p.options.disk_folder = disk_ ? std::filesystem::path(*disk_) : std::filesystem::temp_directory_path();
  p.options.cancel = &interrupted();
  return p;
}

template <class Train>
RunResult RunVerb::watched(Prepared& p, RunCheckpoints& checkpoints, Train train) const {
  if (log_ && p.log == nullptr) p.log = std::make_unique<LifecycleFile>(*log_);
  if (p.log) p.options.hooks = &p.log->hooks();
  // A step may take long: the bar goes on between two.
  Ticker ticker("run");
  p.options.on_event = [&](const RunEvent& event) {
    ticker.show("run", event.step, warmup_ + steps_, event.loss ? fmt::format("loss {:.4f}", *event.loss) : "");
  };
  checkpoints.attach(p.options);
  return train();
}

void RunVerb::check_backend() const {
  if (!(watchdog_ > 0.0 && watchdog_ <= 1e6)) refuse("cli.watchdog", "--watchdog is above 0 and at most 1000000");
  if (!(heartbeat_ >= 0.1 && heartbeat_ <= 1e6)) refuse("cli.heartbeat", "--heartbeat is from 0.1 to 1000000");
  if (ranks_ && backend_ == "mpi") {
    refuse("cli.ranks", "--ranks starts processes; those of --backend mpi are started by mpirun or srun");
  }
  const bool cuda = backend_ == "cuda";
  if (!cuda && (share_gpu_ || gpu_ || graphs_ == "on")) {
    refuse("cli.gpu", fmt::format("{} is for --backend cuda", share_gpu_ ? "--share-gpu"
                                                              : gpu_     ? "--gpu"
                                                                         : "--graphs"));
  }
  const bool place = rank_ || world_size_ || local_rank_ || rendezvous_;
  if (!cuda && (place || nccl_)) {
    const char* flag = rank_         ? "--rank"
                       : world_size_ ? "--world-size"
                       : local_rank_ ? "--local-rank"
                       : rendezvous_ ? "--rendezvous"
                                     : "--nccl";
    refuse("cli.job", fmt::format("{} is for --backend cuda", flag));
  }
  if (ranks_ && place) {
    refuse("cli.job",
           "--ranks starts all processes here, and --rank, --world-size, --local-rank and --rendezvous say "
           "which of those that others start this one is");
  }
}

int RunVerb::run() {
  if (ranks_ && backend_ == "threads") backend_ = "processes";
  check_backend();
  if (backend_ == "mpi") return run_over_mpi();
  if (backend_ == "processes") return run_as_processes();
  if (backend_ == "threads") return run_on_threads();
  Diagnostics d;
  const auto job = find_job({rank_, world_size_, local_rank_, rendezvous_}, process_environment(), d);
  require_none(d);
  if (!job || job->ranks == 1) return ranks_ ? run_on_gpus() : run_on_gpu();
  if (!ranks_) return run_in_job(*job);
  refuse("cli.job",
         fmt::format("--ranks starts processes, and this is one of a job's already: {} say rank {} of {}", job->source,
                     job->rank, job->ranks),
         {"Without --ranks it is that rank."});
}

int RunVerb::run_on_threads() {
  Prepared p = prepare();
  RunCheckpoints checkpoints(checkpoints_, p.loaded.run, p.loaded.program);
  catch_interrupt();
  const PlannedRun& run = p.loaded.run;
  const RunResult result = watched(
      p, checkpoints, [&] { return execute(p.loaded.program, run.model, run.workload, run.plan, *p.data, p.options); });
  return show(p, result, checkpoints);
}

int RunVerb::run_on_gpu() {
  Prepared p = prepare();
  const Program& program = p.loaded.program;
  if (program.mesh.size() > 1 && !share_gpu_) {
    refuse(
        "cli.share-gpu", fmt::format("the plan has {} ranks, and this is one process", program.mesh.size()),
        {fmt::format("With --ranks {} each is a process with a GPU; torchrun, mpirun and srun start them, too.",
                     program.mesh.size()),
         "With --share-gpu all of them take turns on one GPU: the same numbers, but not the times of as many GPUs."});
  }
  const std::unique_ptr<Device> gpu = open_cuda_device(cuda_module(), static_cast<int>(gpu_.value_or(0)));
  const double needed = needed_bytes(program);
  const DeviceInfo& info = gpu->info();
  if (needed > static_cast<double>(info.free_bytes)) {
    throw Error(fmt::format("the ranks need {} together; {} has {} free", short_text(Bytes::of(needed)), info.name,
                            short_text(Bytes::of(static_cast<double>(info.free_bytes)))));
  }
  RunCheckpoints checkpoints(checkpoints_, p.loaded.run, program);
  catch_interrupt();
  const RunResult result = watched(p, checkpoints, [&] {
    DeviceRun run = execute_on_device(*gpu, "run cuda", program, p.loaded.run.workload, *p.data, p.options, issue());
    p.notes = std::move(run.notes);
    return std::move(run.result);
  });
  return show(p, result, checkpoints);
}

int RunVerb::train_on_gpu(ProcessWorld& world, int number, const NcclCalls& nccl, Prepared& p,
                          RunCheckpoints& checkpoints, Recorder* recorder) {
  const Program& program = p.loaded.program;
  load_kernels_early();
  if (share_gpu_) share_gpu_over_nccl(index(world.rank()), nccl.version);
  const std::unique_ptr<Device> gpu = open_cuda_device(cuda_module(), number);
  LiveMemory memory;
  memory.read(program);
  const std::uint64_t needed = memory.peak(program, class_of(program, world.rank())).peak;
  if (const DeviceInfo& info = gpu->info(); needed > info.free_bytes) {
    throw Error(fmt::format("rank {} needs {}; GPU {}, {}, has {} free", index(world.rank()),
                            short_text(Bytes::of(static_cast<double>(needed))), number, info.name,
                            short_text(Bytes::of(static_cast<double>(info.free_bytes)))));
  }
  const auto train = [&] {
    return execute_device_rank(world, *gpu, nccl, "run cuda", program, p.loaded.run.workload, *p.data, p.options,
                               recorder, issue());
  };
  if (world.rank() != Rank{0}) {
    checkpoints.attach(p.options);
    static_cast<void>(train());
    return status_fine;
  }
  const RunResult result = watched(p, checkpoints, [&] {
    DeviceRun run = *train();
    p.notes = std::move(run.notes);
    if (share_gpu_) {
      p.notes.push_back(
          "the ranks share one GPU and meet over the loopback interface or inside it: times are not "
          "those of as many GPUs");
    }
    return std::move(run.result);
  });
  return show(p, result, checkpoints);
}

int RunVerb::run_on_gpus() {
  Prepared p = prepare();
  const Program& program = p.loaded.program;
  if (*ranks_ != program.mesh.size()) {
    refuse("cli.ranks", fmt::format("--ranks is {}, and the plan has {} ranks", *ranks_, program.mesh.size()));
  }
  const NcclCalls nccl = load_nccl(nccl_.value_or(nccl_library_name));
  const std::size_t gpus = cuda_devices_apart(cuda_module()).size();
  if (const std::uint32_t last = gpu_.value_or(0) + (share_gpu_ ? 0 : *ranks_ - 1); last >= gpus) {
    if (share_gpu_)
      throw Error(fmt::format("{} GPU{} here, and none is GPU {}", gpus, gpus == 1 ? " is" : "s are", last));
    throw Error(fmt::format("{} GPU{} here, and {} ranks with one each need GPUs {} to {}; --share-gpu puts all on one",
                            gpus, gpus == 1 ? " is" : "s are", *ranks_, gpu_.value_or(0), last));
  }
  catch_interrupt();
  if (log_) p.log = std::make_unique<LifecycleFile>(*log_);
  const RecordsFolder records(records_);
  RunCheckpoints checkpoints(checkpoints_, p.loaded.run, program);
  LaunchOptions how;
  how.ranks = *ranks_;
  how.watchdog = p.options.watchdog;
  how.heartbeat = Seconds::of(heartbeat_);
  how.records = records.path();
  const LaunchOutcome outcome = launch(how, [&](ProcessWorld& world, Recorder& recorder) {
    const std::uint32_t first = gpu_.value_or(0);
    const int gpu = static_cast<int>(share_gpu_ ? first : first + index(world.rank()));
    return train_on_gpu(world, gpu, nccl, p, checkpoints, &recorder);
  });
  if (!outcome.failure) return outcome.status;
  const std::string what = post_mortem_text(program, *outcome.failure, outcome.recordings);
  if (p.log) p.log->hooks().failure({what});
  throw Error(records.kept(what));
}

int RunVerb::run_in_job(const JobPlace& job) {
  Met met;
  const std::unique_ptr<SocketWorld> world = join_job(job, Seconds::of(watchdog_), Seconds::of(watchdog_), met);
  std::optional<Prepared> p;
  std::optional<RunCheckpoints> checkpoints;
  std::optional<NcclCalls> nccl;
  int gpu = 0;
  const OwnState own = own_state([&](JobState& state) {
    p = prepare();
    if (p->loaded.program.mesh.size() != job.ranks) refuse_world_size(p->loaded.program.mesh.size(), job.ranks, true);
    nccl = load_nccl(nccl_.value_or(nccl_library_name));
    const std::vector<std::string> gpus = cuda_devices_apart(cuda_module());
    const std::uint32_t local = job.local_rank.value_or(met.local_rank(job.rank));
    if (share_gpu_ && std::any_of(met.hosts.begin(), met.hosts.end(), [&](auto h) { return h != met.hosts[0]; })) {
      refuse("cli.gpu", "--share-gpu puts all ranks on one GPU, and the ranks are on several hosts");
    }
    gpu = share_gpu_ ? static_cast<int>(gpu_.value_or(0))
                     : gpu_of(local, gpu_.value_or(0), static_cast<int>(gpus.size()));
    if (!share_gpu_) state.gpu = digest_of({gpus.at(static_cast<std::size_t>(gpu))});
    checkpoints.emplace(checkpoints_, p->loaded.run, p->loaded.program);
    state.digest = digest_of({orrery_version(), write_plan(p->loaded.run), write_program(p->loaded.program),
                              fmt::format("{} {} {}", warmup_, steps_, checkpoints->first_step())});
  });
  if (const auto status = disagreement(own, Rank{job.rank}, told_to_all(*world, own.state))) return *status;
  catch_interrupt();
  if (log_ && job.rank == 0) p->log = std::make_unique<LifecycleFile>(*log_);  // here, so that a failure is told
  const auto tell = [&](const std::string& what) {
    if (p->log) p->log->hooks().failure({what});
  };
  try {
    return train_on_gpu(*world, gpu, *nccl, *p, *checkpoints, nullptr);
  } catch (const Aborted&) {
    const std::string what = "the run has ended, and another rank says why";
    tell(what);
    throw Error(what);
  } catch (const std::exception& e) {
    tell(e.what());
    throw;
  }
}

int RunVerb::run_as_processes() {
  Prepared p = prepare();
  const Program& program = p.loaded.program;
  if (ranks_ && *ranks_ != program.mesh.size()) {
    refuse("cli.ranks", fmt::format("--ranks is {}, and the plan has {} ranks", *ranks_, program.mesh.size()));
  }
  if (program.mesh.size() > most_processes) {
    refuse("cli.ranks",
           fmt::format("the plan has {} ranks; at most {} processes are started", program.mesh.size(), most_processes));
  }
  catch_interrupt();
  if (log_) p.log = std::make_unique<LifecycleFile>(*log_);  // here, so that a failure of rank 0's process can be told
  const RecordsFolder records(records_);
  RunCheckpoints checkpoints(checkpoints_, p.loaded.run, program);
  LaunchOptions how;
  how.ranks = static_cast<std::uint32_t>(program.mesh.size());
  how.ends = ends_of(program, p.options.concurrent_lanes);
  how.watchdog = p.options.watchdog;
  how.heartbeat = Seconds::of(heartbeat_);
  how.records = records.path();
  const LaunchOutcome outcome = launch(how, [&](ProcessWorld& world, Recorder& recorder) {
    const auto train = [&] {
      return execute_rank(world, program, p.loaded.run.workload, *p.data, p.options, "run processes", &recorder);
    };
    if (world.rank() == Rank{0}) return show(p, watched(p, checkpoints, [&] { return *train(); }), checkpoints);
    checkpoints.attach(p.options);
    static_cast<void>(train());
    return status_fine;
  });
  if (!outcome.failure) return outcome.status;
  const std::string what = post_mortem_text(program, *outcome.failure, outcome.recordings);
  if (p.log) p.log->hooks().failure({what});
  throw Error(records.kept(what));
}

int RunVerb::run_over_mpi() {
  MpiSession session(mpi_module());
  std::optional<Prepared> p;
  std::optional<RunCheckpoints> checkpoints;
  const OwnState own = own_state([&](JobState& state) {
    p = prepare();
    if (p->loaded.program.mesh.size() != session.ranks()) {
      refuse_world_size(p->loaded.program.mesh.size(), session.ranks(), false);
    }
    checkpoints.emplace(checkpoints_, p->loaded.run, p->loaded.program);
    state.digest = digest_of(
        {orrery_version(), write_plan(p->loaded.run), write_program(p->loaded.program),
         fmt::format("{} {} {} {}", warmup_, steps_, p->options.concurrent_lanes, checkpoints->first_step())});
  });
  if (const auto status = disagreement(own, session.rank(), session.all_gather(own.state))) return *status;
  catch_interrupt();
  const RecordsFolder records(records_, session);
  MpiRunOptions how;
  how.heartbeat = Seconds::of(heartbeat_);
  how.records = records.path();
  how.failed_status = status_world;
  how.tell = [&](const std::string& what) {
    if (log_) LifecycleFile(*log_, LifecycleFile::Mode::append).hooks().failure({what});
    std::fprintf(stderr, "error: %s\n", what.c_str());
  };
  const auto train = [&] {
    return execute_mpi(session, p->loaded.program, p->loaded.run.workload, *p->data, p->options, how);
  };
  if (session.rank() == Rank{0}) {
    return show(*p, watched(*p, *checkpoints, [&] { return *train(); }), *checkpoints);
  }
  checkpoints->attach(p->options);
  static_cast<void>(train());
  return status_fine;
}

int RunVerb::show(const Prepared& p, const RunResult& result, const RunCheckpoints& checkpoints) const {
  const LoadedPlan& loaded = p.loaded;
  if (result.traces.empty()) {
    print(flags_.json ? "{\n  \"complete\": false,\n  \"recorded_steps\": 0\n}\n"
                      : "Interrupted before a step was recorded.\n");
    return status_no;
  }
  const PlannedRun measured = as_measured(loaded.run);
  Report report = report_of(measured, loaded.program, result);
  if (measured.cluster != loaded.run.cluster) {
    report.assumptions.push_back(
        fmt::format("rates and memory are judged by the cores it ran on, not by {}", loaded.run.cluster->name));
  }
  report.assumptions.insert(report.assumptions.end(), p.notes.begin(), p.notes.end());
  if (backend_ == "cuda") {
    report.assumptions.push_back(
        fmt::format("rates, utilization and cost are those of {}, which the plan names", measured.cluster->name));
  }
  if (trace_) {
    ChromeTraceOptions chrome;
    chrome.plan = loaded.run.plan.name;
    write_file(*trace_, write_chrome_trace(median_trace(result), loaded.program, chrome));
  }
  write_output(flags_, write_report(report));
  if (prints_output(flags_)) {
    // It has been printed.
  } else if (flags_.json) {
    nlohmann::ordered_json json = to_json(report);
    json["losses"] = result.losses;
    json["recorded_steps"] = result.times.steps;
    json["core_time_needed_s"] = result.cores.needed;
    json["core_time_had_s"] = result.cores.had;
    json["complete"] = !result.cancelled;
    if (checkpoints_.folder) json["checkpoint"] = checkpoints.json();
    print_json(json);
  } else {
    std::string out =
        heading_text(loaded.run, "not used") + resolutions_text(loaded.resolved) + "\n" + report_text(report);
    if (result.losses.size() > 1) {
      out += fmt::format("\n  loss {:.4f} in step 1, {:.4f} in step {}", result.losses.front(), result.losses.back(),
                         result.losses.size());
      // Warm-up trains too.
      const std::size_t warm = std::min<std::size_t>(warmup_, result.losses.size());
      if (warm > 0) out += fmt::format(" ({} of warm-up, {} recorded)", warm, result.times.steps);
      out += "\n";
    }
    if (const auto busy = core_shortage(result.cores)) out += fmt::format("  Not to be relied on: {}.\n", *busy);
    out += checkpoints.text();
    if (trace_) out += fmt::format("  timeline of the median step in {}\n", *trace_);
    if (result.cancelled)
      out += fmt::format("  Interrupted after {} recorded steps of {}.\n", result.times.steps, steps_);
    print(out);
  }
  return result.cancelled || !report.fits ? status_no : status_fine;
}

}  // namespace

std::unique_ptr<Verb> run_verb() { return std::make_unique<RunVerb>(); }

}  // namespace orrery
