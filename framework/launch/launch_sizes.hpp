#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/launch/launch_reading.hpp"

namespace orrery {

/// The sizes that a launch file gives, from which the ranks and the batch follow. A size comes with the key of the file
/// that gives it; the key is taken when the size is put in place.
///
///     data = gpus / (tensor pipeline context replica expert)
///     batch = micro x accumulation x (gpus / (tensor pipeline context))
///
/// `expert` lies inside data parallelism: its ranks take other sequences. Those of other axes that hold other experts
/// are plan.expert_folding (expert_ranks).
struct LaunchSizes {
  struct Size {
    std::uint64_t value = 1;
    std::string from = {};  ///< key of the file; empty: nothing says it
  };
  Size tensor, pipeline, context, expert, replica;
  std::uint64_t expert_ranks = 1;    ///< with other experts, by whatever axes
  std::optional<Size> data;          ///< ranks that shard or copy; empty: what is left of the GPUs
  std::optional<Size> gpus;          ///< of the whole run
  std::optional<Size> micro;         ///< sequences in a microbatch
  std::optional<Size> accumulation;  ///< microbatches in a step
  std::optional<Size> batch;         ///< sequences in a step
  std::optional<Size> sequence;      ///< tokens
  /// Axes, outermost first.
  std::vector<std::string> order = {"pipeline", "replica", "data", "expert", "context", "tensor"};
};

/// How Megatron-LM and torchtitan lay out ranks with other experts: from the innermost axis up, tensor ranks where each
/// holds whole experts, then context ranks, then those that take other sequences.
struct ExpertRanks {
  std::uint64_t expert = 1;  ///< of those with other sequences
  ExpertFolding folding = ExpertFolding::none;
};
/// `tensor` is 1 where tensor ranks cut experts as they cut other layers. Empty where only a part of an axis would hold
/// other experts.
[[nodiscard]] std::optional<ExpertRanks> expert_ranks(std::uint64_t ranks, std::uint64_t tensor, std::uint64_t context);
/// Lays ranks out like this where a file has Megatron-LM's sizes: sizes.expert is their number, and `cut` how many
/// tensor ranks cut an expert, where the file says so.
void lay_out_experts(LaunchReading&, LaunchSizes&, const std::optional<LaunchSizes::Size>& cut);
/// The number of these ranks in a plan, of which such a layout is known; empty where it leaves out context ranks.
[[nodiscard]] std::optional<std::uint64_t> laid_out_expert_ranks(const Plan&);

/// The number of GPUs that a script tells its launcher. Of the launcher's other flags it says that they have no effect.
[[nodiscard]] std::optional<LaunchSizes::Size> launcher_gpus(LaunchReading&);

/// Puts sizes in place: [mesh], gpus, batch, sequence, microbatch_size.
///
/// GPUs come from --gpus, else from the file, else from its data-parallel size or its batch; else one node of 8, or as
/// many as the model-parallel sizes need, is assumed. Two of micro, accumulation and batch give the third; one alone is
/// taken with an accumulation of 1. What is missing is assumed and said: a microbatch of 1, a sequence of 4,096 or of
/// the model's positions where these are fewer. Sizes that contradict each other are errors at their keys.
void put_sizes(LaunchReading&, const LaunchSizes&);

}  // namespace orrery
