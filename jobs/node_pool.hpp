#pragma once

#include <cstdint>
#include <set>
#include <vector>

namespace orrery {

/// GPUs of one node that a job has.
struct NodeShare {
  std::uint32_t node = 0;
  std::uint32_t gpus = 0;
  friend bool operator==(const NodeShare&, const NodeShare&) = default;
};

/// Which free GPUs a job may get.
enum class PlaceRule : std::uint8_t {
  packed,       ///< as few nodes as are free for it now
  consolidated  ///< as few nodes as it needs on an empty cluster; else it waits
};

/// The free GPUs of each node.
///
/// A job gets the nodes with the most free GPUs while it needs more than one of them has, then the node with the fewest
/// that suffice (best fit); the node with the lowest number breaks ties. Taking the fullest first uses the fewest nodes
/// that can be had. A choice takes O(nodes of the job x log nodes).
class NodePool {
 public:
  /// Requires at least one node, each with at least one GPU.
  explicit NodePool(std::vector<std::uint32_t> gpus_of_nodes);

  [[nodiscard]] std::uint32_t nodes() const { return static_cast<std::uint32_t>(free_.size()); }
  [[nodiscard]] std::uint64_t gpus() const { return gpus_; }
  [[nodiscard]] std::uint64_t free_gpus() const { return free_gpus_; }
  [[nodiscard]] std::uint32_t free_on(std::uint32_t node) const { return free_[node]; }
  [[nodiscard]] std::uint32_t most_free() const { return most_free_; }  ///< on one node
  /// Nodes that this many GPUs take on an empty cluster. Requires `gpus` <= gpus().
  [[nodiscard]] std::uint32_t least_nodes(std::uint32_t gpus) const;
  /// Takes GPUs, and returns where; empty where the rule finds no place. Nothing is taken then.
  [[nodiscard]] std::vector<NodeShare> take(std::uint32_t gpus, PlaceRule);
  /// Takes these GPUs; false where they are not all free. Nothing is taken then.
  [[nodiscard]] bool take(const std::vector<NodeShare>&);
  /// Gives back what take() returned.
  void give_back(const std::vector<NodeShare>&);

 private:
  void set_free(std::uint32_t node, std::uint32_t free);

  std::vector<std::uint32_t> free_;
  std::vector<std::uint64_t> largest_sums_;         ///< GPUs of the k + 1 largest nodes
  std::vector<std::set<std::uint32_t>> with_free_;  ///< nodes by their free GPUs
  std::uint64_t gpus_ = 0, free_gpus_ = 0;
  std::uint32_t most_free_ = 0;  ///< no node has more
};

}  // namespace orrery
