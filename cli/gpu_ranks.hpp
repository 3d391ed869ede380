#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/job.hpp"
#include "exec/comm/job_place.hpp"
#include "exec/comm/rendezvous.hpp"

namespace orrery {

// Ranks that are processes with a GPU each: what they are told, and what they ask.

/// The environment of this process.
[[nodiscard]] Environment process_environment();

/// So that NCCL joins ranks of one GPU: each claims a host of its own, and they
/// meet over the loopback interface; from NCCL 2.30.3 on NCCL does it itself when
/// told.  What the user has set stays.
void share_gpu_over_nccl(std::uint32_t rank, int nccl_version);

/// Before CUDA begins: a kernel that is loaded only when it is first launched may wait for the device, which waits in a
/// message for another rank.  What the user has set stays.
void load_kernels_early();

/// This process's part in a job that others have started: connected with all.  Connections that are turned away are
/// warned of.
[[nodiscard]] std::unique_ptr<SocketWorld> join_job(const JobPlace&, const std::string& token, Seconds limit,
                                                    Seconds watchdog, Met& met);

/// Every process's state, by rank; all must call it.
[[nodiscard]] std::vector<JobState> told_to_all(ProcessWorld&, const JobState& own);

/// Until that rank's process has ended, or the world's watchdog has: a launcher ends all processes once one has failed,
/// so who has nothing to say waits for the one that has.
void wait_for_end(ProcessWorld&, Rank);

/// Which of a host's GPUs is for the process.  Throws Error where there are too few.
[[nodiscard]] int gpu_of(std::uint32_t local_rank, std::uint32_t first, int gpus);

}  // namespace orrery
