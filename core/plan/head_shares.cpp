#include "core/plan/head_shares.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace orrery {

std::uint64_t held_kv_heads(const ModelSpec& m, std::uint64_t ranks) { return std::max(m.kv_heads, ranks); }

bool shares_out_heads(const ModelSpec& m, std::uint64_t ranks) {
  return m.heads % ranks == 0 && (m.kv_heads % ranks == 0 || ranks % m.kv_heads == 0);
}

std::string kv_copies_obstacle(const ModelSpec& m, const Workload& w, std::uint64_t ranks) {
  if (ranks <= m.kv_heads) return {};
  if (m.query_key_norm == QueryKeyNorm::whole) {
    return "Keys of all heads have one norm, and ranks do not share a part of its weights.";
  }
  using M = AdaptedMatrix;
  if (w.adapters && (w.adapters->has(M::q) || w.adapters->has(M::k) || w.adapters->has(M::v))) {
    return "Adapters of q, k and v are cut by heads, and the product that they adapt is not.";
  }
  // Each weight is held once, whatever head it belongs to.
  const std::uint64_t columns = (m.heads + 2 * m.kv_heads) * m.head_dim;
  if (columns % ranks == 0) return {};
  return fmt::format("Queries, keys and values have {} columns, and {} / {} leaves {}.", columns, columns, ranks,
                     columns % ranks);
}

}  // namespace orrery
