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

// Ranks that are processes with a GPU each: their settings and their questions.

/// The environment of this process.
[[nodiscard]] Environment process_environment();

/// Lets NCCL join ranks that share one GPU: each claims a host of its own, and they meet over the loopback interface.
/// From NCCL 2.30.3 on NCCL does this itself when told. Variables that the user has set stay.
void share_gpu_over_nccl(std::uint32_t rank, int nccl_version);

/// Must be called before CUDA begins. A kernel that is loaded only when it is first launched may wait for the device,
/// which waits in a message for another rank. Variables that the user has set stay.
void load_kernels_early();

/// Must be called before CUDA begins, too. By default all streams of a process share eight queues to the GPU, and work
/// behind a message that waits would wait with it; 32 is the most that CUDA takes. Variables that the user has set
/// stay.
void queue_streams_apart();

/// This process's part in a job that others have started, connected with all others. It warns of connections that were
/// turned away.
[[nodiscard]] std::unique_ptr<SocketWorld> join_job(const JobPlace&, const std::string& token, Seconds limit,
                                                    Seconds watchdog, Met& met);

/// Every process's state, by rank; all must call it.
[[nodiscard]] std::vector<JobState> told_to_all(ProcessWorld&, const JobState& own);

/// Waits until that rank's process has ended, or the world's watchdog has. A launcher ends all processes once one has
/// failed, so a process with nothing to report waits for the one that has something.
void wait_for_end(ProcessWorld&, Rank);

/// The GPU of a host that is for the process. Throws Error where there are too few.
[[nodiscard]] int gpu_of(std::uint32_t local_rank, std::uint32_t first, int gpus);

}  // namespace orrery
