#include "sim/memory/slot_cycles.hpp"

#include <algorithm>

namespace orrery {
namespace {

constexpr std::size_t least_periods = 3;
/// How often parts are halved to search for cycles around their middles.
constexpr int deepest = 6;

bool alike(const Slot& a, const Slot& b) {
  return a.block == b.block && a.layer == b.layer && a.repeat == b.repeat && a.layer_step == b.layer_step;
}

class Finder {
 public:
  explicit Finder(const std::vector<Slot>& slots) : slots_(slots), looks_(16 * slots.size()) {}

  void find(std::size_t begin, std::size_t end, int depth) {
    if (depth > deepest || end - begin < least_periods) return;
    const std::size_t middle = begin + (end - begin) / 2;
    SlotCycle best;
    // Goes from one slot that equals the middle one to the next, until half of the part is covered.
    for (std::size_t other = middle + 1; other < end && other - middle <= (end - begin) / least_periods; ++other) {
      if (looks_ == 0) break;
      --looks_;
      if (!alike(slots_[middle], slots_[other])) continue;
      const SlotCycle c = around(middle, other, begin, end);
      if (c.last - c.first < least_periods * c.period || c.last - c.first <= best.last - best.first) continue;
      best = c;
      if (2 * (best.last - best.first) >= end - begin) break;
    }
    const bool found = best.last > best.first;
    find(begin, found ? best.first : middle, depth + 1);
    if (found) cycles_.push_back(best);
    find(found ? best.last : middle, end, depth + 1);
  }

  std::vector<SlotCycle> cycles_;

 private:
  /// The cycle around `at`, as far as slots repeat themselves to both sides.
  SlotCycle around(std::size_t at, std::size_t other, std::size_t begin, std::size_t end) {
    const std::size_t period = other - at;
    const auto later = [&](std::size_t i) {
      return static_cast<std::int32_t>(slots_[i + period].microbatch - slots_[i].microbatch);
    };
    const std::int32_t shift = later(at);
    const auto repeats = [&](std::size_t i) {
      if (looks_ > 0) --looks_;
      return alike(slots_[i], slots_[i + period]) && later(i) == shift;
    };
    std::size_t first = at, last = at;
    while (first > begin && repeats(first - 1)) --first;
    while (last + period < end && repeats(last)) ++last;
    return {first, last + period, period, shift};
  }

  const std::vector<Slot>& slots_;
  std::size_t looks_;  ///< looks that are left, so that a list without cycles does not cost a look at all pairs
};

}  // namespace

std::vector<SlotCycle> slot_cycles(const std::vector<Slot>& slots) {
  Finder finder(slots);
  finder.find(0, slots.size(), 0);
  return std::move(finder.cycles_);
}

}  // namespace orrery
