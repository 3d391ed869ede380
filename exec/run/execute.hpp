#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/plan/plan.hpp"
#include "core/program/program.hpp"
#include "core/record/lifecycle.hpp"
#include "core/record/trace.hpp"
#include "exec/kernels/routing_counts.hpp"
#include "exec/run/core_time.hpp"

namespace orrery {

class DataSource;

/// Makes a rank fail on purpose, for tests: at op `op` of step `step`.
struct Fault {
  enum class Kind : std::uint8_t {
    throws,
    exits,
    stalls,
    killed,  ///< by SIGKILL; only where ranks are processes
    stopped  ///< by SIGSTOP; likewise
  };
  Kind kind = Kind::throws;
  Rank rank{};
  OpId op{};
  std::uint64_t step = 1;
};

/// The buffers of all ranks between two steps, while no rank moves.
class RunBuffers {
 public:
  virtual ~RunBuffers() = default;
  /// Bytes of the instance on the rank; empty when it is not live.  They may be written.
  [[nodiscard]] virtual std::span<std::byte> find(Rank, const Instance&) const = 0;
};

/// A finished step (or setup: step 0, without trace and loss).
struct RunEvent {
  std::uint64_t step = 0;  ///< counts from 1, warm-up included
  bool warmup = false;
  const Trace* trace = nullptr;
  std::optional<double> loss;
  const Program* program = nullptr;
  const RunBuffers* buffers = nullptr;
};

/// Sequences over which gradients are taken before and after they are summed over data ranks.
struct NoiseBatches {
  double small = 0.0, large = 0.0;
};

/// Makes messages between ranks slow on purpose, to see what a run does then.
struct SlowLinks {
  Bandwidth rate;               ///< of a rank, each direction
  std::uint64_t from_step = 1;  ///< of the training
};

struct RunOptions {
  bool concurrent_lanes = false;       ///< a rank has a thread for each lane; otherwise it does one op at a time
  std::uint64_t warmup_steps = 0;      ///< trained, but not in the result's traces
  std::uint64_t steps = 1;             ///< recorded
  std::size_t kept_traces = 256;       ///< most traces that are kept, at least 2
  std::uint64_t first_step = 1;        ///< of the data and the dropout keys
  std::uint64_t steps_before = 0;      ///< of the same run, under another plan: events count on from there
  Seconds watchdog = Seconds::of(60);  ///< longest wait for another rank
  std::optional<std::uint64_t> device_room, host_room;  ///< most live bytes of a rank on that tier
  std::filesystem::path disk_folder = ".";  ///< where each rank keeps a file for its disk tier, if it has one
  /// Measures the gradient noise scale (core/record/noise_scale.hpp); for ranks on the host. The plan must have data
  /// ranks, each with whole sequences, that sum their gradients once a step.
  std::optional<NoiseBatches> noise;
  bool poison = false;  ///< fill new and freed buffers with NaN
  std::optional<Fault> fault;
  LifecycleHooks* hooks = nullptr;            ///< told what happens; one thread, between steps
  const std::atomic<bool>* cancel = nullptr;  ///< asked after every step
  /// Asked after every step: whether the run goes on under another plan. Then it ends without a word in the log.
  const std::atomic<bool>* hand_over = nullptr;
  std::optional<SlowLinks> slow_links;  ///< for ranks on the host
  /// Where ranks are processes: returns the signal by which this one was asked to end, 0 for none. It is called after
  /// every step. `heard_of_signal` tells rank 0 the signal that another rank got, before rank 0 asks `cancel`. Both
  /// must be set, or neither.
  std::function<int()> own_signal;
  std::function<void(int)> heard_of_signal;
  std::function<void(const RunEvent&)> on_event;  ///< after setup and every step; one thread, all ranks paused
};

/// Memory that one rank took in addition to the Program's buffers.
struct RankMemory {
  std::uint64_t peak_bytes = 0;       ///< live bytes of the Program's buffers at the peak, in the order of issue
  std::uint64_t held_bytes = 0;       ///< most that buffers took at one time, including those freed but still used by
                                      ///< an op
  std::uint64_t reserved_bytes = 0;   ///< taken from the system for buffers
  std::uint64_t outside_bytes = 0;    ///< scratch of kernels and collectives
  std::uint64_t host_peak_bytes = 0;  ///< as peak_bytes, of the host tier
  std::uint64_t disk_peak_bytes = 0;  ///< and of the disk tier
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

/// Times of the recorded steps, however many there are.
struct RecordedTimes {
  std::uint64_t steps = 0;
  std::int64_t fastest = 0, slowest = 0;  ///< picoseconds
  friend bool operator==(const RecordedTimes&, const RecordedTimes&) = default;
};

struct RunResult {
  /// Traces of every recorded step. Beyond `kept_traces` they are of every second one, then every fourth, and so on, so
  /// that a long run takes no more memory.
  std::vector<Trace> traces;
  std::uint64_t trace_stride = 1;  ///< recorded steps from one kept trace to the next
  RecordedTimes times;             ///< of all recorded steps
  std::vector<double> losses;      ///< one per step, warm-up included
  CoreTime cores;                  ///< of all recorded steps: core time that their kernels needed, and that the program
                                   ///< had
  std::vector<RankMemory> memory;  ///< by rank
  bool streams = false;            ///< lanes were streams of a device
  bool fp8_products = false;       ///< the device makes products in fp8 where the plan says so
  RoutingCounts routing;           ///< learned routing: of all tokens, over all steps
  std::optional<NoiseEvent> noise;  ///< of the last step, where it was measured
  bool cancelled = false;           ///< fewer steps than asked for
};

/// Trains: runs the Program's setup once and its step list for every step, with one thread per rank, each with its own
/// buffers.
///
/// A rank does one op at a time in list order, whatever its lane. With `concurrent_lanes` it has a thread for each
/// lane, and an op starts when the one before it on its lane and those that it waits for have ended. Both compute the
/// same bits. Buffers come and go in the order of issue, but the memory of a freed one stays until the last op that
/// uses it has ended. Spans have the meaning that simulate gives them: a collective or exchange starts when its last
/// partner is ready, so waiting lies before the span. All ranks start a step together; its times count from the first
/// rank's start.
///
/// Requires a Program lowered from these specs (plan resolved and checked).
/// Throws Error when a rank fails, ends early or waits longer than the
/// watchdog: the text names the rank, its op and group, and what every rank did
/// last.  The other ranks are stopped first.
[[nodiscard]] RunResult execute(const Program&, const ModelSpec&, const Workload&, const Plan&, const DataSource&,
                                const RunOptions& = {});

}  // namespace orrery
