#pragma once

#include <cstdint>
#include <optional>

#include "tests/support/plan_facts.hpp"

namespace orrery::test {

/// Limits of what random_run may draw, for up to 64 ranks. Unset choices are drawn over everything covered.
struct RandomRunLimits {
  std::uint32_t max_ranks = 16;
  std::optional<Precision> precision;
  std::optional<ScheduleName> schedule;
  std::optional<Recompute> recompute;
  std::optional<std::uint32_t> zero_stage;
  std::optional<TensorAlgorithm> tensor;  ///< all but 1D need 4 ranks, 2.5D needs 8
  bool dropout = true;                    ///< may have dropout
  bool placement = true;                  ///< may have a placement other than the identity
  bool mixture = true;                    ///< may have layers of experts
  std::optional<std::uint32_t> expert;    ///< ranks that share experts, beyond max_ranks. All plans then have some
                                          ///< (among `architectures` those with latent attention), and also recorded
                                          ///< routing, whose table is no file
  bool double_ring = false;               ///< has a double ring, where 4 ranks more fit
  bool five_axes = false;                 ///< pipeline, data, tensor and two of replica, context and expert, each cut;
                                          ///< needs 32 ranks
  bool plain = false;                     ///< GPipe or 1F1B, tensors in 1D, ZeRO 0 or 1, all on the device
  bool context = true;                    ///< may have a context axis
  bool cut_positions = false;             ///< has a context axis, where ranks and lengths allow it
  bool chunks = false;                    ///< ZeRO-3 has its parameters in chunks, where it may
  bool predictions = false;               ///< has prediction modules: 1D decoders, and no ZeRO-2, 3 or offloading
  bool adapters = false;                  ///< has adapters; check may still refuse the plan
  bool few_bits = false;                  ///< beside adapters, the layers' matrices are in few bits
  bool shared_kv_heads = false;           ///< tensor or Ulysses ranks share key-value heads, where they may
  bool architectures = false;             ///< BERT, vision transformers and latent attention only
};

/// A tiny model, workload and resolved plan that pass check(); no cluster.  The
/// same seed and limits give the same run on every machine.
///
/// Sizes: hidden 8..32, layers 1..6 (up to 10, where there are more stages), sequence 4..16,
/// microbatch 1..2 sequences, 1..6 microbatches, vocabulary not a multiple of the tensor size where that is above 1.
/// Covers: GPT and LLaMA families with and without grouped queries, tied and untied embeddings, every order of mesh
/// axes, uneven stages, every schedule with up to 3 chunks per rank, tensor parallelism in 1D, 2D and 2.5D (grids of 2
/// or 3), 3D, sequence parallelism, recomputation of all or some layers, ZeRO 0 to 3 with and
/// without replicas, offloaded optimizer states, parameters and activations, clipping, dropout, learning-rate
/// schedules, all precisions, all optimizers, SGD with and without momentum, moments in bf16, tiny to huge buckets,
/// overlap, the loss in 1 to 4 pieces, unfused and flash, a context axis with every algorithm, contiguous and zigzag,
/// one ring and two; mixtures of 2 to 8 experts with every gate and law of routing (learned in fp64 alone), shared
/// experts, dense layers below, an expert axis.
[[nodiscard]] PlannedRun random_run(std::uint64_t seed, const RandomRunLimits& limits = {});

}  // namespace orrery::test
