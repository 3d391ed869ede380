#include "core/spec/routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"

namespace orrery {
namespace {

/// Divides `total` into whole parts that follow the weights, none above `most`.
std::vector<std::uint64_t> apportion(const std::vector<double>& weights, std::uint64_t total, std::uint64_t most) {
  std::vector<std::uint64_t> parts(weights.size(), 0);
  std::vector<bool> full(weights.size(), false);
  // A part that would get more than `most` gets exactly that, and the rest is shared out anew.
  std::vector<double> quota(weights.size());
  std::uint64_t left = total;
  for (bool again = true; again;) {
    again = false;
    double sum = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) sum += full[i] ? 0.0 : weights[i];
    for (std::size_t i = 0; i < weights.size(); ++i) {
      quota[i] = sum > 0.0 ? static_cast<double>(left) * weights[i] / sum : 0.0;
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (full[i] || quota[i] < static_cast<double>(most)) continue;
      full[i] = again = true;
      parts[i] = std::min(most, left);
      left -= parts[i];
    }
  }
  std::vector<std::size_t> order;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (full[i]) continue;
    parts[i] = static_cast<std::uint64_t>(quota[i]);
    given += parts[i];
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return quota[a] - std::floor(quota[a]) > quota[b] - std::floor(quota[b]);
  });
  for (std::size_t i = 0; given < left; i = (i + 1) % order.size()) {
    if (parts[order[i]] >= most) continue;
    ++parts[order[i]];
    ++given;
  }
  return parts;
}

}  // namespace

std::uint64_t routing_group(const Workload& w) { return w.routing.group == 0 ? w.sequence_length : w.routing.group; }

std::uint64_t expert_capacity(const Workload& w, std::uint32_t experts, std::uint32_t per_token) {
  const std::uint64_t group = routing_group(w);
  if (!w.routing.capacity) return group;
  const auto choices = static_cast<double>(group * per_token);
  return std::min(group, static_cast<std::uint64_t>(std::ceil(*w.routing.capacity * choices / experts)));
}

std::uint64_t most_kept_of_any(const Workload& w, std::uint32_t experts, std::uint32_t per_token, std::uint32_t some) {
  return std::min(routing_group(w) * std::min(per_token, some), some * expert_capacity(w, experts, per_token));
}

ExpertGroups expert_groups(const Mixture& m) {
  // Where a token may visit all groups it may visit any expert.
  return m.groups_per_token < m.groups ? ExpertGroups{m.groups, m.groups_per_token} : ExpertGroups{};
}

LayerRouting::LayerRouting(const Workload& w, std::uint32_t experts, std::uint32_t per_token, std::uint32_t layer,
                           ExpertGroups groups)
    : group_(routing_group(w)),
      groups_of_sequence_(w.sequence_length / group_),
      seed_(w.seed),
      stream_(mix(stream_of("routing") ^ layer)),
      each_(per_token / groups.per_token),
      size_(experts / groups.count) {
  const Routing& r = w.routing;
  ORRERY_ASSERT(r.kind != Routing::Kind::learned && per_token <= experts, per_token, experts);
  ORRERY_ASSERT(each_ * groups.per_token == per_token && size_ * groups.count == experts, groups.count,
                groups.per_token);
  const std::uint64_t choices = group_ * per_token;
  std::vector<double> weights(experts, 1.0);
  std::vector<std::uint32_t> order(experts);  // of falling weight
  std::iota(order.begin(), order.end(), 0U);
  if (r.kind == Routing::Kind::recorded) {
    ORRERY_ASSERT(!r.loads.empty(), layer);
    weights = r.loads[std::min<std::size_t>(layer, r.loads.size() - 1)];
    ORRERY_ASSERT(weights.size() == experts, layer, r.loads.size(), experts);
  } else {
    std::vector<std::uint64_t> key(experts);
    for (std::uint32_t e = 0; e < experts; ++e) key[e] = random_bits(seed_, mix(stream_), e);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key[a] < key[b]; });
    const double exponent = r.kind == Routing::Kind::skewed ? r.exponent : 0.0;
    for (std::uint32_t i = 0; i < experts; ++i) weights[i] = std::pow(i + 1.0, -exponent);
  }
  std::vector<double> of_group(groups.count, 0.0);
  for (std::uint32_t i = 0; i < experts; ++i) of_group[order[i] / size_] += weights[i];
  const std::vector<std::uint64_t> tokens = apportion(of_group, group_ * groups.per_token, group_);
  tokens_begin_.assign(groups.count + 1, 0);
  std::partial_sum(tokens.begin(), tokens.end(), tokens_begin_.begin() + 1);
  begin_.assign(experts + 1, 0);
  for (std::uint32_t g = 0; g < groups.count; ++g) {
    std::vector<double> within;
    std::vector<std::uint32_t> members;
    for (std::uint32_t i = 0; i < experts; ++i) {
      if (order[i] / size_ != g) continue;
      within.push_back(weights[i]);
      members.push_back(order[i]);
    }
    const std::vector<std::uint64_t> parts = apportion(within, tokens[g] * each_, tokens[g]);
    for (std::size_t i = 0; i < members.size(); ++i) begin_[members[i] + 1] = parts[i];
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  ORRERY_ASSERT(begin_.back() == choices, begin_.back(), choices);
  capacity_ = expert_capacity(w, experts, per_token);
}

DealtChoices LayerRouting::dealt() const {
  return {group_,
          groups_of_sequence_,
          capacity_,
          seed_,
          stream_,
          each_,
          size_,
          static_cast<std::uint32_t>(begin_.size() - 1),
          static_cast<std::uint32_t>(tokens_begin_.size() - 1),
          begin_.data(),
          tokens_begin_.data()};
}

std::uint64_t LayerRouting::kept(std::uint32_t expert) const { return std::min(chosen(expert), capacity_); }

std::uint64_t LayerRouting::kept() const {
  std::uint64_t sum = 0;
  for (std::uint32_t e = 0; e + 1 < begin_.size(); ++e) sum += kept(e);
  return sum;
}

std::uint64_t LayerRouting::most_kept(std::uint32_t parts) const {
  const auto experts = static_cast<std::uint32_t>(begin_.size() - 1);
  std::uint64_t most = 0;
  for (std::uint32_t part = 0; part < parts; ++part) {
    std::uint64_t sum = 0;
    for (std::uint32_t e = part * (experts / parts); e < (part + 1) * (experts / parts); ++e) sum += kept(e);
    most = std::max(most, sum);
  }
  return most;
}

double auxiliary_weight(const Workload& w, std::uint32_t experts, std::uint32_t per_token, std::uint64_t chosen) {
  const double share = static_cast<double>(chosen) / static_cast<double>(routing_group(w) * per_token);
  const double tokens = static_cast<double>(w.global_batch) * static_cast<double>(w.sequence_length);
  return w.routing.auxiliary_loss * experts * share / tokens;
}

}  // namespace orrery
