#include "cli/gpu_ranks.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <span>
#include <utility>

#include "cli/common.hpp"
#include "core/base/diagnostics.hpp"
#include "exec/comm/collective_algorithms.hpp"
#include "exec/comm/communicator.hpp"

namespace orrery {

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* const value = getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
  };
}

void share_gpu_over_nccl(std::uint32_t rank, int nccl_version) {
  const auto set = [](const char* name, const std::string& value) { setenv(name, value.c_str(), 0); };
  constexpr int shares_itself = 23003;  // 2.30.3
  if (nccl_version >= shares_itself) {
    set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  } else {
    set("NCCL_HOSTID", fmt::format("orrery-rank-{}", rank));
    set("NCCL_NET", "Socket");
    set("NCCL_SOCKET_IFNAME", "lo");
    set("NCCL_IB_DISABLE", "1");
    set("NCCL_P2P_DISABLE", "1");
    set("NCCL_SHM_DISABLE", "1");
    // LL kernels wait for each other word by word, which costs a time slice each where processes take turns.
    set("NCCL_PROTO", "Simple");
  }
  set("NCCL_MAX_CTAS", "2");  // all ranks' kernels must have room at once
}

void load_kernels_early() { setenv("CUDA_MODULE_LOADING", "EAGER", 0); }
void queue_streams_apart() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

std::unique_ptr<SocketWorld> join_job(const JobPlace& job, const std::string& token, Seconds limit, Seconds watchdog,
                                      Met& met) {
  if (job.meeting.empty() && job.ranks > 1) {
    refuse("cli.job",
           fmt::format("{} say rank {} of {}, but not where the ranks meet", job.source, job.rank, job.ranks),
           {"--rendezvous HOST:PORT, with the host of rank 0 and a free port there, or --rendezvous FILE, which all "
            "hosts see."});
  }
  RendezvousOptions options;
  options.rank = job.rank;
  options.ranks = job.ranks;
  options.place = MeetingPlace::of(job.meeting);
  options.token = token;
  options.job = job.job;
  options.program = orrery_version();
  options.limit = limit;
  options.host = this_host();
  options.warn = [](const std::string& what) { say("warning: " + what + "\n"); };
  met = meet(options);
  WaitOptions waits;
  waits.watchdog = watchdog;
  auto world = std::make_unique<SocketWorld>(Rank{job.rank}, std::move(met.peers), std::move(waits));
  try {
    world->find_clock_offset(met.hosts);
  } catch (const Aborted&) {
    throw Error(world->reason());
  }
  return world;
}

std::vector<JobState> told_to_all(ProcessWorld& world, const JobState& own) {
  JobState mine = own;
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < world.ranks(); ++r) ranks.push_back(Rank{r});
  std::vector<JobState> all(ranks.size());
  const MemoryView views[2] = {
      {reinterpret_cast<std::byte*>(&mine), DType::u8, sizeof mine, View::Use::read},
      {reinterpret_cast<std::byte*>(all.data()), DType::u8, sizeof(JobState) * all.size(), View::Use::write}};
  Collective tell;
  tell.kind = Collective::Kind::all_gather;
  CollectiveScratch scratch;
  constexpr std::uint64_t tag = std::uint64_t{0x7ffffffcU} << 32;
  try {
    run_collective(world.control(), tell, {ranks, index(world.rank()), tag}, views, scratch, 0);
  } catch (const Aborted&) {
    throw Error(world.reason());
  }
  return all;
}

void wait_for_end(ProcessWorld& world, Rank rank) {
  constexpr std::uint64_t tag = std::uint64_t{0x7ffffffbU} << 32;
  std::byte none{};
  const Piece piece{&none, sizeof none};
  const Message never{false, rank, tag, std::span<const Piece>(&piece, 1)};
  try {
    world.communicator(world.rank()).exchange(std::span<const Message>(&never, 1), 0);
  } catch (const Aborted&) {
    // The process has ended, or waits itself for the one that reads its output.
  }
}

int gpu_of(std::uint32_t local_rank, std::uint32_t first, int gpus) {
  // A launcher that binds GPUs shows each process only its own.
  if (gpus == 1 && first == 0) return 0;
  if (first + local_rank < static_cast<std::uint32_t>(gpus)) return static_cast<int>(first + local_rank);
  throw Error(fmt::format("this host has {} GPU{}, but its processes need at least {}: one each{}", gpus,
                          gpus == 1 ? "" : "s", first + local_rank + 1,
                          first > 0 ? fmt::format(", from GPU {} on", first) : ""));
}

}  // namespace orrery
