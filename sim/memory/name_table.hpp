#pragma once

#include <cstdint>
#include <vector>

#include "core/base/diagnostics.hpp"

namespace orrery {

/// Numbers by 64-bit names: a flat table, in which a look-up touches one or two neighbouring entries.
class NameTable {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// The number under the name; `none` where there is none.
  [[nodiscard]] std::uint32_t find(std::uint64_t name) const { return entries_[place(name)].number; }
  /// Requires that nothing is known under the name.
  void insert(std::uint64_t name, std::uint32_t number) {
    if (2 * ++count_ > entries_.size()) grow();
    Entry& e = entries_[place(name)];
    ORRERY_ASSERT(e.number == none, name);
    e = {name, number};
  }
  /// Takes the name out; its number, or `none`.
  std::uint32_t take(std::uint64_t name) {
    std::size_t gap = place(name);
    const std::uint32_t out = entries_[gap].number;
    if (out == none) return none;
    --count_;
    // What a full place made move on comes back, so that no search ends before it.
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
  /// Where a name lies unless others do.  The factor is 2^64 divided by the golden ratio, which parts near names; the
  /// highest bits of the product depend on all of the name.
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

  std::vector<Entry> entries_ = std::vector<Entry>(256);  ///< a power of two, at most half of them in use
  unsigned shift_ = 64 - 8;                               ///< 64 less their number of bits
  std::size_t count_ = 0;
};

}  // namespace orrery
