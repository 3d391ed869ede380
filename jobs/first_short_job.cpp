#include "jobs/first_short_job.hpp"

#include <algorithm>

namespace orrery {

void FirstShortJob::set(std::size_t leaf, Microseconds run) {
  std::size_t i = tree_.size() / 2 + leaf;
  for (tree_[i] = run; i > 1;) {
    i /= 2;
    tree_[i] = std::min(tree_[2 * i], tree_[2 * i + 1]);
  }
}

void FirstShortJob::push(JobNumber j, Microseconds run) {
  ORRERY_ASSERT(jobs_.empty() || jobs_.back() < j, j);
  if (2 * jobs_.size() == tree_.size()) {
    const std::vector<Microseconds> old(tree_.begin() + static_cast<std::ptrdiff_t>(tree_.size() / 2), tree_.end());
    tree_.assign(std::max<std::size_t>(2, 2 * tree_.size()), none);
    for (std::size_t leaf = 0; leaf < old.size(); ++leaf) set(leaf, old[leaf]);
  }
  jobs_.push_back(j);
  set(jobs_.size() - 1, run);
}

void FirstShortJob::put_back(JobNumber j, Microseconds run) {
  const auto at = std::lower_bound(jobs_.begin(), jobs_.end(), j);
  ORRERY_ASSERT(at != jobs_.end() && *at == j, j);
  set(static_cast<std::size_t>(at - jobs_.begin()), run);
}

void FirstShortJob::erase(JobNumber j) {
  const auto at = std::lower_bound(jobs_.begin(), jobs_.end(), j);
  ORRERY_ASSERT(at != jobs_.end() && *at == j, j);
  set(static_cast<std::size_t>(at - jobs_.begin()), none);
}

std::optional<JobNumber> FirstShortJob::first(Microseconds limit) const {
  if (empty() || tree_[1] > limit) return std::nullopt;
  std::size_t i = 1;
  while (i < tree_.size() / 2) i = tree_[2 * i] <= limit ? 2 * i : 2 * i + 1;
  return jobs_[i - tree_.size() / 2];
}

}  // namespace orrery
