#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/spec/workload.hpp"

/// Cells of a row's plan. Each is understood fully or not at all.
namespace orrery {

struct PrecisionCell {
  Precision precision = Precision::bf16;
  bool four_bits = false;  ///< nvfp4: products in four bits, priced as fp8 with costs of their own
  bool blocks = false;     ///< fp8 with scales for blocks (mx); otherwise for tensors or rows
};
/// Reads "bf16", "fp16 (amp)", "nvfp4", "fp8 (tensorwise, bf16 all-gather)"; all recipes of fp8 are one precision.
[[nodiscard]] std::optional<PrecisionCell> read_precision(std::string_view cell);

/// Sharding along the data axis.
struct ShardingCell {
  enum class Kind : std::uint8_t {
    unstated,  ///< as the framework does
    plain,     ///< data parallelism (DDP): as the framework does without sharding
    stage      ///< of ZeRO
  };
  Kind kind = Kind::unstated;
  std::uint32_t stage = 0;
  std::uint64_t group = 0;  ///< ranks that share the states; 0: all
};
/// Reads "distributed optimizer", "FSDP", "FSDP2 (ZeRO-3) degree 8", "2", "none".
[[nodiscard]] std::optional<ShardingCell> read_sharding(std::string_view cell);

enum class RecomputeCell : std::uint8_t {
  unstated,
  none,  ///< also MaxText's "minimal", which keeps the results of all products
  full,
  selective,  ///< Megatron-LM's word for the attention core
  attention,  ///< the attention core, said in words
  by_operation
};
/// Reads "full", "selective", "selective (attention core)", "selective (per-op SAC)".
[[nodiscard]] std::optional<RecomputeCell> read_recompute(std::string_view cell);

}  // namespace orrery
