#pragma once

#include <cmath>

#include "core/spec/routing.hpp"
#include "exec/kernels/device/gates.hpp"
#include "exec/kernels/device/in_order.hpp"

/// Learned routing: the experts that a token's logits choose, and the places where its rows go.
namespace orrery::device {

/// The `choices` highest logits of a token, of equal ones the lower number. Where `groups` is not 0, of the best `open`
/// groups alone. A NaN counts as the lowest logit, so that every choice is an expert.
template <class T>
struct ChooseExperts {
  Elements logits, choice;
  std::uint64_t experts, choices;
  std::uint32_t groups, open;
  std::uint8_t worth;  ///< of a group: 0 its best logit; of its two best the sum of 1 exponentials, 2 sigmoids

  [[nodiscard]] static constexpr std::uint64_t shared_bytes(std::uint64_t groups) {
    return groups * (sizeof(T) + sizeof(std::uint32_t));
  }
  [[nodiscard]] ORRERY_ON_DEVICE T logit(std::uint64_t token, std::uint64_t expert) const {
    const T x = logits.load<T>(token * experts + expert);
    return x == x ? x : -std::numeric_limits<T>::infinity();
  }
  [[nodiscard]] ORRERY_ON_DEVICE T worth_of(T x, T most) const {
    return worth == 2 ? logistic(x) : worth == 1 ? std::exp(x - most) : x;
  }
  /// Whether (x, i) comes before (y, j) in the order of choices.
  [[nodiscard]] static ORRERY_ON_DEVICE bool before(T x, std::uint64_t i, T y, std::uint64_t j) {
    return x > y || (x == y && i < j);
  }
  template <class Block>
  ORRERY_KERNEL_BODY void open_groups(Block& b, std::uint64_t token, T* worths, std::uint32_t* opened) const {
    const std::uint64_t size = experts / groups;
    const T none = -std::numeric_limits<T>::infinity();
    T most = none;
    for (std::uint64_t e = b.thread(); e < experts; e += b.threads()) {
      const T x = logit(token, e);
      most = most < x ? x : most;
    }
    most = b.largest(most);
    for (std::uint32_t g = b.thread(); g < groups; g += b.threads()) {
      T first = none, second = none;
      for (std::uint64_t e = g * size; e < (g + 1) * size; ++e) {
        const T x = logit(token, e), lower = x < first ? x : first;
        second = second < lower ? lower : second;
        first = first < x ? x : first;
      }
      worths[g] = worth_of(first, most) + (worth > 0 && size > 1 ? worth_of(second, most) : T{0});
    }
    b.sync();
    for (std::uint32_t g = b.thread(); g < groups; g += b.threads()) {
      std::uint32_t better = 0;
      for (std::uint32_t h = 0; h < groups; ++h) better += before(worths[h], h, worths[g], g) ? 1 : 0;
      opened[g] = better < open ? 1 : 0;
    }
    b.sync();
  }
  template <class Block>
  ORRERY_KERNEL_BODY void operator()(Block& b, std::uint64_t token) const {
    auto* worths = b.template shared<T>();
    auto* opened = reinterpret_cast<std::uint32_t*>(worths + groups);
    if (groups > 0) open_groups(b, token, worths, opened);
    const std::uint64_t size = groups > 0 ? experts / groups : experts;
    T last = std::numeric_limits<T>::infinity();
    std::uint64_t last_expert = 0;  // before all, unless its logit is infinite
    for (std::uint64_t j = 0; j < choices; ++j) {
      // The best that comes after the last choice.
      T best = -std::numeric_limits<T>::infinity();
      std::uint64_t at = experts;
      for (std::uint64_t e = b.thread(); e < experts; e += b.threads()) {
        if (groups > 0 && opened[e / size] == 0) continue;
        const T x = logit(token, e);
        if (j > 0 && !before(last, last_expert, x, e)) continue;
        if (at == experts || before(x, e, best, at)) best = x, at = e;
      }
      last = b.largest(best);
      // Numbers below 2^24 are exact in every type.
      const T number = at < experts && best == last ? -static_cast<T>(at) : -static_cast<T>(experts);
      last_expert = static_cast<std::uint64_t>(-b.largest(number));
      if (b.thread() == 0) choice_at(token, j, last_expert);
    }
  }
  ORRERY_ON_DEVICE void choice_at(std::uint64_t token, std::uint64_t j, std::uint64_t expert) const {
    static_cast<std::int32_t*>(choice.data)[token * choices + j] = static_cast<std::int32_t>(expert);
  }
};

/// The choices of a rank's tokens, by routing groups. Sequences are innermost among rows.
struct GroupedChoices {
  const std::int32_t* choice;
  std::uint64_t experts, choices, sequences, positions;  ///< positions: of a group
  /// Place of choice i of a group, in order of positions.
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t place(std::uint64_t group, std::uint64_t i) const {
    const std::uint64_t position = group / sequences * positions + i / choices;
    return (position * sequences + group % sequences) * choices + i % choices;
  }
};

/// Says which choices of an expert in a group are kept: the first `capacity`. A row is (group, expert).
struct KeepFirst {
  GroupedChoices of;
  std::uint64_t capacity;
  std::uint8_t* kept;    ///< by choice
  std::int32_t* chosen;  ///< [groups, experts]
  [[nodiscard]] ORRERY_ON_DEVICE bool matches(std::uint64_t row, std::uint64_t i) const {
    return of.choice[of.place(row / of.experts, i)] == static_cast<std::int32_t>(row % of.experts);
  }
  ORRERY_ON_DEVICE void put(std::uint64_t row, std::uint32_t rank, std::uint64_t i) const {
    kept[of.place(row / of.experts, i)] = rank < capacity ? 1 : 0;
  }
  ORRERY_ON_DEVICE void total(std::uint64_t row, std::uint32_t n) const { chosen[row] = static_cast<std::int32_t>(n); }
};

/// Choices of an expert over all groups, as they are and as they are kept.
struct ExpertCounts {
  const std::int32_t* chosen;
  std::uint64_t experts, groups, capacity;
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t of(std::uint64_t expert, std::uint64_t most) const {
    std::uint64_t sum = 0;
    for (std::uint64_t g = 0; g < groups; ++g) {
      const auto n = static_cast<std::uint64_t>(chosen[g * experts + expert]);
      sum += n < most ? n : most;
    }
    return sum;
  }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t all(std::uint64_t expert) const { return of(expert, ~std::uint64_t{0}); }
  [[nodiscard]] ORRERY_ON_DEVICE std::uint64_t kept(std::uint64_t expert) const { return of(expert, capacity); }
};

/// Adds up what a run reports (KernelContext::routing_there).
struct CountRouting {
  ExpertCounts counts;
  std::uint64_t* sums;
  ORRERY_ON_DEVICE void operator()(std::uint64_t expert) const {
    sums[expert] += counts.all(expert);
    sums[counts.experts + expert] += counts.kept(expert);
  }
};

/// Where the rows of each expert begin: behind those of the experts of its part before it.
struct ExpertBegins {
  ExpertCounts counts;
  std::uint64_t local, part;  ///< experts and slots of a part
  std::uint32_t* begins;
  ORRERY_ON_DEVICE void operator()(std::uint64_t expert) const {
    std::uint64_t at = expert / local * part;
    for (std::uint64_t e = expert / local * local; e < expert; ++e) at += counts.kept(e);
    begins[expert] = static_cast<std::uint32_t>(at);
  }
};

struct EmptySlots {
  std::int32_t *slots, *numbers;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const { slots[i] = numbers[i] = -1; }
};

/// Gives each kept choice its slot: expert by expert, in the order of rows. A row is an expert.
struct PlaceChoices {
  const std::int32_t* choice;
  const std::uint8_t* kept;
  const std::uint32_t* begins;
  std::uint64_t local;
  std::int32_t *slots, *numbers;
  [[nodiscard]] ORRERY_ON_DEVICE bool matches(std::uint64_t expert, std::uint64_t i) const {
    return choice[i] == static_cast<std::int32_t>(expert) && kept[i] != 0;
  }
  ORRERY_ON_DEVICE void put(std::uint64_t expert, std::uint32_t rank, std::uint64_t i) const {
    const std::uint64_t slot = begins[expert] + rank;
    slots[slot] = static_cast<std::int32_t>(i);
    numbers[slot] = static_cast<std::int32_t>(expert % local);
  }
  ORRERY_ON_DEVICE void total(std::uint64_t, std::uint32_t) const {}
};

template <class Launcher>
void route_choices(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const auto experts = static_cast<std::uint32_t>(k.columns);
  const auto numbers_of = [&](N name) { return static_cast<std::int32_t*>(o[name].data); };
  const GroupedChoices of{numbers_of(N::choice), experts, k.batch, o[N::choice].place.box.extent[1],
                          routing_group(*c.workload)};
  const std::uint64_t groups = k.rows / of.positions, all = k.rows * k.batch;
  const std::uint64_t capacity = expert_capacity(*c.workload, experts, k.batch);
  auto* begins = static_cast<std::uint32_t*>(l.scratch((experts + groups * experts) * sizeof(std::uint32_t) + all));
  auto* counts = reinterpret_cast<std::int32_t*>(begins + experts);
  auto* kept = reinterpret_cast<std::uint8_t*>(counts + groups * experts);
  std::int32_t* chosen = k.options.loads ? numbers_of(N::loads) : counts;
  in_order(l, groups * experts, of.positions * k.batch, KeepFirst{of, capacity, kept, chosen});
  const ExpertCounts sums{chosen, experts, groups, capacity};
  const std::uint64_t local = experts / k.heads;
  for_each(l, experts, ExpertBegins{sums, local, k.depth / k.heads, begins});
  for_each(l, k.depth, EmptySlots{numbers_of(N::slots), numbers_of(N::experts)});
  in_order(l, experts, all, PlaceChoices{of.choice, kept, begins, local, numbers_of(N::slots), numbers_of(N::experts)});
  if (c.routing_there != nullptr) for_each(l, experts, CountRouting{sums, c.routing_there});
}

template <class T, class Launcher>
bool run_choices(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  switch (k.kind) {
    case KernelKind::choose_experts: {
      const ChooseExperts<T> f{
          Elements(o[N::logits]), Elements(o[N::choice]), k.columns, k.batch, k.kv_heads, k.head_dim, k.site};
      for_each_row(l, k.rows, f, gate_threads, f.shared_bytes(k.kv_heads));
      return true;
    }
    case KernelKind::route_choices: route_choices(l, k, o, c); return true;
    default: return false;
  }
}

}  // namespace orrery::device
