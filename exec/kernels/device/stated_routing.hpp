#pragma once

#include <algorithm>
#include <vector>

#include "exec/kernels/device/choices.hpp"
#include "exec/kernels/device/global_place.hpp"
#include "exec/kernels/gathered_routing.hpp"

/// Routing that the workload states: the host deals the loads out to experts, some numbers a layer, and the device
/// makes every token's choices of them.
namespace orrery::device {

/// The choices of a rank's tokens. Sequences are innermost among rows.
struct StateChoices {
  DealtChoices dealt;
  Positions positions;
  std::uint64_t sequences, first_sequence;
  std::uint32_t choices;
  std::int32_t* choice;
  std::uint8_t* kept;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t token = i / choices;
    const DealtChoices::Choice c = dealt(first_sequence + token % sequences, positions(token / sequences),
                                         static_cast<std::uint32_t>(i % choices));
    choice[i] = static_cast<std::int32_t>(c.expert);
    kept[i] = c.kept ? 1 : 0;
  }
};

/// Which local expert the rows are for that arrive: from each rank equally many, since all routing groups of a layer
/// have the same counts.
struct ArrivingExperts {
  std::int32_t* experts;
  const std::uint64_t* begin;  ///< [local + 1]: of the rows of one rank
  std::uint32_t local;
  std::uint64_t part;
  ORRERY_ON_DEVICE void operator()(std::uint64_t i) const {
    const std::uint64_t at = i % part;
    experts[i] = at < begin[local] ? static_cast<std::int32_t>(DealtChoices::holder(begin, local, at)) : -1;
  }
};

/// Gives a kept choice among gathered ones its slot, where its expert is one of this rank's. A row is a local expert.
struct PlaceGathered {
  PlaceChoices place;
  std::uint64_t first;  ///< of this rank's experts
  [[nodiscard]] ORRERY_ON_DEVICE bool matches(std::uint64_t expert, std::uint64_t i) const {
    return place.matches(first + expert, i);
  }
  ORRERY_ON_DEVICE void put(std::uint64_t expert, std::uint32_t rank, std::uint64_t i) const {
    place.put(first + expert, rank, i);
  }
  ORRERY_ON_DEVICE void total(std::uint64_t, std::uint32_t) const {}
};

/// Where the buffer of `place` begins on another rank.
[[nodiscard]] inline Place place_on(const Place& place, const KernelContext& c, Rank rank) {
  const std::uint64_t cuts = size(*c.mesh, place.shard->dims[1].split) * place.box.extent[1];
  Place there = place;
  there.box = box_of(*place.shard, *c.mesh, rank, c.microbatch, place.shard->dims[1].extent / cuts);
  return there;
}

template <class Launcher>
void route_tokens(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const Place& place = o[N::choice].place;
  ORRERY_ASSERT(place.shard != nullptr && c.mesh != nullptr && c.workload != nullptr);
  const auto experts = static_cast<std::uint32_t>(k.columns);
  const ExpertGroups of_experts = k.kv_heads > 0 ? ExpertGroups{k.kv_heads, k.head_dim} : ExpertGroups{};
  const LayerRouting routing(*c.workload, experts, k.batch, c.layer, of_experts);
  DealtChoices dealt = routing.dealt();
  const bool gathers = routes_gathered(k);  // rows are of all ranks' tokens, for this rank's experts
  const std::uint32_t sources = gathers ? k.heads : 1;
  const std::uint64_t groups = k.rows / dealt.group * sources, part = gathers ? k.depth : k.depth / k.heads;
  const std::uint64_t own = k.rows * k.batch, all = own * sources;
  const std::uint32_t local = experts / k.heads;
  const AxisList axes = routing_axes(k);
  const auto here = static_cast<std::uint32_t>(k.heads == 1 ? 0 : coordinate(*c.mesh, c.rank, axes));

  // What the host knows: the dealt order, where this rank's rows of each expert go, and where those of its own begin
  // among what arrives.
  std::vector<std::uint64_t> numbers(dealt.begin, dealt.begin + experts + 1);
  numbers.insert(numbers.end(), dealt.tokens_begin, dealt.tokens_begin + dealt.groups + 1);
  std::uint64_t at = 0;
  for (std::uint32_t e = here * local; e < (here + 1) * local; ++e) {
    numbers.push_back(at);
    at += groups * routing.kept(e);
  }
  numbers.push_back(at);
  std::vector<std::uint32_t> begins(experts);
  for (std::uint32_t e = 0; e < experts; ++e) {
    const std::uint64_t first = gathers ? 0 : e / local * part;
    begins[e] = static_cast<std::uint32_t>(e % local == 0 ? first : begins[e - 1] + groups * routing.kept(e - 1));
  }
  auto* there =
      static_cast<std::uint64_t*>(l.scratch(numbers.size() * sizeof(std::uint64_t) + experts * sizeof(std::uint32_t) +
                                            (gathers ? all * sizeof(std::int32_t) : 0) + all));
  auto* begins_there = reinterpret_cast<std::uint32_t*>(there + numbers.size());
  auto* chosen = reinterpret_cast<std::int32_t*>(begins_there + experts);  // of all sources, where several are
  auto* kept = reinterpret_cast<std::uint8_t*>(gathers ? chosen + all : chosen);
  put_numbers(l, numbers, there);
  put_numbers(l, begins, begins_there);
  dealt.begin = there;
  dealt.tokens_begin = there + experts + 1;

  const auto numbers_of = [&](N name) { return static_cast<std::int32_t*>(o[name].data); };
  std::int32_t *choice = numbers_of(N::choice), *slots = numbers_of(N::slots), *arriving = numbers_of(N::experts);
  const auto state = [&](const Place& where, std::int32_t* choices, std::uint8_t* keeps) {
    for_each(l, own,
             StateChoices{dealt, Positions(where), where.box.extent[1], where.box.offset[1], k.batch, choices, keeps});
  };
  for_each(l, k.depth, EmptySlots{slots, arriving});
  if (gathers) {
    for (std::uint32_t p = 0; p < sources; ++p) {
      state(place_on(place, c, moved(*c.mesh, c.rank, axes, p)), chosen + p * own, kept + p * own);
    }
    const std::uint64_t first = std::uint64_t{here} * local;
    in_order(l, local, all, PlaceGathered{{chosen, kept, begins_there, local, slots, nullptr}, first});
    state(place, choice, kept);  // its own once more, where they belong: `kept` is not read again
  } else {
    state(place, choice, kept);
    in_order(l, experts, all, PlaceChoices{choice, kept, begins_there, local, slots, nullptr});
  }
  for_each(l, k.depth, ArrivingExperts{arriving, dealt.tokens_begin + dealt.groups + 1, local, part});
}

template <class T, class Launcher>
bool run_stated_routing(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  if (k.kind != KernelKind::route_tokens) return false;
  route_tokens(l, k, o, c);
  return true;
}

}  // namespace orrery::device
