#pragma once

#include <cstdint>
#include <string>

#include "core/spec/model_spec.hpp"
#include "core/spec/workload.hpp"

// How ranks share out the heads of attention. Query heads are cut into equal parts. Key-value heads are too, where
// there are enough of them; otherwise each rank takes a copy of the one that its query heads share.

namespace orrery {

/// Key-value heads that `ranks` ranks hold together, copies among them.
[[nodiscard]] std::uint64_t held_kv_heads(const ModelSpec&, std::uint64_t ranks);

/// Whether the heads can be shared out among so many ranks: `ranks` divides heads, and divides kv_heads or is a
/// multiple of them.
[[nodiscard]] bool shares_out_heads(const ModelSpec&, std::uint64_t ranks);

/// Why so many tensor ranks cannot have copies of key-value heads, as a sentence; empty where they can, or need none.
[[nodiscard]] std::string kv_copies_obstacle(const ModelSpec&, const Workload&, std::uint64_t ranks);

}  // namespace orrery
