#include "jobs/node_pool.hpp"

#include <algorithm>

#include "core/base/diagnostics.hpp"

namespace orrery {

NodePool::NodePool(std::vector<std::uint32_t> gpus_of_nodes) : free_(std::move(gpus_of_nodes)) {
  ORRERY_ASSERT(!free_.empty());
  std::vector<std::uint32_t> sizes = free_;
  std::sort(sizes.rbegin(), sizes.rend());
  ORRERY_ASSERT(sizes.back() > 0);
  for (const std::uint32_t size : sizes) largest_sums_.push_back(gpus_ += size);
  free_gpus_ = gpus_;
  with_free_.resize(sizes.front() + std::size_t{1});
  for (std::uint32_t node = 0; node < free_.size(); ++node) with_free_[free_[node]].insert(node);
  most_free_ = sizes.front();
}

std::uint32_t NodePool::least_nodes(std::uint32_t gpus) const {
  ORRERY_ASSERT(gpus <= gpus_, gpus);
  const auto at = std::lower_bound(largest_sums_.begin(), largest_sums_.end(), gpus);
  return static_cast<std::uint32_t>(at - largest_sums_.begin()) + 1;
}

void NodePool::set_free(std::uint32_t node, std::uint32_t free) {
  with_free_[free_[node]].erase(node);
  free_gpus_ = free_gpus_ - free_[node] + free;
  free_[node] = free;
  with_free_[free].insert(node);
  most_free_ = std::max(most_free_, free);
  while (most_free_ > 0 && with_free_[most_free_].empty()) --most_free_;
}

std::vector<NodeShare> NodePool::take(std::uint32_t gpus, PlaceRule rule) {
  if (gpus > free_gpus_) return {};
  const std::size_t most = rule == PlaceRule::consolidated ? least_nodes(gpus) : nodes();
  std::vector<NodeShare> shares;
  for (std::uint32_t left = gpus; left > 0;) {
    if (shares.size() == most) {
      give_back(shares);
      return {};
    }
    std::uint32_t free = most_free_;
    if (left <= most_free_) {
      free = left;
      while (with_free_[free].empty()) ++free;
    }
    const std::uint32_t node = *with_free_[free].begin();
    const std::uint32_t taken = std::min(left, free);
    set_free(node, free - taken);
    shares.push_back({node, taken});
    left -= taken;
  }
  return shares;
}

bool NodePool::take(const std::vector<NodeShare>& shares) {
  const bool there = std::all_of(shares.begin(), shares.end(),
                                 [this](const NodeShare& share) { return free_[share.node] >= share.gpus; });
  for (const NodeShare& share : shares) {
    if (there) set_free(share.node, free_[share.node] - share.gpus);
  }
  return there;
}

void NodePool::give_back(const std::vector<NodeShare>& shares) {
  for (const NodeShare& share : shares) set_free(share.node, free_[share.node] + share.gpus);
}

}  // namespace orrery
