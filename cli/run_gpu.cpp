// `orrery run --backend cuda` has three forms: all ranks on one GPU, a process with a GPU for each rank started here,
// or one process of a job that others have started.

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "cli/gpu_ranks.hpp"
#include "cli/interrupt.hpp"
#include "cli/job.hpp"
#include "cli/run_verb.hpp"
#include "cli/status.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"
#include "core/program/program_text.hpp"
#include "core/record/live_memory.hpp"
#include "exec/device/cuda_load.hpp"

namespace orrery {

void RunVerb::watch_power(Prepared& p, const Device& gpu) const {
  if (const auto counter = EnergyCounter::of(gpu.info().identity)) {
    p.power = std::make_shared<PowerOfRun>(*counter, warmup_);
  }
}

int RunVerb::run_on_gpu() {
  open_log(true);
  Prepared p = prepare();
  const Program& program = p.loaded.program;
  if (program.mesh.size() > 1 && !share_gpu_) {
    refuse(
        "cli.share-gpu", fmt::format("the plan has {} ranks, but this is one process", program.mesh.size()),
        {fmt::format("With --ranks {} each rank is a process with a GPU; torchrun, mpirun and srun start them, too.",
                     program.mesh.size()),
         "With --share-gpu all of them take turns on one GPU: the same numbers, but not the times of as many GPUs."});
  }
  queue_streams_apart();
  const std::unique_ptr<Device> gpu = open_cuda_device(cuda_module(), static_cast<int>(gpu_.value_or(0)));
  const double needed = needed_bytes(program);
  const DeviceInfo& info = gpu->info();
  if (needed > static_cast<double>(info.free_bytes)) {
    throw Error(fmt::format("the ranks need {} together; {} has {} free", short_text(Bytes::of(needed)), info.name,
                            short_text(Bytes::of(static_cast<double>(info.free_bytes)))));
  }
  RunCheckpoints checkpoints(checkpoints_, p.loaded.run, program);
  catch_end_signals(SecondSignal::ends);
  watch_power(p, *gpu);
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
  queue_streams_apart();
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
  watch_power(p, *gpu);
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
  open_log(true);
  Prepared p = prepare();
  const Program& program = p.loaded.program;
  if (*ranks_ != program.mesh.size()) {
    refuse("cli.ranks",
           fmt::format("--ranks is {}, but the plan has {}", *ranks_, counted(program.mesh.size(), "rank")));
  }
  const NcclCalls nccl = load_nccl(nccl_.value_or(nccl_library_name));
  const std::size_t gpus = cuda_devices_apart(cuda_module()).size();
  if (const std::uint32_t last = gpu_.value_or(0) + (share_gpu_ ? 0 : *ranks_ - 1); last >= gpus) {
    if (share_gpu_)
      throw Error(fmt::format("this host has {} GPU{}, but no GPU {}", gpus, gpus == 1 ? " is" : "s are", last));
    throw Error(fmt::format(
        "this host has {} GPU{}, but {} ranks with one each need GPUs {} to {}; --share-gpu puts all on one", gpus,
        gpus == 1 ? " is" : "s are", *ranks_, gpu_.value_or(0), last));
  }
  return launch_ranks(p, [&](ProcessWorld& world, Recorder& recorder, Prepared& now, RunCheckpoints& checkpoints) {
    const std::uint32_t first = gpu_.value_or(0);
    const int gpu = static_cast<int>(share_gpu_ ? first : first + index(world.rank()));
    return train_on_gpu(world, gpu, nccl, now, checkpoints, &recorder);
  });
}

int RunVerb::run_in_job(const JobPlace& job) {
  // A mistake of the log is reported when all processes can hear it, because the log also notes processes that do not
  // come.
  std::exception_ptr no_log;
  try {
    open_log(job.rank == 0);
  } catch (const InputError&) {
    no_log = std::current_exception();
  } catch (const std::exception&) {
    no_log = std::current_exception();
  }
  Met met;
  const std::string token = token_of(token_, process_environment());
  require_token(job, token_, token);
  world_ = join_job(job, token, Seconds::of(watchdog_), Seconds::of(watchdog_), met);
  std::optional<Prepared> p;
  std::optional<RunCheckpoints> checkpoints;
  std::optional<NcclCalls> nccl;
  int gpu = 0;
  const OwnState own = own_state([&](JobState& state) {
    if (no_log) std::rethrow_exception(no_log);
    p = prepare();
    if (p->loaded.program.mesh.size() != job.ranks) refuse_world_size(p->loaded.program.mesh.size(), job.ranks, true);
    nccl = load_nccl(nccl_.value_or(nccl_library_name));
    const std::vector<std::string> gpus = cuda_devices_apart(cuda_module());
    const std::uint32_t local = job.local_rank.value_or(met.local_rank(job.rank));
    if (share_gpu_ && std::any_of(met.hosts.begin(), met.hosts.end(), [&](auto h) { return h != met.hosts[0]; })) {
      refuse("cli.gpu", "--share-gpu puts all ranks on one GPU, but the ranks are on several hosts");
    }
    gpu = share_gpu_ ? static_cast<int>(gpu_.value_or(0))
                     : gpu_of(local, gpu_.value_or(0), static_cast<int>(gpus.size()));
    if (!share_gpu_) state.gpu = digest_of({gpus.at(static_cast<std::size_t>(gpu))});
    checkpoints.emplace(checkpoints_, p->loaded.run, p->loaded.program);
    state.digest = digest_of({orrery_version(), write_plan(p->loaded.run), write_program(p->loaded.program),
                              fmt::format("{} {} {}", warmup_, steps_, checkpoints->first_step())});
  });
  const std::vector<JobState> states = told_to_all(*world_, own.state);
  if (const auto status = disagreement(own, Rank{job.rank}, states)) {
    wait_for_end(*world_, first_wrong(states)->rank);
    return *status;
  }
  catch_end_signals(SecondSignal::ends);
  if (job.rank != 0) run_log_.leave_to_others();
  try {
    return train_on_gpu(*world_, gpu, *nccl, *p, *checkpoints, nullptr);
  } catch (const Aborted&) {
    throw Error("the run has ended; another rank reports the cause");
  }
}

}  // namespace orrery
