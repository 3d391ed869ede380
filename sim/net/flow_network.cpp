#include "sim/net/flow_network.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
// Levels that differ by less than rounding do not count as changed, so that settling ends.
constexpr double rounding = 1e-12;

// The stored sum of a link's rates may be off by rounding; this close to full it is added up anew.
constexpr double not_full = 1.0 - 1e-9;

// Two numbers side by side, as every processor of 64 bits has them.
using Pair = double __attribute__((vector_size(16)));
using Counts = std::int64_t __attribute__((vector_size(16)));

Pair load(const double* from) { return Pair{from[0], from[1]}; }
/// Zero where the mask is.
Pair only(Counts mask, Pair x) { return std::bit_cast<Pair>(std::bit_cast<Counts>(x) & mask); }
double only(bool keep, double x) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & (std::uint64_t{0} - std::uint64_t{keep}));
}

bool differ(double a, double b) { return a != b && !(std::abs(a - b) <= rounding * std::min(a, b)); }

}  // namespace

FlowNetwork::FlowNetwork(std::uint32_t links, std::function<Bandwidth(LinkId)> capacity)
    : capacity_(std::move(capacity)),
      slot_(links, none),
      links_(1),
      level_(1, infinity),
      spare_(1, infinity),
      is_dirty_(1, 0) {}

std::uint32_t FlowNetwork::link_of(LinkId id) {
  ORRERY_ASSERT(index(id) < slot_.size(), index(id), slot_.size());
  std::uint32_t& slot = slot_[index(id)];
  if (slot == none) {
    slot = static_cast<std::uint32_t>(links_.size());
    links_.emplace_back();
    links_.back().capacity = 1e-12 * capacity_(id).base();
    ORRERY_ASSERT(links_.back().capacity > 0.0, index(id), links_.back().capacity);
    level_.push_back(links_.back().capacity);
    spare_.push_back(0.0);
    is_dirty_.push_back(0);
  }
  return slot;
}

/// A flow with room for so many hops, in the place of an ended one where there is one.
std::uint32_t FlowNetwork::new_flow(std::uint32_t hops) {
  std::uint32_t f = 0;
  if (free_.empty()) {
    f = static_cast<std::uint32_t>(flow_.size());
    flow_.emplace_back();
    course_.emplace_back();
    rate_.push_back(0.0);
  } else {
    f = free_.back();
    free_.pop_back();
  }
  if (flow_[f].room < hops) {
    flow_[f].room = std::max(std::bit_ceil(hops), 4U);
    course_[f].first_hop = static_cast<std::uint32_t>(hops_.size());
    hops_.resize(hops_.size() + flow_[f].room);
    hop_link_.resize(hops_.size(), 0);
  }
  course_[f].hops = hops;
  return f;
}

void FlowNetwork::start(Picoseconds now, std::span<const LinkId> route, Picoseconds latency, Bytes payload,
                        std::uint32_t number) {
  start(now, route, {}, Bandwidth::of(infinity), latency, payload, number);
}

