#pragma once

#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace orrery::cudnn {

/// Whose attention a device ran, for people. Streams of several threads may tell it side by side.
class AttentionNotes {
 public:
  /// cuDNN of this version took some attention.
  void cudnn(const std::string& version) { add(taken_, version); }
  /// Our own kernel took some, because of this.
  void own(const std::string& why) { add(own_, why); }
  /// "attention by cuDNN 9.19.0", "attention by our own kernel: REASON"; in a fixed order.
  [[nodiscard]] std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const std::string& version : taken_) all.push_back("attention by cuDNN " + version);
    for (const std::string& why : own_) {
      all.push_back((taken_.empty() ? "attention by our own kernel: " : "some attention by our own kernel: ") + why);
    }
    return all;
  }

 private:
  void add(std::set<std::string>& to, const std::string& what) {
    const std::lock_guard lock(mutex_);
    to.insert(what);
  }
  mutable std::mutex mutex_;
  std::set<std::string> taken_, own_;
};

}  // namespace orrery::cudnn
