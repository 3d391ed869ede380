#include "sim/net/collective_traffic.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/base/diagnostics.hpp"

namespace orrery {
namespace {

using Kind = Collective::Kind;

/// Members by box, and the traffic between them.
class Draft {
 public:
  explicit Draft(std::span<const std::uint32_t> boxes) : boxes_(boxes.begin(), boxes.end()) {
    first_.resize(boxes_.size());
    std::exclusive_scan(boxes_.begin(), boxes_.end(), first_.begin(), 0U);
    ports_ = *std::min_element(boxes_.begin(), boxes_.end());
  }
  [[nodiscard]] std::uint32_t members() const { return first_.back() + boxes_.back(); }
  [[nodiscard]] std::uint32_t boxes() const { return static_cast<std::uint32_t>(boxes_.size()); }

  void add(std::uint32_t from, std::uint32_t to, Bytes payload) {
    if (from != to && payload.base() > 0.0) all_.push_back({from, to, payload});
  }
  /// Adds traffic over all ports of two boxes, side by side.
  void add_between(std::uint32_t from, std::uint32_t to, Bytes payload) {
    for (std::uint32_t k = 0; k < ports_; ++k) add(first_[from] + k, first_[to] + k, payload / ports_);
  }
  /// Adds traffic from each member of every box of s to the next one, around: share(s) of the payload.
  template <class Share>
  void add_around(Bytes payload, Share&& share) {
    for (std::size_t b = 0; b < boxes_.size(); ++b) {
      const std::uint32_t s = boxes_[b];
      for (std::uint32_t k = 0; k < s; ++k) add(first_[b] + k, first_[b] + (k + 1) % s, share(s) * payload);
    }
  }
  void add_around(Bytes payload) {
    add_around(payload, [](double s) { return (s - 1.0) / s; });
  }
  /// Each pair once, ascending.
  std::vector<PairTraffic> take() {
    std::stable_sort(all_.begin(), all_.end(), [](const PairTraffic& a, const PairTraffic& b) {
      return a.from != b.from ? a.from < b.from : a.to < b.to;
    });
    std::vector<PairTraffic> out;
    for (const PairTraffic& t : all_) {
      if (!out.empty() && out.back().from == t.from && out.back().to == t.to) {
        out.back().payload = out.back().payload + t.payload;
      } else {
        out.push_back(t);
      }
    }
    return out;
  }

 private:
  std::vector<std::uint32_t> boxes_, first_;
  std::uint32_t ports_ = 1;
  std::vector<PairTraffic> all_;
};

bool is_one_way(Kind kind) { return kind == Kind::broadcast || kind == Kind::reduce; }

/// Bytes that pass each hop of a ring.
Bytes around_ring(Kind kind, std::uint32_t p, Bytes payload) {
  if (is_one_way(kind)) return payload;
  return ((kind == Kind::all_reduce ? 2.0 : 1.0) * (p - 1.0) / p) * payload;
}

void add_ring(Draft& draft, Kind kind, Bytes payload) {
  const std::uint32_t p = draft.members(), boxes = draft.boxes(), open = is_one_way(kind) ? 1 : 0;
  const Bytes hop = around_ring(kind, p, payload);
  if (boxes == 1) {
    for (std::uint32_t i = 0; i + open < p; ++i) draft.add(i, (i + 1) % p, hop);
    return;
  }
  draft.add_around(hop);
  for (std::uint32_t b = 0; b + open < boxes; ++b) draft.add_between(b, (b + 1) % boxes, hop);
}

void add_trees(Draft& draft, Kind kind, Bytes payload, bool in_switches) {
  const auto connect = [&](std::uint32_t count, auto&& add) {
    const TwoTrees trees = two_trees(count);
    for (const auto& parent : {trees.first, trees.second}) {
      for (std::uint32_t i = 0; i < count; ++i) {
        if (kind != Kind::broadcast) add(i, parent[i], 0.5 * payload);
        if (kind != Kind::reduce) add(parent[i], i, 0.5 * payload);
      }
    }
  };
  if (draft.boxes() == 1 && !in_switches) {
    connect(draft.members(), [&](std::uint32_t a, std::uint32_t b, Bytes n) { draft.add(a, b, n); });
    return;
  }
  if (in_switches) {
    draft.add_around(payload, [](double s) { return 1.0 + 1.0 / s; });
    if (draft.boxes() == 1) return;
  } else {
    draft.add_around(around_ring(kind, draft.members(), payload));
  }
  connect(draft.boxes(), [&](std::uint32_t a, std::uint32_t b, Bytes n) {
    if (a != b) draft.add_between(a, b, n);
  });
}

/// A reduce-scatter or all-gather in rounds over `count` members; add(from, to, bytes).
template <class Add>
void add_half(std::uint32_t count, Bytes payload, Add&& add) {
  for (std::uint32_t d = 1; d < count; d *= 2) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (std::has_single_bit(count)) {
        add(i, i ^ d, (0.5 / d) * payload);
      } else {
        add(i, (i + d) % count, (1.0 * std::min(d, count - d) / count) * payload);
      }
    }
  }
}

