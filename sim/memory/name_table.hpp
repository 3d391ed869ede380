#pragma once

#include <cstdint>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// Maps 64-bit names to numbers: a flat table, in which a look-up touches one or two neighbouring entries.
class NameTable {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// The number of the name; `none` where the table lacks it.
  [[nodiscard]] std::uint32_t find(std::uint64_t name) const { return entries_[place(name)].number; }
  /// Requires that the table does not have the name.
  void insert(std::uint64_t name, std::uint32_t number) {
    if (2 * ++count_ > entries_.size()) grow();
    Entry& e = entries_[place(name)];
    ORRERY_ASSERT(e.number == none, name);
    e = {name, number};
  }
  /// Removes the name and returns its number, or `none`.
  std::uint32_t take(std::uint64_t name) {
    std::size_t gap = place(name);
    const std::uint32_t out = entries_[gap].number;
    if (out == none) return none;
    --count_;
    // Entries that a full place had moved on come back, so that no search ends before it finds them.
    for (std::size_t i = next(gap); entries_[i].number != none; i = next(i)) {
      const std::size_t home = first(entries_[i].name);
      if (((i - home) & mask()) < ((i - gap) & mask())) continue;
      entries_[gap] = entries_[i];
      gap = i;
    }
    entries_[gap].number = none;
    return out;
  }
  void clear() {
    for (Entry& e : entries_) e.number = none;
    count_ = 0;
  }

 private:
  struct Entry {
    std::uint64_t name = 0;
    std::uint32_t number = none;
  };
  [[nodiscard]] std::size_t mask() const { return entries_.size() - 1; }
  [[nodiscard]] std::size_t next(std::size_t i) const { return (i + 1) & mask(); }
  /// Where a name lies unless others lie there. The factor is 2^64 divided by the golden ratio, which spreads near
  /// names; the highest bits of the product depend on the whole name.
  [[nodiscard]] std::size_t first(std::uint64_t name) const { return name * 0x9e3779b97f4a7c15ULL >> shift_; }
  [[nodiscard]] std::size_t place(std::uint64_t name) const {
    std::size_t i = first(name);
    while (entries_[i].number != none && entries_[i].name != name) i = next(i);
    return i;
  }
  void grow() {
    std::vector<Entry> old(2 * entries_.size());
    old.swap(entries_);
    --shift_;
    for (const Entry& e : old) {
      if (e.number != none) entries_[place(e.name)] = e;
    }
  }

  std::vector<Entry> entries_ = std::vector<Entry>(256);  ///< the size is a power of two, and at most half of the
                                                          ///< entries are in use
  unsigned shift_ = 64 - 8;                               ///< 64 less their number of bits
  std::size_t count_ = 0;
};

}  // namespace orrery
