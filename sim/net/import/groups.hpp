#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace orrery::importing {

/// Sets that grow together.
class Groups {
 public:
  explicit Groups(std::size_t n) : of_(n) { std::iota(of_.begin(), of_.end(), std::size_t{0}); }
  [[nodiscard]] std::size_t of(std::size_t i) const {
    while (of_[i] != i) i = of_[i];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    const std::size_t x = of(a), y = of(b);
    of_[std::max(x, y)] = std::min(x, y);
  }

 private:
  std::vector<std::size_t> of_;
};

}  // namespace orrery::importing
