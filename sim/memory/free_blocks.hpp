#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// Free blocks of one pool of the caching allocator, by size and then by address.
///
/// A sorted vector: a pool has few free blocks, and most changes make a block a little larger or smaller, so that it
/// stays near its place.
class FreeBlocks {
 public:
  struct Block {
    std::uint64_t size = 0, address = 0;
    std::uint32_t piece = 0;  ///< the allocator's number of it
    friend bool operator<(const Block& a, const Block& b) {
      return a.size != b.size ? a.size < b.size : a.address < b.address;
    }
  };

  /// The smallest block of at least `size`, of equal ones the one at the lowest address; null where there is none.
  [[nodiscard]] const Block* best(std::uint64_t size) const {
    const auto at = std::lower_bound(blocks_.begin(), blocks_.end(), Block{size, 0, 0});
    return at == blocks_.end() ? nullptr : &*at;
  }
  void insert(const Block& b) { blocks_.insert(std::lower_bound(blocks_.begin(), blocks_.end(), b), b); }
  void erase(const Block& b) { blocks_.erase(find(b)); }
  /// Erases one and inserts another.
  void replace(const Block& old, const Block& by) {
    auto at = find(old);
    if (old < by) {
      for (; at + 1 != blocks_.end() && at[1] < by; ++at) *at = at[1];
    } else {
      for (; at != blocks_.begin() && by < at[-1]; --at) *at = at[-1];
    }
    *at = by;
  }

 private:
  std::vector<Block>::iterator find(const Block& b) {
    const auto at = std::lower_bound(blocks_.begin(), blocks_.end(), b);
    ORRERY_ASSERT(at != blocks_.end() && at->address == b.address, b.size, b.address);
    return at;
  }
  std::vector<Block> blocks_;
};

}  // namespace orrery
