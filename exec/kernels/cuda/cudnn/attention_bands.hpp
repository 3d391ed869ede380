#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "exec/kernels/kernel_runner.hpp"

/// Which of a rank's queries see which of the keys that were brought to it, as a library can be asked for it.
namespace orrery::cudnn {

/// Keys whose positions follow each other: where they lie, and where they stand once all keys are in order.
struct KeyRun {
  std::int64_t lies = 0, stands = 0, count = 0;
  friend bool operator==(const KeyRun&, const KeyRun&) = default;
};

/// Queries that lie side by side, and the keys [first_key, first_key + keys), in order, that they see. Where `causal`,
/// the last query sees the last of them, and each query before it one less than the next; else each sees to the end.
struct Band {
  std::int64_t first = 0, queries = 0;
  std::int64_t first_key = 0, keys = 0;
  bool causal = false;
  std::int64_t window = 0;  ///< most keys that a query of a causal band sees, the last of its own; 0: all
  friend bool operator==(const Band&, const Band&) = default;
};

/// Every query that sees a key is in one band, which has all its keys, so that softmax is of one call.
struct AttentionBands {
  std::vector<KeyRun> keys;  ///< in order
  std::vector<Band> bands;
  /// Whether keys lie in order.
  [[nodiscard]] bool in_order() const { return keys.size() == 1; }
};

/// The bands of a kernel attention_part_forward or attention_part_backward. Its queries are at `own`, and its keys have
/// come from `brought`. There are none where a window ends within keys that all its queries have behind them, or
/// sequences are cut into chunks.
[[nodiscard]] std::optional<AttentionBands> attention_bands(const Kernel&, const Place& own, const Place& brought);

}  // namespace orrery::cudnn
