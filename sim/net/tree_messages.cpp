#include <algorithm>

#include "core/base/diagnostics.hpp"
#include "sim/net/collective_traffic.hpp"
#include "sim/net/messages.hpp"

namespace orrery {
namespace {

/// Number of links between each member and the root.
std::vector<std::uint32_t> depths(const std::vector<std::uint32_t>& parent) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t v = 0; v < parent.size(); ++v) {
    out.push_back(0);
    for (std::uint32_t up = v; parent[up] != up; up = parent[up]) ++out.back();
  }
  return out;
}

std::uint32_t deepest(const TwoTrees& trees) {
  std::uint32_t most = 0;
  for (const auto& parent : {trees.first, trees.second}) {
    const std::vector<std::uint32_t> depth = depths(parent);
    most = std::max(most, *std::max_element(depth.begin(), depth.end()));
  }
  return most;
}

}  // namespace

std::uint32_t double_tree_depth(std::uint32_t p) { return deepest(two_trees(p)); }

Messages double_tree_all_reduce_messages(std::uint32_t p, Bytes payload, std::uint32_t pieces) {
  ORRERY_ASSERT(p >= 1 && pieces >= 1, p, pieces);
  const TwoTrees trees = two_trees(p);
  const std::uint32_t height = deepest(trees);
  Messages out;
  for (const auto& parent : {trees.first, trees.second}) {
    const std::vector<std::uint32_t> depth = depths(parent);
    for (std::uint32_t c = 0; c < pieces; ++c) {
      for (std::uint32_t v = 0; v < p; ++v) {
        if (parent[v] == v) continue;
        // Members of one depth send at once; the root has a piece when the highest of its subtrees has sent it.
        out.push_back({c + height - depth[v], v, parent[v], 0.5 * payload / pieces});
        out.push_back({c + height + depth[v] - 1, parent[v], v, 0.5 * payload / pieces});
      }
    }
  }
  return out;
}

Messages nvls_all_reduce_messages(std::uint32_t p, Bytes payload, std::uint32_t pieces) {
  ORRERY_ASSERT(p >= 1 && pieces >= 1, p, pieces);
  using Way = CollectiveMessage::Way;
  Messages out;
  const Bytes part = payload / pieces / p;
  for (std::uint32_t c = 0; c < pieces && p > 1; ++c) {
    for (std::uint32_t i = 0; i < p; ++i) {
      out.push_back({c, i, i, part, Way::nvls_sum, {0, p, 1}});
      out.push_back({c + 1, i, i, part, Way::nvls_copy, {0, p, 1}});
    }
  }
  return out;
}

Messages nvls_tree_all_reduce_messages(std::uint32_t p, std::uint32_t inner, Bytes payload, std::uint32_t pieces) {
  ORRERY_ASSERT(inner >= 2 && p % inner == 0 && pieces >= 1, p, inner, pieces);
  using Way = CollectiveMessage::Way;
  const std::uint32_t nodes = p / inner;
  const Messages between = double_tree_all_reduce_messages(nodes, payload / inner, pieces);
  const std::uint32_t height = nodes > 1 ? double_tree_depth(nodes) : 0;
  const Bytes part = payload / inner / pieces;
  Messages out;
  for (std::uint32_t i = 0; i < inner; ++i) {
    // A piece is added in its node a step before it goes up, and written a step after it has come down to the lowest.
    for (CollectiveMessage m : between) {
      out.push_back({m.step + 1, m.from * inner + i, m.to * inner + i, m.payload});
    }
    for (std::uint32_t c = 0; c < pieces; ++c) {
      for (std::uint32_t node = 0; node < nodes; ++node) {
        const std::uint32_t own = node * inner + i;
        const MemberRange all{node * inner, inner, 1};
        out.push_back({c, own, own, part, Way::nvls_sum, all});
        out.push_back({c + 2 * height + 1, own, own, part, Way::nvls_copy, all});
      }
    }
  }
  return out;
}

Messages hierarchical_all_to_all_messages(std::uint32_t p, std::uint32_t inner, Bytes payload) {
  ORRERY_ASSERT(inner >= 1 && p % inner == 0, p, inner);
  const std::uint32_t outer = p / inner;
  Messages out;
  for (std::uint32_t s = 1; s < inner; ++s) {
    for (std::uint32_t i = 0; i < p; ++i) {
      out.push_back({s - 1, i, i / inner * inner + (i + s) % inner, (1.0 * outer / p) * payload});
    }
  }
  for (std::uint32_t s = 1; s < outer; ++s) {
    for (std::uint32_t i = 0; i < p; ++i) {
      out.push_back({inner - 1 + s - 1, i, (i + s * inner) % p, (1.0 * inner / p) * payload});
    }
  }
  return out;
}

}  // namespace orrery
