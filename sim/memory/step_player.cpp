#include "sim/memory/step_player.hpp"

#include <algorithm>
#include <bit>

namespace orrery {
namespace {

/// Remembered states of a step take up to 32 MiB.
constexpr std::size_t most_words = 4U << 20U;

constexpr std::size_t at_start = ~std::size_t{0};  // of a step, before its first slot

/// Whether the state in which a period begins is kept: of the first 16 periods all, then eight in each doubling.
bool is_kept(std::size_t period) {
  const std::size_t apart = std::bit_floor(period) / 8;
  return apart <= 1 || period % apart == 0;
}

}  // namespace

bool StepPlayer::same(const MemoryStates& of_a, const State& a, const MemoryStates& of_b, const State& b) {
  return a.sign == b.sign && a.count == b.count &&
         std::equal(&of_a.words[a.first], &of_a.words[a.first] + a.count, &of_b.words[b.first]);
}

/// `moved` is the number of microbatches since the state that others are compared with. `first` is the index of the
/// first state of this step to compare with.
StepPlayer::Known StepPlayer::look(std::size_t slot, std::uint64_t moved, std::size_t first, bool keep) {
  Known out;
  State s{slot, player_.sign(moved), now_.words.size(), 0, player_.retries()};
  const auto begin = now_.list.begin() + static_cast<std::ptrdiff_t>(first);
  const bool known = std::any_of(begin, now_.list.end(), [&](const State& o) { return o.sign == s.sign; }) ||
                     std::any_of(before_.list.begin(), before_.list.end(),
                                 [&](const State& o) { return o.slot == slot && o.sign == s.sign; });
  if (!known && (!keep || now_.words.size() > most_words)) return out;
  player_.write_state(moved, now_.words);
  memory_.write_state(now_.words);
  s.count = now_.words.size() - s.first;
  const auto then = std::find_if(before_.list.begin(), before_.list.end(),
                                 [&](const State& o) { return o.slot == slot && same(before_, o, now_, s); });
  if (then != before_.list.end()) {
    out.as_before = true;
    player_.add_retries(before_.retries - then->retries);
    return out;
  }
  const auto earlier = std::find_if(begin, now_.list.end(), [&](const State& o) { return same(now_, o, now_, s); });
  if (earlier != now_.list.end()) out.then = *earlier;
  if (keep) {
    now_.list.push_back(s);
  } else {
    now_.words.resize(s.first);
  }
  return out;
}

void StepPlayer::run(std::size_t& at, std::size_t until) {
  for (; at < until; ++at) memory_.run(slots_[at], player_);
}

/// Whether the step ends as the one before.
bool StepPlayer::play_cycle(const SlotCycle& cycle, std::size_t& at) {
  const std::size_t states = now_.list.size();
  const auto microbatches = [&](std::size_t periods) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(periods) * cycle.shift);
  };
  for (std::size_t periods = 0; at + cycle.period <= cycle.last; ++periods) {
    const Known known = look(at, microbatches(periods), states, is_kept(periods));
    if (known.as_before) return true;
    if (known.then) {
      const std::size_t again = at - known.then->slot, times = (cycle.last - at) / again;
      player_.add_retries(times * (player_.retries() - known.then->retries));
      player_.move_on(microbatches(times * again / cycle.period));
      at += times * again;
      return false;
    }
    run(at, at + cycle.period);
  }
  return false;
}

/// Plays the whole step; returns the same.
bool StepPlayer::play_slots() {
  if (look(at_start, 0, 0, true).as_before) return true;
  memory_.begin(player_);
  std::size_t at = 0;
  for (const SlotCycle& cycle : cycles_) {
    run(at, cycle.first);
    if (play_cycle(cycle, at)) return true;
  }
  run(at, slots_.size());
  memory_.end(player_);
  return false;
}

void StepPlayer::play() {
  if (as_before_) return player_.add_retries(retries_);
  const std::uint64_t retries = player_.retries();
  now_.clear();
  as_before_ = play_slots();
  retries_ = player_.retries() - retries;
  now_.retries = player_.retries();
  std::swap(now_, before_);
}

}  // namespace orrery
