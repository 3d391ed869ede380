#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "jobs/job_queue.hpp"

namespace orrery {

/// Jobs in the order in which they came, of which the first that runs no longer than a limit is found in O(log n). It
/// is a tree of the shortest runs.
class FirstShortJob {
 public:
  /// Adds a job behind the others. Requires a greater number than theirs.
  void push(JobNumber, Microseconds run);
  /// Puts in a job again that was taken out.
  void put_back(JobNumber, Microseconds run);
  /// Takes out a job that is there.
  void erase(JobNumber);
  /// The first whose run is at most `limit`.
  [[nodiscard]] std::optional<JobNumber> first(Microseconds limit) const;
  static constexpr Microseconds any = std::numeric_limits<Microseconds>::max() - 1;  ///< as limit: no limit
  [[nodiscard]] bool empty() const { return tree_.empty() || tree_[1] == none; }

 private:
  static constexpr Microseconds none = std::numeric_limits<Microseconds>::max();
  void set(std::size_t leaf, Microseconds run);

  std::vector<JobNumber> jobs_;
  std::vector<Microseconds> tree_;  ///< node i has the shorter of nodes 2 i and 2 i + 1; the second half are leaves
};

}  // namespace orrery
