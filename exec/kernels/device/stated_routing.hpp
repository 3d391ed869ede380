#pragma once

#include <algorithm>
#include <vector>

#include "exec/kernels/device/choices.hpp"
#include "exec/kernels/device/global_place.hpp"

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

template <class Launcher>
void route_tokens(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  const Place& place = o[N::choice].place;
  ORRERY_ASSERT(place.shard != nullptr && c.mesh != nullptr && c.workload != nullptr);
  const auto experts = static_cast<std::uint32_t>(k.columns);
  const ExpertGroups of_experts = k.kv_heads > 0 ? ExpertGroups{k.kv_heads, k.head_dim} : ExpertGroups{};
  const LayerRouting routing(*c.workload, experts, k.batch, c.layer, of_experts);
  DealtChoices dealt = routing.dealt();
  const std::uint64_t groups = k.rows / dealt.group, part = k.depth / k.heads, all = k.rows * k.batch;
  const std::uint32_t local = experts / k.heads;
  AxisList axes{Axis::expert};
  if ((k.site & 1U) != 0) axes.axis[axes.count++] = Axis::context;
  if ((k.site & 2U) != 0) axes.axis[axes.count++] = Axis::tensor;
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
    begins[e] =
        static_cast<std::uint32_t>(e % local == 0 ? e / local * part : begins[e - 1] + groups * routing.kept(e - 1));
  }
  auto* there = static_cast<std::uint64_t*>(
      l.scratch(numbers.size() * sizeof(std::uint64_t) + experts * sizeof(std::uint32_t) + all));
  auto* begins_there = reinterpret_cast<std::uint32_t*>(there + numbers.size());
  auto* kept = reinterpret_cast<std::uint8_t*>(begins_there + experts);
  put_numbers(l, numbers, there);
  put_numbers(l, begins, begins_there);
  dealt.begin = there;
  dealt.tokens_begin = there + experts + 1;

  const auto numbers_of = [&](N name) { return static_cast<std::int32_t*>(o[name].data); };
  std::int32_t *choice = numbers_of(N::choice), *slots = numbers_of(N::slots), *arriving = numbers_of(N::experts);
  for_each(l, all,
           StateChoices{dealt, Positions(place), place.box.extent[1], place.box.offset[1], k.batch, choice, kept});
  for_each(l, k.depth, EmptySlots{slots, arriving});
  in_order(l, experts, all, PlaceChoices{choice, kept, begins_there, local, slots, nullptr});
  for_each(l, k.depth, ArrivingExperts{arriving, dealt.tokens_begin + dealt.groups + 1, local, part});
}

template <class T, class Launcher>
bool run_stated_routing(Launcher& l, const Kernel& k, const NamedOperands& o, const KernelContext& c) {
  if (k.kind != KernelKind::route_tokens) return false;
  route_tokens(l, k, o, c);
  return true;
}

}  // namespace orrery::device