void add_recursive(Draft& draft, Kind kind, Bytes payload) {
  const std::uint32_t s = draft.members() / draft.boxes();
  ORRERY_ASSERT(s * draft.boxes() == draft.members(), draft.members(), draft.boxes());
  const double halves = kind == Kind::all_reduce ? 2.0 : 1.0;
  for (std::uint32_t b = 0; b < draft.boxes(); ++b) {
    add_half(s, halves * payload,
             [&](std::uint32_t i, std::uint32_t k, Bytes n) { draft.add(b * s + i, b * s + k, n); });
  }
  // Each member of a box has 1 / s left, and all of them go on side by side.
  add_half(draft.boxes(), halves * payload,
           [&](std::uint32_t i, std::uint32_t k, Bytes n) { draft.add_between(i, k, n); });
}

/// Counts the numbers below p with this bit set: the blocks that Bruck's all-to-all sends in that round.
std::uint32_t with_bit(std::uint32_t p, std::uint32_t bit) {
  const std::uint32_t rest = p % (2 * bit);
  return p / (2 * bit) * bit + (rest > bit ? rest - bit : 0);
}

void add_all_to_all(Draft& draft, CollectiveAlgorithm algorithm, Bytes payload) {
  const std::uint32_t p = draft.members();
  const bool rounds = algorithm == CollectiveAlgorithm::recursive;
  for (std::uint32_t d = 1; d < p; rounds ? d *= 2 : ++d) {
    const Bytes bytes = (rounds ? with_bit(p, d) : 1.0) * (payload / p);
    for (std::uint32_t i = 0; i < p; ++i) draft.add(i, (i + d) % p, bytes);
  }
}

}  // namespace

TwoTrees two_trees(std::uint32_t p) {
  ORRERY_ASSERT(p >= 1, p);
  TwoTrees trees;
  trees.first.resize(p);
  const std::uint32_t root = std::bit_floor(p);
  // Members are in order and counted from 1. A member whose lowest set bit is b is attached to the next multiple of 2 b
  // to either side that is an odd multiple of a higher bit; where p cuts that one off, to the nearest further up.
  for (std::uint32_t v = 1; v <= p; ++v) {
    std::uint32_t up = v;
    if (v != root) {
      do {
        const std::uint32_t bit = up & (~up + 1);
        up = (up & ~bit) | (bit << 1U);
      } while (up > p);
    }
    trees.first[v - 1] = up - 1;
  }
  trees.second.resize(p);
  for (std::uint32_t v = 0; v < p; ++v) {
    if (p % 2 == 0) {
      trees.second[p - 1 - v] = p - 1 - trees.first[v];
    } else {
      trees.second[(v + 1) % p] = (trees.first[v] + 1) % p;
    }
  }
  return trees;
}

std::vector<PairTraffic> collective_traffic(Kind kind, CollectiveAlgorithm algorithm,
                                            std::span<const std::uint32_t> boxes, Bytes payload, bool in_switches) {
  ORRERY_ASSERT(!boxes.empty() && kind != Kind::permute, boxes.size());
  Draft draft(boxes);
  if (draft.members() == 1 || kind == Kind::barrier) return {};
  if (kind == Kind::all_to_all) {
    add_all_to_all(draft, algorithm, payload);
  } else if (algorithm == CollectiveAlgorithm::in_network && kind == Kind::all_reduce) {
    draft.add_around(payload, [&](double s) { return in_switches ? 1.0 + 1.0 / s : 1.0; });
    const std::uint32_t count = draft.boxes();
    for (std::uint32_t b = 0; b < count && count > 1; ++b) draft.add_between(b, (b + 1) % count, payload);
  } else if (in_switches && kind == Kind::all_reduce) {
    add_trees(draft, kind, payload, true);
  } else if (algorithm == CollectiveAlgorithm::tree && (kind == Kind::all_reduce || is_one_way(kind))) {
    add_trees(draft, kind, payload, false);
  } else if (algorithm == CollectiveAlgorithm::recursive && !is_one_way(kind)) {
    add_recursive(draft, kind, payload);
  } else {
    add_ring(draft, kind, payload);
  }
  return draft.take();
}

}  // namespace orrery
