#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// Free blocks of one pool of the caching allocator, by size and then by address.
///
/// The blocks are in sorted arrays: a pool has few free blocks, and most changes make a block a little larger or
/// smaller, so that it stays near its place. Sizes have an array of their own, because look-ups read little else.
class FreeBlocks {
 public:
  struct Block {
    std::uint64_t size = 0, address = 0;
    std::uint32_t piece = 0;  ///< the allocator's number of it
    friend bool operator<(const Block& a, const Block& b) {
      return a.size != b.size ? a.size < b.size : a.address < b.address;
    }
  };

  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// The piece of the smallest block of at least `size`; among equal ones the one at the lowest address; `none` where
  /// there is none.
  [[nodiscard]] std::uint32_t best(std::uint64_t size) const {
    const std::size_t at = first_of(size);
    return at == sizes_.size() ? none : places_[at].piece;
  }
  void insert(const Block& b) {
    sizes_.push_back(b.size);
    places_.push_back({});
    move(sizes_.size() - 1, b);
  }
  void erase(const Block& b) {
    const auto at = static_cast<std::ptrdiff_t>(find(b));
    sizes_.erase(sizes_.begin() + at);
    places_.erase(places_.begin() + at);
  }
  /// Erases one and inserts another.
  void replace(const Block& old, const Block& by) { move(find(old), by); }

 private:
  struct Place {
    std::uint64_t address = 0;
    std::uint32_t piece = 0;
  };
  /// Puts `b` where it belongs, in place of the block at `at`.
  void move(std::size_t at, const Block& b) {
    const auto before = [&](std::size_t i) {
      return sizes_[i] != b.size ? sizes_[i] < b.size : places_[i].address < b.address;
    };
    for (; at > 0 && !before(at - 1); --at) copy(at - 1, at);
    for (; at + 1 < sizes_.size() && before(at + 1); ++at) copy(at + 1, at);
    sizes_[at] = b.size;
    places_[at] = {b.address, b.piece};
  }
  void copy(std::size_t from, std::size_t to) {
    sizes_[to] = sizes_[from];
    places_[to] = places_[from];
  }
  /// The place of the first block of at least `size`. It halves without branches, which nothing could predict.
  [[nodiscard]] std::size_t first_of(std::uint64_t size) const {
    const std::uint64_t* at = sizes_.data();
    for (std::size_t count = sizes_.size(); count > 0;) {
      const std::size_t half = count - count / 2;
      at = at[half - 1] < size ? at + half : at;
      count /= 2;
    }
    return static_cast<std::size_t>(at - sizes_.data());
  }
  [[nodiscard]] std::size_t find(const Block& b) const {
    std::size_t at = first_of(b.size);
    while (at < sizes_.size() && places_[at].address != b.address) ++at;
    ORRERY_ASSERT(at < sizes_.size(), b.size, b.address);
    return at;
  }

  std::vector<std::uint64_t> sizes_;
  std::vector<Place> places_;
};

}  // namespace orrery
