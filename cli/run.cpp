#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>

#include "cli/common.hpp"
#include "cli/gpu_ranks.hpp"
#include "cli/hosted_command.hpp"
#include "cli/interrupt.hpp"
#include "cli/job.hpp"
#include "cli/progress.hpp"
#include "cli/run_verb.hpp"
#include "cli/status.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/plan/schedule_rules.hpp"
#include "core/program/program_text.hpp"
#include "core/record/live_memory.hpp"
#include "core/spec/model_level.hpp"
#include "exec/run/execute_rank.hpp"
#include "exec/run/mpi_run.hpp"
#include "exec/run/op_runner.hpp"
#include "exec/run/rank_runner.hpp"

namespace orrery {
namespace {

constexpr std::uint64_t most_steps = 1'000'000'000;
constexpr std::uint32_t most_processes = 128;
constexpr std::uint32_t most_gpus = 1024;

}  // namespace

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

void RunVerb::declare(Command& c) {
  c.positional("PLAN", plan_, "a plan file, or the name of an example plan");
  c.choice("--backend", backend_, {"threads", "processes", "mpi", "cuda"},
           "what a rank is: a thread, a process of this machine that is started here, one that mpirun or srun has "
           "started, or a GPU");
  c.flag("--share-gpu", share_gpu_, "--backend cuda: all ranks of the plan take turns on one GPU");
  c.option("--gpu", gpu_, "--backend cuda: number of the GPU, from 0", {0, most_gpus});
  c.choice("--graphs", graphs_, {"off", "on"},
           "--backend cuda: whether a step is given to the GPU as one CUDA graph, from the second step on, where that "
           "is possible");
  c.option("--ranks", ranks_,
           "number of processes to start, as --backend processes does, or one for each GPU; it must be the plan's "
           "number of ranks",
           {1, most_processes});
  c.option("--rank", rank_, "--backend cuda: which rank this process is, where no launcher says so", {0, most_gpus});
  c.option("--world-size", world_size_, "with --rank: the job's number of ranks", {1, most_gpus});
  c.option("--local-rank", local_rank_, "which of the job's processes on this host this is", {0, most_gpus});
  c.option("--rendezvous", rendezvous_, "HOST:PORT of rank 0, or a file: where the processes of a job meet");
  declare_token(c, token_);
  c.flag("--mpi-collectives", mpi_collectives_,
         "--backend mpi: all-reduce and the others are MPI's own, which add in an order that it chooses");
  c.option("--nccl", nccl_, "--backend cuda: the NCCL library; default: libnccl.so.2");
  c.option("--steps", steps_, "optimizer steps to record", {1, most_steps});
  c.option("--warmup", warmup_, "steps before the recorded ones", {0, most_steps});
  c.option("--measure-groups", measure_groups_,
           "train nothing; measure the collectives of the plan's groups, and write them here (CSV)");
  c.option("--trace", trace_, "write the median step's timeline here; opens in Perfetto (ui.perfetto.dev)");
  c.option("--log", log_, "write a log of events here: a line of JSON for every operation, microbatch, step and so on");
  declare_metrics(c, metrics_);
  c.flag("--noise-scale", noise_scale_,
         "measure the gradient noise scale: about the batch, in sequences, beyond which larger ones save few steps");
  c.option("--disk", disk_, "folder for the files of the disk tier, removed after the run");
  c.option("--watchdog", watchdog_, "longest wait for another rank, in seconds");
  c.option("--heartbeat", heartbeat_, "longest time in which a rank's process gives no sign of life, in seconds");
  c.option("--records", records_, "folder for the ranks' last operations, kept if a process fails");
  declare_checkpoints(c, checkpoints_);
  declare_supervision(c, supervise_);
  declare_adaptation(c, adapt_);
  declare_machine(c, flags_);
  declare_plan_sources(c, flags_);
  declare_output(c, flags_, "write the report here, as JSON");
  c.examples(
      "  orrery run demo-2x2x2 --steps 10\n"
      "  orrery run plan.toml --steps 100 --checkpoint saved --every 20\n"
      "  orrery run other.toml --steps 100 --checkpoint saved --resume\n"
      "  orrery run plan.toml --steps 100 --checkpoint saved --supervise\n"
      "  orrery run plan.toml --steps 10000 --ranks 8 --adapt 0.15\n"
      "  orrery run plan.toml --steps 5 --trace measured.json -o measured-report.json\n"
      "  orrery run demo-2x2x2 --ranks 8 --heartbeat 2\n"
      "  mpirun -n 8 orrery run demo-2x2x2 --backend mpi\n"
      "  mpirun -n 8 orrery run demo-2x2x2 --backend mpi --mpi-collectives\n"
      "  orrery run demo-2x2x2 --backend cuda --share-gpu\n"
      "  orrery run demo-2x2x2 --backend cuda --ranks 8 --measure-groups groups.csv\n"
      "  orrery run demo-2x2x2 --backend cuda --ranks 8\n"
      "  torchrun --no-python --nproc-per-node 8 orrery run demo-2x2x2 --backend cuda\n"
      "  orrery simulate plan.toml --trace predicted.json && orrery compare predicted.json measured.json");
}

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

void RunVerb::open_log(bool begins) {
  keep_apart(plan_path(plan_, library_of(flags_)),
             {flags_.output, trace_, log_, measure_groups_, metrics_port(metrics_) ? std::nullopt : metrics_.metrics,
              metrics_.csv});
  require_output(flags_);
  refuse_standard_output("--trace", trace_);
  refuse_standard_output("--log", log_);
  refuse_standard_output("--measure-groups", measure_groups_);
  check_metrics(metrics_);
  if (trace_) require_folder(*trace_);
  if (measure_groups_) require_folder(*measure_groups_);
  if (log_) require_folder(*log_);
  run_log_.open(log_, begins);
}

NoiseBatches RunVerb::noise_batches(const PlannedRun& run) const {
  const Mesh& mesh = run.plan.mesh;
  const bool other_axes = mesh.size(Axis::replica) > 1 || mesh.size(Axis::context) > 1 || mesh.size(Axis::expert) > 1;
  const std::pair<bool, const char*> refusals[] = {
      {backend_ == "cuda", "ranks on GPUs do not measure it"},
      {measure_groups_.has_value(), "--measure-groups trains nothing"},
      {supervise_.restart == "fewer", "with --restart fewer the batch of a data rank changes"},
      {mesh.size(Axis::data) < 2, "it compares gradients of data ranks, and the plan has only one"},
      {other_axes, "gradients are summed over other axes than data, too"},
      {mesh.size(Axis::tensor) > 1, "parameters that all tensor ranks hold would count once for each of them"},
      {mesh.size(Axis::pipeline) > 1 && run.model.tied_embeddings,
       "the tied table's gradient is in two parts, on the first and the last pipeline stage"},
      {run.plan.zero_stage > 1, "ZeRO 2 and 3 sum gradients in parts"},
      {stage_map(run.plan).two_way(), "a two-way pipeline sums gradients twice"}};
  for (const auto& [is_so, why] : refusals) {
    if (is_so) refuse("cli.noise-scale", fmt::format("--noise-scale: {}", why));
  }
  const auto batch = static_cast<double>(run.workload.global_batch);
  return {batch / mesh.size(Axis::data), batch};
}

RunVerb::Prepared RunVerb::prepare() const {
  if (steps_ < 1 || steps_ > 1'000'000'000)
    refuse("cli.steps", fmt::format("--steps is {}; it must be from 1 to 1000000000", steps_));
  if (warmup_ > 1'000'000'000)
    refuse("cli.warmup", fmt::format("--warmup is {}; it must be from 0 to 1000000000", warmup_));
  Prepared p{load_plan(plan_, flags_, "local-cpu", ClusterUse::fall_back), nullptr, {}, {}};
  Diagnostics unable;
  static_cast<void>(check_executed(p.loaded.run.model, unable));
  require_none(unable);
  if (measure_groups_) {
    if (checkpoints_.folder)
      refuse("cli.measure-groups", "--measure-groups trains nothing: there is no checkpoint to keep");
    p.trained = p.loaded.program;
    p.loaded.program = program_of_groups(*p.trained);
  }
  if (backend_ != "cuda") refuse_too_large(p.loaded.program);
  if (records_ && !std::filesystem::is_directory(*records_)) {
    refuse("cli.records", fmt::format("--records: {} is not a folder", *records_));
  }
  p.data = data_of(p.loaded.run.model, p.loaded.run.workload);
  p.options.steps = steps_;
  p.options.warmup_steps = warmup_;
  p.options.concurrent_lanes = p.loaded.run.cluster->device.concurrent_lanes;
  p.options.watchdog = Seconds::of(watchdog_);
  p.options.disk_folder = disk_ ? std::filesystem::path(*disk_) : std::filesystem::temp_directory_path();
  if (noise_scale_) p.options.noise = noise_batches(p.loaded.run);
  p.options.slow_links = slow_links_of(adapt_);
  if (adapt_.tolerance && p.loaded.program.mesh.size() == 1) {
    refuse("cli.adapt", "--adapt: the plan has one rank, so there is no other way to divide the work");
  }
  p.options.cancel = &interrupted();
  p.options.own_signal = interrupting_signal;
  p.options.heard_of_signal = [](int signal) {
    if (!interrupted()) interrupt(signal);  // what several ranks were sent is one wish
  };
  return p;
}

RunResult RunVerb::watched(Prepared& p, RunCheckpoints& checkpoints, const std::function<RunResult()>& train) {
  p.options.hooks = run_log_.hooks();
  const Workload& work = p.loaded.run.workload;
  const std::uint32_t restarts = supervision_ ? supervision_->restarts() : 0;
  RunMetrics metrics(metrics_, checkpoints.first_step(),
                     static_cast<double>(work.global_batch) * static_cast<double>(work.sequence_length), restarts,
                     restarts > 0 || checkpoints.first_step() > 1);
  // A step may take long, so the bar goes on between two steps.
  Ticker ticker("run");
  p.options.on_event = [&](const RunEvent& event) {
    metrics.after(event);
    if (p.power) p.power->step_ended(event.step, now_ns());
    // A run that goes back to before its first step has more to do than it was asked for.
    const std::uint64_t now = p.options.steps_before + p.options.warmup_steps + p.options.steps,
                        all = std::max(warmup_ + steps_, now);
    ticker.show("run", all - now + event.step, all, event.loss ? fmt::format("loss {:.4f}", *event.loss) : "");
  };
  if (supervision_) checkpoints.supervise(*supervision_);
  checkpoints.attach(p.options);
  RunResult result = train();
  if (!supervision_) return result;
  supervision_->ends();
  result.losses = supervision_->losses();  // of the starts before, too
  return result;
}

void RunVerb::check_backend() const {
  check_supervision(supervise_, backend_ == "processes" || (backend_ == "cuda" && ranks_),
                    checkpoints_.folder.has_value());
  if (supervise_.wanted && measure_groups_) {
    refuse("cli.measure-groups", "--measure-groups trains nothing: there is nothing to supervise");
  }
  check_adaptation();
  if (!(watchdog_ > 0.0 && watchdog_ <= 1e6))
    refuse("cli.watchdog", fmt::format("--watchdog is {}; it must be above 0 and at most 1000000", watchdog_));
  if (!(heartbeat_ >= 0.1 && heartbeat_ <= 1e6))
    refuse("cli.heartbeat", fmt::format("--heartbeat is {}; it must be from 0.1 to 1000000", heartbeat_));
  if (ranks_ && backend_ == "mpi") {
    refuse("cli.ranks", "--ranks starts processes, but mpirun or srun starts those of --backend mpi");
  }
  if (mpi_collectives_ && backend_ != "mpi") refuse("cli.mpi-collectives", "--mpi-collectives is for --backend mpi");
  const bool cuda = backend_ == "cuda";
  if (!cuda && (share_gpu_ || gpu_ || graphs_ == "on")) {
    refuse("cli.gpu", fmt::format("{} is for --backend cuda", share_gpu_ ? "--share-gpu"
                                                              : gpu_     ? "--gpu"
                                                                         : "--graphs"));
  }
  const bool place = rank_ || world_size_ || local_rank_ || rendezvous_ || token_.file || token_.none;
  if (!cuda && (place || nccl_)) {
    const char* flag = rank_         ? "--rank"
                       : world_size_ ? "--world-size"
                       : local_rank_ ? "--local-rank"
                       : rendezvous_ ? "--rendezvous"
                       : token_.file ? "--token-file"
                       : token_.none ? "--no-token"
                                     : "--nccl";
    refuse("cli.job", fmt::format("{} is for --backend cuda", flag));
  }
  if (ranks_ && place) {
    refuse("cli.job",
           "--ranks starts all processes here, and --rank, --world-size, --local-rank, --rendezvous, --token-file and "
           "--no-token are for processes that a launcher starts");
  }
}

int RunVerb::run() {
  refuse_hosted("run", "`orrery run` at a shell trains the plan; in Python, orrery.run(plan) starts that.");
  try {
    return run_by_backend();
  } catch (const InputError& wrong) {
    run_log_.failed(render(wrong.diagnostics));
    throw;
  } catch (const std::exception& failed) {
    run_log_.failed(failed.what());
    throw;
  }
}

int RunVerb::run_by_backend() {
  if ((ranks_ || supervise_.wanted) && backend_ == "threads") backend_ = "processes";
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
         fmt::format("--ranks starts processes, but this process already belongs to a job: {} say rank {} of {}",
                     job->source, job->rank, job->ranks),
         {"Without --ranks it runs as that rank."});
}

int RunVerb::run_on_threads() {
  open_log(true);
  Prepared p = prepare();
  RunCheckpoints checkpoints(checkpoints_, p.loaded.run, p.loaded.program);
  catch_end_signals(SecondSignal::ends);
  const PlannedRun& run = p.loaded.run;
  const RunResult result = watched(p, checkpoints, [&] {
    return train(p, nullptr,
                 [&] { return execute(p.loaded.program, run.model, run.workload, run.plan, *p.data, p.options); });
  });
  return show(p, result, checkpoints);
}

int RunVerb::run_as_processes() {
  open_log(true);  // here, so that a failure of rank 0's process can be told
  Prepared p = prepare();
  const Program& program = p.loaded.program;
  if (ranks_ && *ranks_ != program.mesh.size()) {
    refuse("cli.ranks",
           fmt::format("--ranks is {}, but the plan has {}", *ranks_, counted(program.mesh.size(), "rank")));
  }
  if (program.mesh.size() > most_processes) {
    refuse("cli.ranks",
           fmt::format("the plan has {} ranks; at most {} processes are started", program.mesh.size(), most_processes));
  }
  return launch_ranks(p, [this](ProcessWorld& world, Recorder& recorder, Prepared& now, RunCheckpoints& checkpoints) {
    const auto segment = [&] {
      return execute_rank(world, now.loaded.program, now.loaded.run.workload, *now.data, now.options, "run processes",
                          &recorder);
    };
    if (world.rank() == Rank{0}) {
      return show(now, watched(now, checkpoints, [&] { return train(now, &world, [&] { return *segment(); }); }),
                  checkpoints);
    }
    checkpoints.attach(now.options);
    const auto own = [&] { static_cast<void>(segment()); };
    if (adapt_.tolerance) {
      follow(now, world, own);
    } else {
      own();
    }
    return status_fine;
  });
}

int RunVerb::run_over_mpi() {
  MpiSession& session = session_.emplace(mpi_module());
  std::optional<Prepared> p;
  std::optional<RunCheckpoints> checkpoints;
  const OwnState own = own_state([&](JobState& state) {
    open_log(session.rank() == Rank{0});
    p = prepare();
    if (p->loaded.program.mesh.size() != session.ranks()) {
      refuse_world_size(p->loaded.program.mesh.size(), session.ranks(), false);
    }
    if (mpi_collectives_ && p->options.concurrent_lanes) {
      refuse("cli.mpi-collectives", "--mpi-collectives needs one operation at a time",
             {"MPI tells the collectives of a group apart only by their order, and lanes side by side have none. With "
              "--lanes serial it works."});
    }
    if (mpi_collectives_) {
      p->notes.push_back(
          fmt::format("collectives are those of {}: their bytes are not counted, and waiting for their "
                      "partners counts as communication",
                      session.library()));
    }
    checkpoints.emplace(checkpoints_, p->loaded.run, p->loaded.program);
    state.digest = digest_of({orrery_version(), write_plan(p->loaded.run), write_program(p->loaded.program),
                              fmt::format("{} {} {} {} {}", warmup_, steps_, p->options.concurrent_lanes,
                                          checkpoints->first_step(), mpi_collectives_)});
  });
  if (const auto status = disagreement(own, session.rank(), session.all_gather(own.state))) return *status;
  catch_end_signals(SecondSignal::is_watched);
  const RecordsFolder records(records_, session);
  MpiRunOptions how;
  how.heartbeat = Seconds::of(heartbeat_);
  how.records = records.path();
  how.failed_status = status_world;
  how.library_collectives = mpi_collectives_;
  how.asked_to_end = [] { interrupt(SIGTERM); };
  how.end_now = [] { return interrupted_again() ? std::optional(interrupted_again_status()) : std::nullopt; };
  how.tell = [&](const std::string& what) {
    run_log_.failed(what);
    say("error: " + what + "\n");
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

std::unique_ptr<Verb> run_verb() { return std::make_unique<RunVerb>(); }

}  // namespace orrery
