#pragma once

#include <cstdint>
#include <string>

#include "core/plan/plan.hpp"
#include "core/record/calibration.hpp"

namespace orrery::test {

/// A model, a workload and a cluster for which plans are searched.
struct LaunchCell {
  std::string text;  ///< one line that says all of it
  ModelSpec model;
  Workload workload;
  ClusterSpec cluster;
  Calibration calibration;
  bool judge_memory = true;
};

/// Most GPUs of a cell.
inline constexpr std::uint32_t most_gpus = 64;

/// The same seed gives the same cell on every machine. Covered: small models of the GPT and LLaMA families, mixtures,
/// latent attention, the kinds of layers of layer_kinds.hpp, torchtitan's own small models, and shipped ones; boxes of
/// A100, H100 and of GPUs on PCIe; 1 to `gpus` GPUs; batches, lengths, precisions, types of gradients and moments, and
/// optimizers. Shipped models have a name that the library knows.
[[nodiscard]] LaunchCell launch_cell(std::uint64_t seed, std::uint32_t gpus = most_gpus);

}  // namespace orrery::test
