#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/base/units.hpp"
#include "core/record/calibration.hpp"
#include "core/spec/cluster_spec.hpp"
#include "core/spec/model_spec.hpp"
#include "serve/serving_plan.hpp"
#include "sim/cost/collective_cost.hpp"
#include "sim/cost/kernel_cost.hpp"

namespace orrery {

/// What one step of an engine computes for one attention group: a token for each of `sequences` that decode, and a
/// chunk of prompts. The other attention groups of the replica do as much.
struct StepShape {
  double sequences = 0.0;  ///< that decode
  double keys = 0.0;       ///< mean number of keys of one of them
  double chunk = 0.0;      ///< prompt tokens
  double before = 0.0;     ///< tokens of these prompts that earlier steps computed, as a mean over the chunk's
  double finished = 0.0;   ///< prompts that end with this chunk, and so need logits
  double prompts = 1.0;    ///< that share the chunk
  double each = 1.0;       ///< tokens that a decoding sequence computes: a draft and one more where they are verified
  friend bool operator==(const StepShape&, const StepShape&) = default;
};

/// The kinds of work of a step, apart as far as engines differ in them.
enum class StepPart : std::uint8_t { dense, expert, keys, prompt_attention, elementwise };
inline constexpr std::size_t step_part_count = 5;

/// One operation of a step, over all its layers: what its products take on the device at their efficiency, and what
/// its bytes take. An engine's factors are put on either (EngineCosts), and the larger counts.
struct ServingOp {
  StepPart part = StepPart::dense;
  const char* name = "";
  bool unpacked = false;  ///< its weights are widened before they are multiplied
  Seconds products;
  Seconds bytes;
};

/// A step on the busiest stage's device, before any engine's factors.
struct StepWork {
  std::vector<ServingOp> ops;
  double layers = 0.0, mixtures = 0.0;  ///< of the stage
  double collectives = 0.0;             ///< of the stage, inside a node: each has the engine's latency
  Seconds collective_bytes;             ///< what moving their bytes takes
  Seconds hop;                          ///< a message to the next stage
  std::uint32_t stages = 1;
  double sequences = 0.0;  ///< of an attention group, which has a scheduler of its own
};

/// Prices the operations of serving steps with sim/cost: products by KernelCost::gemm with the rows of the step's
/// tokens, attention over prompts by KernelCost::attention, bytes by memory_time, messages by CollectiveCost.
///
/// Products of few rows may be cut along their depth into 2, 4, 8 or 16 parts, of which the best is taken ("split-K":
/// NVIDIA, CUTLASS documentation, "Efficient GEMM"). Experts compute their own rows: of E experts on a rank group, each
/// token visits k, so that
///
///     E (1 - (1 - k / E)^T)  of them are read      T  tokens of the step over all attention groups
///
/// in the mean over routings where every expert is as likely (Feller, "An introduction to probability theory",
/// volume 1, IV.2, cells that balls occupy). Latent attention absorbs its wide products when it decodes: a query meets
/// the kv_rank + rope_dim features that are kept (DeepSeek-V2, 2024, section 2.1.2).
/// Leaves out: unequal loads of experts, dequantisation apart from bytes, the sampler.
class StepPricer {
 public:
  StepPricer(const ModelSpec&, const ServingPlan&, const ClusterSpec&, const Calibration&);
  [[nodiscard]] StepWork work(const StepShape&) const;

 private:
  [[nodiscard]] const KernelCost& costs(const ProductRate&) const;
  [[nodiscard]] Seconds product(const ProductRate&, double rows, double columns, double depth, double batch) const;
  [[nodiscard]] Seconds moved(double bytes) const;
  void matrix(std::vector<ServingOp>&, StepPart, const char* name, WeightFormat, double count, double rows,
              double columns, double depth) const;
  void experts(std::vector<ServingOp>&, double tokens) const;
  void attention(std::vector<ServingOp>&, const StepShape&) const;
  [[nodiscard]] Seconds prompt_attention(double keys, std::uint64_t window, bool chunked) const;
  void communication(StepWork&, double tokens) const;

  ModelSpec model_;
  ServingPlan plan_;
  DeviceSpec device_;
  KernelCost wide_;  ///< bf16 and fp8 as the device states them
  KernelCost four_;  ///< fp8's peak is that of four-bit floats
  CollectiveCost links_;
  GroupShape stage_;  ///< ranks that share one stage's layers
  GroupShape tensor_;
  std::size_t next_level_ = 0;  ///< of the link to the next stage
  double memory_efficiency_ = 1.0;
  double stage_share_ = 1.0;  ///< of all layers, that the largest stage has
};

}  // namespace orrery
