#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace orrery {

/// Live bytes of one pipeline stage at its peak instant, by role.
struct StageMemory {
  std::uint32_t stage = 0;
  std::uint64_t peak = 0;
  std::uint64_t weights = 0;  ///< with masters
  std::uint64_t gradients = 0;
  std::uint64_t optimizer = 0;    ///< moments
  std::uint64_t activations = 0;  ///< with statistics, masks and data
  std::uint64_t workspace = 0;
  std::optional<std::uint64_t> reserved{};  ///< by the caching allocator, largest over setup and two steps
  std::optional<std::uint64_t> process{};   ///< by the whole process: reserved, context, communicators
  std::optional<std::uint64_t> capacity{};  ///< of the smallest device that a rank of the stage is on
  friend bool operator==(const StageMemory&, const StageMemory&) = default;
};

/// What the ranks of one pipeline stage spend a step on:
///
///     step = compute + (exposed_communication - exposed_exchange) + bubble
///
/// because the time in which a message between stages moves is exposed and
/// bubble at once (docs/decisions/0006).
struct StageTime {
  std::uint32_t stage = 0;
  Seconds compute;                ///< compute lane busy
  Seconds exposed_communication;  ///< compute lane waiting for communication
  Seconds exposed_exchange;       ///< the part of exposed communication that is no collective: a message between stages
                                  ///< moves
  Seconds bubble;                 ///< compute lane idle, not waiting for a collective, to the end of the step
  friend bool operator==(const StageTime&, const StageTime&) = default;
};

/// Compute time of one kind of operation, or time of one kind of communication:
/// busy time of its lane, mean over ranks.
struct OperationTime {
  std::string name;  ///< "gemm", "all_reduce tensor", "exchange"
  Seconds time;
  std::uint64_t count = 0;  ///< runs, mean over ranks rounded down
  friend bool operator==(const OperationTime&, const OperationTime&) = default;
};

/// The interval that holds the step times of eight measured runs in ten of its kind; one in ten lies below, one in ten
/// above.
struct StepInterval {
  Seconds low, high;
  friend bool operator==(const StepInterval&, const StepInterval&) = default;
};

/// What a device's costs stand on.
struct DeviceBasis {
  enum class Kind : std::uint8_t {
    measured,   ///< by `orrery calibrate`, on the machine itself
    fitted,     ///< to published runs on this device
    relative,   ///< to published runs on devices of its family; none ran on this one
    datasheet,  ///< shares of datasheet figures
    nominal     ///< no constants at all
  };
  std::string device;  ///< its display name
  Kind kind = Kind::nominal;
  std::uint64_t runs = 0;            ///< published runs behind it
  std::optional<double> within_pct;  ///< eight in ten runs on such devices were so near the prediction
  std::string text;                  ///< the same in words
  friend bool operator==(const DeviceBasis&, const DeviceBasis&) = default;
};

/// What a plan costs. The parts of the step are those of StageTime. Written by estimate, simulate and run alike.
struct Report {
  std::string origin;  ///< "estimate", "simulate", "run threads", "run processes", "run mpi"
  std::string plan;
  std::uint64_t gpus = 0;
  Seconds step_time;
  double tokens_per_s = 0.0;
  double tokens_per_s_per_gpu = 0.0;
  double model_flops_utilization = 0.0;     ///< 0 where the device's peak is unknown
  double hardware_flops_utilization = 0.0;  ///< counts recomputation
  std::string flop_convention;
  std::uint64_t peak_memory_bytes = 0;  ///< live bytes of the Program, largest over ranks
  /// Memory that PyTorch's caching allocator holds for those tensors (sim/memory), largest over ranks.
  std::optional<std::uint64_t> peak_memory_reserved_bytes;
  /// Memory that the whole process holds: reserved, CUDA context, communication buffers.
  std::optional<std::uint64_t> peak_memory_process_bytes;
  /// Live bytes while weights and states are made, before the first step; largest over ranks.
  std::optional<std::uint64_t> peak_memory_setup_bytes;
  std::optional<std::uint64_t> memory_capacity_bytes;  ///< of the device that has least left
  /// Host memory of the fullest node: the peaks of its ranks together. Unset where nothing lives there.
  std::optional<std::uint64_t> peak_host_memory_bytes, peak_disk_bytes;
  std::optional<std::uint64_t> host_memory_capacity_bytes, disk_capacity_bytes;
  /// Whether every tier whose capacity is known is large enough. judge_memory (sim/memory/fit.hpp) decides this for
  /// processes; reports filled only by estimate, simulate or run judge tensors alone.
  bool fits = true;
  std::vector<StageMemory> memory_by_stage;
  double bubble_fraction =
      0.0;  ///< compute-lane idle not spent waiting for a collective, mean over ranks, over step time
  Seconds exposed_communication;  ///< compute-lane wait on communication, mean over ranks
  Seconds exposed_exchange;       ///< the part of it that is in bubble_fraction too: messages between stages moving
  Seconds compute;                ///< compute-lane busy, mean over ranks
  std::vector<StageTime> time_by_stage;
  std::vector<OperationTime> operations;
  std::uint64_t sent_bytes = 0;             ///< by all ranks, ring algorithms
  std::optional<double> cost_per_step;      ///< GPU-hours times the cluster's price
  std::string cost_currency;                ///< of it
  std::optional<double> loss;               ///< run only
  std::string software;                     ///< training program whose times these are; "none"; empty: not told
  std::vector<std::string> software_costs;  ///< files of models/software that priced it
  bool software_assumed = false;            ///< the usual program on the device was taken, since none was named
  std::optional<StepInterval> interval;     ///< of predictions; unset where nothing measured tells
  std::vector<DeviceBasis> devices;         ///< of predictions; one for each kind of device
  std::vector<std::string> assumptions;
  friend bool operator==(const Report&, const Report&) = default;
};

/// Bytes that the fullest device holds: of its process where that is known, otherwise of tensors alone.
[[nodiscard]] inline std::uint64_t held(const Report& r) {
  return r.peak_memory_process_bytes.value_or(r.peak_memory_bytes);
}
/// The same of one stage.
[[nodiscard]] inline std::uint64_t held(const StageMemory& m) { return m.process.value_or(m.peak); }

/// Compute-lane wait on collectives, mean over ranks: with compute and bubble it fills the step.
[[nodiscard]] inline Seconds exposed_collectives(const Report& r) {
  return r.exposed_communication - r.exposed_exchange;
}
[[nodiscard]] inline Seconds exposed_collectives(const StageTime& t) {
  return t.exposed_communication - t.exposed_exchange;
}

}  // namespace orrery