void FlowNetwork::start(Picoseconds now, std::span<const LinkId> route, std::span<const double> weights, Bandwidth most,
                        Picoseconds latency, Bytes payload, std::uint32_t number) {
  ORRERY_ASSERT(now >= now_ && latency >= 0 && payload.base() >= 0.0, now, now_, latency, payload.base());
  ORRERY_ASSERT(most.base() > 0.0 && (weights.empty() || weights.size() == route.size()), most.base(), weights.size());
  const std::uint32_t f = new_flow(static_cast<std::uint32_t>(route.size()));
  Flow& flow = flow_[f];
  course_[f].weighted = !weights.empty();
  std::uint32_t h = course_[f].first_hop;
  for (std::size_t i = 0; i < route.size(); ++i, ++h) {
    hop_link_[h] = link_of(route[i]);
    hops_[h].weight = weights.empty() ? 1.0 : weights[i];
  }
  while (h % 4 != 0) hop_link_[h++] = 0;
  flow.most = 1e-12 * most.base();
  flow.left = flow.payload = payload.base();
  flow.order = orders_++;
  flow.number = number;
  ++flows_;
  const Waiting w{now + latency, flow.order, f};
  // Most messages of a step have one latency, so they arrive in the order in which they leave.
  if (in_order_first_ == in_order_.size() || in_order_.back().at <= w.at) {
    // Flows that have begun are dropped now and then, so that the waiting ones stay in the cache.
    if (in_order_first_ == in_order_.size() || (in_order_first_ > 1000 && in_order_first_ > in_order_.size() / 2)) {
      in_order_.erase(in_order_.begin(), in_order_.begin() + static_cast<std::ptrdiff_t>(in_order_first_));
      in_order_first_ = 0;
    }
    in_order_.push_back(w);
  } else {
    heap_.push_back(w);
    std::push_heap(heap_.begin(), heap_.end(), [](const Waiting& a, const Waiting& b) { return a.at > b.at; });
  }
}

Picoseconds FlowNetwork::next_entry() const {
  Picoseconds at = std::numeric_limits<Picoseconds>::max();
  if (in_order_first_ < in_order_.size()) at = in_order_[in_order_first_].at;
  if (!heap_.empty()) at = std::min(at, heap_.front().at);
  return at;
}

Picoseconds FlowNetwork::next_event() {
  ORRERY_ASSERT(flows_ > 0, flows_);
  settle();
  Picoseconds at = next_entry();
  if (!link_ends_.empty()) at = std::min(at, link_ends_.time());
  if (!flow_ends_.empty()) at = std::min(at, flow_ends_.time());
  return at;
}

void FlowNetwork::advance(std::vector<std::uint32_t>& ended) {
  const Picoseconds at = next_event();
  ORRERY_ASSERT(at >= now_, at, now_);
  now_ = at;
  ending_.clear();
  while (!link_ends_.empty() && link_ends_.time() == at) {
    const std::uint32_t link = link_ends_.front();
    link_ends_.remove(link);
    for (const Member& m : links_[link].members) {
      if (course_[m.flow].binder == link && end_on(link, flow_[m.flow].left) <= at) ending_.push_back(m.flow);
    }
  }
  while (!flow_ends_.empty() && flow_ends_.time() == at) {
    ending_.push_back(flow_ends_.front());
    flow_ends_.remove(flow_ends_.front());
  }
  for (const std::uint32_t f : ending_) leave(f);
  while (in_order_first_ < in_order_.size() && in_order_[in_order_first_].at == at) {
    enter(in_order_[in_order_first_++].flow);
  }
  while (!heap_.empty() && heap_.front().at == at) {
    enter(heap_.front().flow);
    std::pop_heap(heap_.begin(), heap_.end(), [](const Waiting& a, const Waiting& b) { return a.at > b.at; });
    heap_.pop_back();
  }
  if (ending_.size() > 1) {
    std::sort(ending_.begin(), ending_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return flow_[a].order < flow_[b].order; });
  }
  for (const std::uint32_t f : ending_) {
    ended.push_back(flow_[f].number);
    free_.push_back(f);
  }
  flows_ -= static_cast<std::uint32_t>(ending_.size());
}

/// The rate that the flow's links let it have.
inline double FlowNetwork::least_on(std::uint32_t f) const {
  const Course& course = course_[f];
  double least = course.alone;
  // Reads four at a time without asking which: behind the shared hops stand the flow's other hops, and then the first
  // link.
  for (const std::uint32_t *hop = &hop_link_[course.first_hop], *end = hop + course.shared; hop < end; hop += 4) {
    const double a = std::min(level_[hop[0]], level_[hop[1]]), b = std::min(level_[hop[2]], level_[hop[3]]);
    least = std::min(least, std::min(a, b));
  }
  return least;
}

