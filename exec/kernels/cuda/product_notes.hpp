#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace orrery::cuda {

/// Which matrix products cuBLASLt refused a device, for people. Streams of several threads may tell it side by side.
class ProductNotes {
 public:
  /// Our own kernel made a product, because of this.
  void own(const std::string& why) {
    const std::lock_guard lock(mutex_);
    own_.insert(why);
  }
  /// "some products by our own kernel: REASON"; in a fixed order.
  [[nodiscard]] std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const std::string& why : own_) all.push_back("some products by our own kernel: " + why);
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> own_;
};

}  // namespace orrery::cuda
