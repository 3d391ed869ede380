#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/cost/cost_model.hpp"

namespace orrery {

/// Future events, earliest first; among those of one instant, the one that was put in first. So the history of a
/// simulation depends on nothing but its input.
template <class Event>
class EventQueue {
 public:
  void push(Picoseconds at, Event event) {
    heap_.push_back({at, next_number_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const { return heap_.size(); }
  /// Requires a queue that is not empty.
  [[nodiscard]] Picoseconds next_time() const { return heap_.front().at; }
  /// Takes out the next event; requires a queue that is not empty.
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Event event = std::move(heap_.back().event);
    heap_.pop_back();
    return event;
  }

 private:
  struct Entry {
    Picoseconds at;
    std::uint64_t number;
    Event event;
  };
  static bool later(const Entry& a, const Entry& b) { return a.at != b.at ? a.at > b.at : a.number > b.number; }
  std::vector<Entry> heap_;
  std::uint64_t next_number_ = 0;
};

}  // namespace orrery