/// The flow's first byte has arrived: from now on it takes part in its links.
void FlowNetwork::enter(std::uint32_t f) {
  Flow& flow = flow_[f];
  Course& course = course_[f];
  flow.since = now_;
  flow.rate = 0.0;
  course.binder = none;
  if (flow.left == 0.0 || (course.hops == 0 && flow.most == infinity)) {
    course.hops = 0;
    ending_.push_back(f);
    return;
  }
  course.shared = 0;
  course.alone = flow.most;
  for (std::uint32_t h = course.first_hop; h < course.first_hop + course.hops; ++h) {
    const std::uint32_t l = hop_link_[h];
    std::vector<Member>& members = links_[l].members;
    hops_[h].position = static_cast<std::uint32_t>(members.size());
    members.push_back({f, h});
    links_[l].weighted += hops_[h].weight == 1.0 ? 0 : 1;
    if (members.size() == 1) {
      level_[l] = alone_on(h);
      spare_[l] = infinity;
      course.alone = std::min(course.alone, level_[l]);
      continue;
    }
    if (members.size() == 2) set_shared(members.front(), true);
    set_shared({f, h}, true);
    mark(l);
  }
  rate_[f] = least_on(f);
  unsure_.push_back(f);
}

/// A hop of a flow becomes shared, or the flow's alone.
void FlowNetwork::set_shared(Member m, bool shared) {
  Course& course = course_[m.flow];
  if ((m.hop < course.first_hop + course.shared) == shared) return;
  const std::uint32_t border = course.first_hop + (shared ? course.shared++ : --course.shared);
  if (border != m.hop) {
    std::swap(hops_[m.hop], hops_[border]);
    std::swap(hop_link_[m.hop], hop_link_[border]);
    links_[hop_link_[border]].members[hops_[border].position].hop = border;
    links_[hop_link_[m.hop]].members[hops_[m.hop].position].hop = m.hop;
  }
  course.alone = flow_[m.flow].most;
  for (std::uint32_t h = course.first_hop + course.shared; h < course.first_hop + course.hops; ++h) {
    course.alone = std::min(course.alone, alone_on(h));
  }
  rate_[m.flow] = least_on(m.flow);
  unsure_.push_back(m.flow);
}

/// The flow's last byte has arrived.
void FlowNetwork::leave(std::uint32_t f) {
  Course& course = course_[f];
  if (course.binder != none) {
    --links_[course.binder].bound;
    rebind(course.binder);
    course.binder = none;
  }
  for (std::uint32_t h = course.first_hop; h < course.first_hop + course.hops; ++h) {
    const std::uint32_t l = hop_link_[h];
    SharedLink& link = links_[l];
    link.carried += hops_[h].weight * flow_[f].payload;
    link.weighted -= hops_[h].weight == 1.0 ? 0 : 1;
    const Member last = link.members.back();
    link.members[hops_[h].position] = last;
    hops_[last.hop].position = hops_[h].position;
    link.members.pop_back();
    if (link.members.empty()) {
      level_[l] = link.capacity;
    } else {
      mark(l);
    }
  }
}

void FlowNetwork::mark(std::uint32_t link) {
  if (is_dirty_[link] != 0) return;
  is_dirty_[link] = 1;
  spare_[link] = infinity;
  dirty_.emplace_back(level_[link], link);
  std::push_heap(dirty_.begin(), dirty_.end(), std::greater<>());
}

void FlowNetwork::touch(std::uint32_t link) {
  if (links_[link].touched) return;
  links_[link].touched = true;
  touched_.push_back(link);
}

/// Notes that the set of flows which the link holds back has changed.
void FlowNetwork::rebind(std::uint32_t link) {
  links_[link].rebound = true;
  touch(link);
}

/// Brings up to now what the link has given to each flow that it holds back.  To be called before its level changes.
void FlowNetwork::give(std::uint32_t l) {
  SharedLink& link = links_[l];
  if (link.since == now_) return;
  if (link.bound > 0) link.given += level_[l] * static_cast<double>(now_ - link.since);
  link.since = now_;
}

