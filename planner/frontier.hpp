#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <queue>
#include <vector>

#include "planner/families.hpp"

namespace orrery {

/// Families by level, each with the least bound on top.
class Frontier {
 public:
  void push(const Family& f) { heap(f).push(f); }
  [[nodiscard]] const Family* candidate() const {
    const Family* best = nullptr;
    for (const auto& [kind, of] : candidates_) {
      if (!of.heap.empty() && (best == nullptr || later(*best, of.heap.top()))) best = &of.heap.top();
    }
    return best;
  }
  /// Of each kind's least the one that is expected to be best: estimates exceed the bounds of a kind by about as much.
  /// None where that is not below `worst`.
  [[nodiscard]] const Family* promising(const Rating& worst) const {
    const Family* best = nullptr;
    double least = static_cast<double>(worst.first);
    for (const auto& [kind, of] : candidates_) {
      if (of.heap.empty()) continue;
      const double expected = static_cast<double>(of.heap.top().bound.first) *
                              (of.known == 0 ? 1.0 : of.above / static_cast<double>(of.known));
      if (expected < least) least = expected, best = &of.heap.top();
    }
    return best;
  }
  /// What the estimate of a candidate said.
  void learn(const Family& candidate, const Rating& exact) {
    if (candidate.bound.first <= 0) return;
    Candidates& of = candidates_[candidate.kind];
    of.above += static_cast<double>(exact.first) / static_cast<double>(candidate.bound.first);
    ++of.known;
  }
  /// Of the families that can be looked into, the least.
  [[nodiscard]] const Family* least() const {
    const Family* best = nullptr;
    for (const auto level : inner) {
      const Family* f = top(level);
      if (f != nullptr && (best == nullptr || later(*best, *f))) best = f;
    }
    return best;
  }
  /// Of those of the lowest level, the least.
  [[nodiscard]] const Family* deepest() const {
    for (const auto level : inner) {
      if (const Family* f = top(level); f != nullptr) return f;
    }
    return nullptr;
  }
  Family take(const Family* f) {
    Family out = *f;
    heap(out).pop();
    return out;
  }
  /// Calls visit(family) for all that are left, and empties it.
  template <class Visit>
  void drain(Visit&& visit) {
    for (auto& h : heaps_) {
      for (; !h.empty(); h.pop()) visit(h.top());
    }
    for (auto& [kind, of] : candidates_) {
      for (; !of.heap.empty(); of.heap.pop()) visit(of.heap.top());
    }
  }
  [[nodiscard]] std::size_t candidates() const {
    std::size_t count = 0;
    for (const auto& [kind, of] : candidates_) count += of.heap.size();
    return count;
  }

 private:
  static constexpr Family::Level inner[] = {Family::Level::plan, Family::Level::schedule, Family::Level::mesh,
                                            Family::Level::blocks, Family::Level::shape};
  static bool later(const Family& a, const Family& b) {
    return a.bound != b.bound ? b.bound < a.bound : b.first < a.first;
  }
  struct Later {
    bool operator()(const Family& a, const Family& b) const { return later(a, b); }
  };
  using Heap = std::priority_queue<Family, std::vector<Family>, Later>;
  struct Candidates {
    Heap heap;
    double above = 0;  ///< sum of estimate / bound of those estimated
    std::uint64_t known = 0;
  };
  Heap& heap(const Family& f) {
    return f.level == Family::Level::candidate ? candidates_[f.kind].heap : heaps_[static_cast<std::size_t>(f.level)];
  }
  [[nodiscard]] const Family* top(Family::Level level) const {
    const Heap& h = heaps_[static_cast<std::size_t>(level)];
    return h.empty() ? nullptr : &h.top();
  }
  std::array<Heap, 5> heaps_;
  std::map<std::uint64_t, Candidates> candidates_;  ///< by kind
};

}  // namespace orrery
