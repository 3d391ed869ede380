#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Times of numbered things, each at most once, with the earliest in front. A time can be moved or removed (a heap of
/// four branches that knows where each thing stands).
class Earliest {
 public:
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  /// Require a queue that is not empty.
  [[nodiscard]] Picoseconds time() const { return heap_.front().at; }
  [[nodiscard]] std::uint32_t front() const { return heap_.front().what; }

  void set(std::uint32_t what, Picoseconds at) {
    if (what >= place_.size()) place_.resize(std::size_t{what} + 1, nowhere);
    std::size_t i = place_[what];
    if (i == nowhere) {
      i = heap_.size();
      heap_.push_back({at, what});
      rise(i, {at, what});
      return;
    }
    const Picoseconds before = heap_[i].at;
    if (at < before) {
      rise(i, {at, what});
    } else if (at > before) {
      sink(i, {at, what});
    }
  }

  void remove(std::uint32_t what) {
    if (what >= place_.size() || place_[what] == nowhere) return;
    const std::size_t i = place_[what];
    place_[what] = nowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (i == heap_.size()) return;
    if (i > 0 && last.at < heap_[(i - 1) / 4].at) {
      rise(i, last);
    } else {
      sink(i, last);
    }
  }

 private:
  struct Entry {
    Picoseconds at;
    std::uint32_t what;
  };
  static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

  void put(std::size_t i, Entry e) {
    heap_[i] = e;
    place_[e.what] = static_cast<std::uint32_t>(i);
  }
  void rise(std::size_t i, Entry e) {
    while (i > 0) {
      const std::size_t parent = (i - 1) / 4;
      if (heap_[parent].at <= e.at) break;
      put(i, heap_[parent]);
      i = parent;
    }
    put(i, e);
  }
  void sink(std::size_t i, Entry e) {
    const std::size_t count = heap_.size();
    for (;;) {
      const std::size_t first = 4 * i + 1;
      if (first >= count) break;
      std::size_t least = first;
      if (first + 4 <= count) {
        // Finds the least of four without a branch, because no guess which it is would be right.
        const std::size_t one = first + (heap_[first + 1].at < heap_[first].at ? 1 : 0);
        const std::size_t two = first + 2 + (heap_[first + 3].at < heap_[first + 2].at ? 1 : 0);
        least = one + (two - one) * (heap_[two].at < heap_[one].at ? 1 : 0);
      } else {
        for (std::size_t k = first + 1; k < count; ++k) {
          if (heap_[k].at < heap_[least].at) least = k;
        }
      }
      if (heap_[least].at >= e.at) break;
      put(i, heap_[least]);
      i = least;
    }
    put(i, e);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> place_;
};

}  // namespace orrery