/// When a flow that the link holds back ends.
Picoseconds FlowNetwork::end_on(std::uint32_t l, double left) const {
  const SharedLink& link = links_[l];
  return link.since + static_cast<Picoseconds>(std::max(0.0, left - link.given) / level_[l] + 0.5);
}

/// Brings levels, rates and ends up to date with the flows of now.
void FlowNetwork::settle() {
  while (!dirty_.empty()) {
    const std::uint32_t link = dirty_.front().second;
    std::pop_heap(dirty_.begin(), dirty_.end(), std::greater<>());
    dirty_.pop_back();
    is_dirty_[link] = 0;
    update_level(link);
  }
  for (const std::uint32_t f : unsure_) bind(f);
  for (const std::uint32_t link : touched_) refresh_end(link);
  unsure_.clear();
  touched_.clear();
}

/// Sums over limits_ against a level: the sum of the limits below it, and how many these are. With weights the second
/// is the sum of the others' weights, so that where none is above, it is exactly zero.
///
/// Four sums run side by side: added up one after another, each would wait for the last. Masks replace branches, which
/// would be guessed wrongly half of the time.
template <bool weighted>
FlowNetwork::Sums FlowNetwork::add_many(double level, std::size_t n) const {
  Pair below[2] = {}, weight[2] = {};
  Counts count[2] = {};
  const Pair bound = {level, level};
  for (std::size_t k = 0; k < n; k += 4) {
    for (std::size_t j = 0; j < 2; ++j) {
      const Pair limit = load(&limits_[k + 2 * j]);
      const Counts is_below = limit < bound;
      if constexpr (weighted) {
        const Pair w = load(&weights_[k + 2 * j]);
        below[j] += only(is_below, w * limit);
        weight[j] += only(~is_below, w);
      } else {
        below[j] += only(is_below, limit);
        count[j] -= is_below;
      }
    }
  }
  return {(below[0][0] + below[0][1]) + (below[1][0] + below[1][1]),
          weighted ? (weight[0][0] + weight[0][1]) + (weight[1][0] + weight[1][1])
                   : static_cast<double>((count[0][0] + count[0][1]) + (count[1][0] + count[1][1]))};
}

/// The same sums of four flows at most. Numbers that were just written one by one are not read in pairs, because a
/// processor would have to wait for them.
template <bool weighted>
FlowNetwork::Sums FlowNetwork::add_few(double level) const {
  double below[4], weight[4];
  int count = 0;
  for (std::size_t k = 0; k < 4; ++k) {
    const double limit = limits_[k];
    const bool is_below = limit < level;
    below[k] = only(is_below, weighted ? weights_[k] * limit : limit);
    weight[k] = weighted ? only(!is_below, weights_[k]) : 0.0;
    count += is_below ? 1 : 0;
  }
  return {(below[0] + below[1]) + (below[2] + below[3]),
          weighted ? (weight[0] + weight[1]) + (weight[2] + weight[3]) : static_cast<double>(count)};
}

/// The level at which the link is full, given what the other links leave of
/// its flows; infinity when it cannot be filled.
///
/// It is Newton's method on the sum over flows of weight times min(limit, level), which is concave and piecewise
/// linear. After one step it rises to the solution, one breakpoint or more at a time.
template <bool weighted>
double FlowNetwork::fair_level(std::uint32_t l) {
  const double capacity = links_[l].capacity;
  const std::size_t n = links_[l].members.size();
  double all = static_cast<double>(n);
  if constexpr (weighted) {
    all = 0.0;
    for (std::size_t i = 0; i < n; ++i) all += weights_[i];
  }
  double level = level_[l] < infinity ? level_[l] : capacity / all;
  // Limits that just fill the link may add up to a little more.
  const double full = capacity * (1.0 + rounding + 4e-16 * static_cast<double>(n));
  double above_before = -1.0;
  for (std::size_t i = 0; i < n + 3; ++i) {
    const auto [below, counted] = n <= 4 ? add_few<weighted>(level) : add_many<weighted>(level, n);
    const double above = weighted ? counted : all - counted;
    if (above == 0.0) {
      if (below <= full) {
        wanted_ = below;
        return infinity;
      }
      level = capacity / all;
      above_before = -1.0;
      continue;
    }
    const double next = (capacity - below) / above;
    if (above == above_before || !differ(next, level)) return next;
    above_before = next < level ? -1.0 : above;
    level = next;
  }
  ORRERY_ASSERT(false, l, n, level);
  return level;
}

