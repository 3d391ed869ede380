#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/program/lower/lower.hpp"
#include "exec/checkpoint/save.hpp"
#include "exec/run/gather.hpp"
#include "exec/train/data.hpp"

namespace orrery::test {

inline std::vector<Rank> all_ranks(const Program& program) {
  std::vector<Rank> ranks;
  for (std::uint32_t r = 0; r < program.mesh.size(); ++r) ranks.push_back(Rank{r});
  return ranks;
}

/// Every byte that a step leaves to the next, by the roles of the buffers alone.
using StateBytes = std::map<std::pair<Rank, Instance>, std::vector<std::byte>>;
inline StateBytes state_bytes(const Program& program, const RunBuffers& buffers) {
  StateBytes all;
  for (const Rank rank : all_ranks(program)) {
    for (std::uint32_t b = 0; b < program.buffers.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      const bool scalar = buffer.name == "steps" || buffer.name == "loss_scale";
      const bool state = buffer.role == Role::weight || buffer.role == Role::master || buffer.role == Role::moment;
      if (!state && !scalar) continue;
      for (std::uint32_t layer = 0; layer < (per_layer(buffer.scope) ? program.layers : 1); ++layer) {
        const Instance instance{BufferId{b}, layer, 0};
        const auto bytes = buffers.find(rank, instance);
        if (!bytes.empty()) all[{rank, instance}].assign(bytes.begin(), bytes.end());
      }
    }
  }
  return all;
}

/// Whole tensors, as exec/run puts them together.
inline std::map<std::string, GlobalTensors> gathered(const Program& program, const RunBuffers& buffers) {
  std::map<std::string, GlobalTensors> all;
  for (const char* what : {"weights", "masters", "moment1", "moment2"}) all[what] = gather(program, buffers, what);
  return all;
}

/// A run that is trained, saved, and then trained further.
struct Training {
  PlannedRun run;
  Program program;
  std::unique_ptr<DataSource> data;

  explicit Training(const PlannedRun& r)
      : run(r), program(lower(r.model, r.workload, r.plan)), data(data_of(r.model, r.workload)) {}

  /// Trains `steps` from `first` on; `at` is called after setup (0) and after each step.
  std::vector<double> train(std::uint64_t first, std::uint64_t steps, const std::function<void(const RunEvent&)>& at,
                            bool lanes = false) const {
    RunOptions options;
    options.poison = true;
    options.watchdog = Seconds::of(30);
    options.first_step = first;
    options.steps = steps;
    options.concurrent_lanes = lanes;
    options.on_event = at;
    return execute(program, run.model, run.workload, run.plan, *data, options).losses;
  }

  std::string save(FileSystem& disk, const RunBuffers& buffers, std::uint64_t step,
                   const std::optional<std::string>& previous = {}) const {
    return save_checkpoint(disk, "dir", program, buffers, manifest_of(run, step), previous).name;
  }
};

}  // namespace orrery::test
