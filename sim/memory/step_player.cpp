#include "sim/memory/step_player.hpp"

#include <algorithm>

namespace orrery {
namespace {

/// States of a step that are remembered take up to 32 MiB.
constexpr std::size_t most_words = 4U << 20U;

constexpr std::size_t at_start = ~std::size_t{0};  // of a step, before its first slot

/// Of the last words: what lies at the highest addresses came last, and tells most states apart.
std::uint64_t sign_of(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t looked_at = 64;
  std::uint64_t sign = count;
  for (std::size_t i = count - std::min(count, looked_at); i < count; ++i) sign = (sign ^ words[i]) * 0x9e3779b97f4a7c15ULL;
  return sign;
}

}  // namespace

bool StepPlayer::same(const MemoryStates& of_a, const State& a, const MemoryStates& of_b, const State& b) {
  return a.sign == b.sign && a.count == b.count &&
         std::equal(&of_a.words[a.first], &of_a.words[a.first] + a.count, &of_b.words[b.first]);
}

/// `moved`: by how many microbatches since the state that others are compared with.
bool StepPlayer::remember(std::size_t slot, std::uint64_t moved) {
  if (now_.words.size() > most_words) return false;
  State s{slot, 0, now_.words.size(), 0, player_.retries()};
  player_.write_state(moved, now_.words);
  memory_.write_state(now_.words);
  s.count = now_.words.size() - s.first;
  s.sign = sign_of(&now_.words[s.first], s.count);
  now_.list.push_back(s);
  const auto then = std::find_if(before_.list.begin(), before_.list.end(),
                                 [&](const State& b) { return b.slot == slot && same(before_, b, now_, s); });
  if (then == before_.list.end()) return false;
  player_.add_retries(before_.retries - then->retries);
  return true;
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
    if (remember(at, microbatches(periods))) return true;
    const State& here = now_.list.back();
    if (here.slot == at) {
      const auto then = std::find_if(now_.list.begin() + static_cast<std::ptrdiff_t>(states), now_.list.end() - 1,
                                     [&](const State& s) { return same(now_, s, now_, here); });
      if (then != now_.list.end() - 1) {
        const std::size_t again = at - then->slot, times = (cycle.last - at) / again;
        player_.add_retries(times * (here.retries - then->retries));
        player_.move_on(microbatches(times * again / cycle.period));
        at += times * again;
        return false;
      }
    }
    run(at, at + cycle.period);
  }
  return false;
}

/// The same.
bool StepPlayer::play_slots() {
  if (remember(at_start, 0)) return true;
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