void FlowNetwork::update_level(std::uint32_t l) {
  compute_level(l);
  // This comes only now: until the link's level is its capacity, that level holds for the flow that is left.
  if (links_[l].members.size() == 1) set_shared(links_[l].members.front(), false);
}

void FlowNetwork::compute_level(std::uint32_t l) {
  ++levels_computed_;
  const std::vector<Member>& members = links_[l].members;
  const double before = level_[l];
  const std::size_t n = members.size();
  if (limits_.size() < n + 4) {
    limits_.resize(2 * n + 4);
    held_.resize(limits_.size());
  }
  // A flow slower than the link's level has its limit as its rate. Flows at the level are listed without asking which,
  // because no order in which they stand could be guessed.
  held_count_ = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double rate = rate_[members[i].flow];
    limits_[i] = rate;
    held_[held_count_] = static_cast<std::uint32_t>(i);
    held_count_ += rate >= before ? 1 : 0;
  }
  for (std::size_t i = n; i % 4 != 0; ++i) limits_[i] = infinity;
  if (links_[l].weighted > 0) {
    weights_.assign((n + 3) / 4 * 4, 0.0);
    for (std::size_t i = 0; i < n; ++i) weights_[i] = hops_[members[i].hop].weight;
  }
  // While limits are looked for, the link itself sets none.
  level_[l] = infinity;
  for (std::size_t k = 0; k < held_count_; ++k) limits_[held_[k]] = least_on(members[held_[k]].flow);
  level_[l] = before;
  double level = links_[l].capacity;
  if (members.size() == 1) {
    level = alone_on(members.front().hop);
  } else if (members.size() > 1) {
    level = links_[l].weighted > 0 ? fair_level<true>(l) : fair_level<false>(l);
  }
  if (differ(before, level)) set_level(l, level);
  if (members.size() < 2) {
    spare_[l] = infinity;
  } else {
    spare_[l] = level_[l] < infinity ? -infinity : not_full * links_[l].capacity - wanted_;
  }
}

/// Sets the level and tells the flows and links that it concerns. Requires limits_ of the link's flows, and that the
/// link has all to spare, so that nothing is passed on to itself.
void FlowNetwork::set_level(std::uint32_t l, double level) {
  const std::vector<Member>& members = links_[l].members;
  const double before = level_[l];
  if (links_[l].bound > 0) {
    give(l);
    touch(l);
  }
  level_[l] = level;
  const double lower = std::min(before, level);
  // A flow that another link holds at a lower rate, before and after, moves nothing elsewhere. Where the level rises,
  // the other flows are those that were at it.
  if (level < before) {
    held_count_ = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      held_[held_count_] = static_cast<std::uint32_t>(i);
      held_count_ += limits_[i] >= level ? 1 : 0;
    }
  }
  for (std::size_t k = 0; k < held_count_; ++k) {
    const std::uint32_t i = held_[k];
    const std::uint32_t f = members[i].flow;
    const bool own = course_[f].binder == l;
    if ((own && limits_[i] < level) || (!own && limits_[i] > level)) unsure_.push_back(f);
    if (limits_[i] == lower) continue;
    rate_[f] = std::min(level, limits_[i]);
    pass_on(f, std::min(before, limits_[i]), rate_[f]);
  }
}

