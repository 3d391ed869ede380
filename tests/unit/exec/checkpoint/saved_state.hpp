#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/program/lower/lower.hpp"
#include "exec/checkpoint/restore.hpp"
#include "exec/checkpoint/save.hpp"
#include "tests/support/memory_disk.hpp"
#include "tests/support/tiny_model.hpp"

namespace orrery::test {

/// The state of a small run of two ranks, without training: every byte follows from a number.
struct SavedState {
  PlannedRun run;
  Program program;
  std::vector<Rank> ranks{Rank{0}, Rank{1}};

  SavedState() {
    Size size;
    size.layers = 1;
    size.hidden = 4;
    size.heads = 2;
    size.ffn = 4;
    size.vocabulary = 5;
    size.positions = 4;
    run.model = tiny_gpt(size);
    run.model_reference = run.model.name;
    run.workload.global_batch = 2;
    run.workload.sequence_length = 4;
    run.workload.precision = Precision::fp32;
    run.workload.optimizer.kind = OptimizerKind::sgd;
    run.workload.optimizer.momentum = 0.0;
    run.plan.mesh = Mesh{{{Axis::tensor, 2}}};
    run.plan.stage_layers = {1};
    run.plan.gradient_bucket = Bytes::of(1e6);
    run.plan.overlap_gradients = false;
    run.plan.attention = AttentionKernel::unfused;
    program = lower(run.model, run.workload, run.plan);
  }

  /// Stands for the weights after step `step`: numbers that no other step has.
  [[nodiscard]] std::unique_ptr<StateMemory> state(std::uint64_t step) const {
    auto memory = std::make_unique<StateMemory>(program, ranks);
    for (const Rank rank : ranks) {
      for (const HeldPart& held : held_parts(program, rank)) {
        const auto bytes = memory->find(rank, held.where);
        const std::uint64_t element = size_of(held.part.dtype);
        // Replicas have the same numbers, so it does not matter which of them writes.
        for_each_stretch(held.part.slice, [&](std::uint64_t global, std::uint64_t local, std::uint64_t n) {
          for (std::uint64_t i = 0; i < n; ++i) {
            bytes[(held.first + local + i) * element] = static_cast<std::byte>(global + i + 31 * step);
          }
        });
      }
    }
    return memory;
  }
  std::string save(FileSystem& disk, std::uint64_t step, const std::optional<std::string>& previous) const {
    return save_checkpoint(disk, "dir", program, *state(step), manifest_of(run, step), previous).name;
  }
  /// Whether the checkpoint holds everything that was saved after the step that it names.
  [[nodiscard]] bool holds_its_step(Checkpoint& checkpoint) const {
    const StateMemory loaded(program, ranks);
    restore(checkpoint, program, ranks, loaded);
    const auto saved = state(checkpoint.manifest.step);
    for (const Rank rank : ranks) {
      for (const HeldPart& held : held_parts(program, rank)) {
        const auto a = loaded.find(rank, held.where), b = saved->find(rank, held.where);
        if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) return false;
      }
    }
    return true;
  }
};

}  // namespace orrery::test