/// A flow goes from one rate to another. Its links have to be looked at, unless they will be anyway or stay far from
/// full.
void FlowNetwork::pass_on(std::uint32_t f, double before, double after) {
  const Course& course = course_[f];
  const double more = after - before;
  if (course.weighted || course.shared <= 2) {
    for (std::uint32_t h = course.first_hop; h < course.first_hop + course.shared; ++h) {
      const std::uint32_t l = hop_link_[h];
      spare_[l] -= course.weighted ? hops_[h].weight * more : more;
      if (spare_[l] <= 0.0) mark(l);
    }
    return;
  }
  // Reads four at a time, as in least_on: the links behind the shared ones have all to spare.
  for (const std::uint32_t *hop = &hop_link_[course.first_hop], *end = hop + course.shared; hop < end; hop += 4) {
    for (std::size_t k = 0; k < 4; ++k) {
      double& spare = spare_[hop[k]];
      spare -= more;
      if (spare <= 0.0) mark(hop[k]);
    }
  }
}

/// Finds what holds the flow back now.
void FlowNetwork::bind(std::uint32_t f) {
  Flow& flow = flow_[f];
  Course& course = course_[f];
  const std::uint32_t binder_before = course.binder;
  double rate = course.alone;
  course.binder = none;
  for (std::uint32_t h = course.first_hop; h < course.first_hop + course.shared; ++h) {
    const std::uint32_t l = hop_link_[h];
    // Among equal levels the binder from before counts, because nothing moves then.
    if (level_[l] < rate || (level_[l] == rate && l == binder_before)) {
      rate = level_[l];
      course.binder = l;
    }
  }
  const std::uint32_t binder = course.binder;
  if (binder == binder_before && (binder != none || rate == flow.rate)) return;
  double left = flow.left;
  if (binder_before != none) {
    give(binder_before);
    left -= links_[binder_before].given;
    --links_[binder_before].bound;
    rebind(binder_before);
  } else {
    left -= flow.rate * static_cast<double>(now_ - flow.since);
  }
  left = std::max(0.0, left);
  if (binder != none) {
    if (binder_before == none) flow_ends_.remove(f);
    give(binder);
    flow.left = left + links_[binder].given;
    ++links_[binder].bound;
    rebind(binder);
  } else {
    flow.left = left;
    flow.rate = rate;
    flow.since = now_;
    flow_ends_.set(f, now_ + static_cast<Picoseconds>(left / rate + 0.5));
  }
}

/// Finds the first end of the flows that the link holds back.
void FlowNetwork::refresh_end(std::uint32_t l) {
  SharedLink& link = links_[l];
  link.touched = false;
  if (link.bound == 0) {
    link.rebound = false;
    link.given = 0.0;
    link_ends_.remove(l);
    return;
  }
  if (link.rebound) {
    link.rebound = false;
    // Sums begin again at zero, so that they stay as exact as the bytes that are left.
    give(l);
    link.first = infinity;
    for (const Member& m : link.members) {
      if (course_[m.flow].binder != l) continue;
      flow_[m.flow].left -= link.given;
      link.first = std::min(link.first, flow_[m.flow].left);
    }
    link.given = 0.0;
  }
  link_ends_.set(l, end_on(l, link.first));
}

Bytes FlowNetwork::carried(LinkId id) const {
  const std::uint32_t slot = slot_[index(id)];
  return Bytes::of(slot == none ? 0.0 : links_[slot].carried);
}

Bandwidth FlowNetwork::rate(std::uint32_t number) {
  settle();
  for (const SharedLink& link : links_) {
    for (const Member& m : link.members) {
      if (flow_[m.flow].number != number) continue;
      const std::uint32_t binder = course_[m.flow].binder;
      return Bandwidth::of(1e12 * (binder == none ? flow_[m.flow].rate : level_[binder]));
    }
  }
  return Bandwidth::of(0.0);
}

}  // namespace orrery
