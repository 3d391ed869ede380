#include <catch2/catch.hpp>

#include <algorithm>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "sim/cost/collective_cost.hpp"
#include "sim/net/collective_traffic.hpp"
#include "sim/net/messages.hpp"

using namespace orrery;
using Way = CollectiveMessage::Way;

namespace {

std::vector<std::uint32_t> first(std::uint32_t p) {
  std::vector<std::uint32_t> gpus(p);
  std::iota(gpus.begin(), gpus.end(), 0U);
  return gpus;
}

std::uint32_t below(std::mt19937& random, std::uint32_t most) { return static_cast<std::uint32_t>(random() % most); }

Messages by_step(Messages m) {
  std::stable_sort(m.begin(), m.end(), [](const auto& x, const auto& y) { return x.step < y.step; });
  return m;
}

double total(const Messages& messages) {
  double sum = 0.0;
  for (const CollectiveMessage& m : messages) sum += m.payload.base();
  return sum;
}

/// Rates and latencies of a fabric of nodes under an NVLink switch and rails, one way.
struct Speeds {
  double a1, b1, a2, b2;  ///< of routes inside a node and between nodes
};

/// `nodes` of `gpus`, a NIC for each, whose switches add.
Fabric adding(std::uint32_t nodes, std::uint32_t gpus, const Speeds& s) {
  FabricSpec f;
  f.nodes = nodes;
  f.node = {.gpus = gpus, .nics = gpus, .vertices = {}, .wires = {}, .nvls = true};
  for (const char* kind : {"gpu", "nic"}) {
    for (std::uint32_t i = 0; i < gpus; ++i) f.node.vertices.push_back(kind + std::to_string(i));
  }
  f.node.vertices.push_back("nvswitch");
  for (std::uint32_t i = 0; i < gpus; ++i) {
    f.node.wires.push_back({i, 2 * gpus, {LinkKind::nvlink, Bandwidth::of(s.b1), Seconds::of(s.a1 / 2)}});
    f.node.wires.push_back({i, gpus + i, {LinkKind::pcie, Bandwidth::of(3 * s.b2), Seconds::of(0)}});
  }
  const Link cable{LinkKind::network, Bandwidth::of(s.b2), Seconds::of(s.a2 / 2)};
  f.network = TreeNetwork{{{nodes, 1, cable}, {gpus, 1, cable}}, true, true};
  return Fabric(f);
}

Fabric star(std::uint32_t gpus, double latency, double bandwidth) {
  FabricSpec f;
  f.nodes = gpus;
  f.network =
      TreeNetwork{{{gpus, 1, {LinkKind::network, Bandwidth::of(bandwidth), Seconds::of(latency / 2)}}}, false, true};
  return Fabric(f);
}

double seconds(const Fabric& f, const Messages& messages, std::uint32_t p) {
  return 1e-12 * static_cast<double>(run_jobs(f, {{first(p), messages}}, PathRule::by_destination, 1).ends[0]);
}

}  // namespace

// Every member starts with 1 of each part of either tree. A message up adds what its sender has, and one down replaces
// what its receiver has. The k-th message over an edge in one direction is that of part k.
TEST_CASE("two trees bring every member's part to every member, once", "[property][net]") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t p = 2 + below(random, 70), pieces = 1 + below(random, 5);
    CAPTURE(p, pieces);
    const Messages messages = by_step(double_tree_all_reduce_messages(p, Bytes::of(1.0), pieces));
    CHECK(total(messages) == Approx(2.0 * (p - 1)));
    const TwoTrees both = two_trees(p);
    // An edge may be in both trees; then the messages of the first come first in a step.
    std::vector<std::vector<std::vector<std::uint32_t>>> have(2, std::vector(pieces, std::vector<std::uint32_t>(p, 1)));
    std::map<std::tuple<std::uint32_t, std::uint32_t, int>, std::uint32_t> sent;
    const auto parent_in = [&](int tree, std::uint32_t v) { return (tree == 0 ? both.first : both.second)[v]; };
    // Says which tree a message belongs to. They are generated tree by tree, so the first half of all are the first
    // tree's.
    const Messages generated = double_tree_all_reduce_messages(p, Bytes::of(1.0), pieces);
    std::vector<std::pair<CollectiveMessage, int>> all;
    for (std::size_t i = 0; i < generated.size(); ++i) all.emplace_back(generated[i], i < generated.size() / 2 ? 0 : 1);
    std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first.step < y.first.step; });
    for (std::size_t i = 0; i < all.size();) {
      const auto before = have;  // messages of a step do not see each other
      std::size_t j = i;
      for (; j < all.size() && all[j].first.step == all[i].first.step; ++j) {
        const auto& [m, tree] = all[j];
        const std::uint32_t piece = sent[{m.from, m.to, tree}]++;
        REQUIRE(piece < pieces);
        std::uint32_t& to = have[static_cast<std::size_t>(tree)][piece][m.to];
        const std::uint32_t from = before[static_cast<std::size_t>(tree)][piece][m.from];
        if (parent_in(tree, m.from) == m.to) {
          to += from;
        } else {
          REQUIRE(parent_in(tree, m.to) == m.from);
          to = from;
        }
      }
      i = j;
    }
    for (const auto& tree : have) {
      for (const auto& piece : tree) CHECK(std::count(piece.begin(), piece.end(), p) == static_cast<long>(p));
    }
  }
}

// Parts: one for each place in a group, cut again into one for each group. Rings of s members send part (i - k) in the
// k-th step of a reduce-scatter and (i + 1 - k) in that of an all-gather; a switch's sum of place i is part i.
TEST_CASE("hierarchical all-reduces bring every member's part to every member, once", "[property][net]") {
  std::mt19937 random(12);
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t inner = 1 + below(random, 8), outer = 1 + below(random, 6), p = inner * outer;
    const Hierarchy how{.nvls = below(random, 2) == 0, .sharp = below(random, 2) == 0};
    CAPTURE(inner, outer, how.nvls, how.sharp);
    const Messages messages = by_step(hierarchical_all_reduce_messages(p, inner, Bytes::of(1.0 * p), how));
    // have[member][place][group]
    std::vector have(p, std::vector(inner, std::vector<std::uint32_t>(outer, 1)));
    const auto mod = [](std::uint32_t a, std::uint32_t b, std::uint32_t n) { return (a + n * 1000 - b) % n; };
    const std::uint32_t inside = inner == 1 ? 0 : how.nvls ? 1 : inner - 1;
    const std::uint32_t between = outer == 1 ? 0 : how.sharp ? 1 : 2 * (outer - 1);
    double bytes = 0.0;
    for (std::size_t i = 0, j = 0; i < messages.size(); i = j) {
      const auto before = have;
      for (; j < messages.size() && messages[j].step == messages[i].step; ++j) {
        const CollectiveMessage& m = messages[j];
        if (m.way != Way::pair) {
          bytes += m.payload.base();
          const bool rings_inside = m.way == Way::sharp && !how.nvls && inner > 1;
          const std::uint32_t place = rings_inside ? (m.to + 1) % inner : m.to % inner;
          for (std::uint32_t g = 0; g < outer; ++g) {
            std::uint32_t sum = 0;
            for (std::uint32_t k = 0; k < m.among.count; ++k) sum += before[m.among[k]][place][g];
            if (m.way == Way::nvls_sum) have[m.to][place][g] = sum;
            for (std::uint32_t k = 0; k < m.among.count; ++k) {
              if (m.way == Way::sharp) have[m.among[k]][place][g] = sum;
              if (m.way == Way::nvls_copy) have[m.among[k]][place][g] = before[m.from][place][g];
            }
          }
          continue;
        }
        bytes += m.payload.base();
        const std::uint32_t place = m.from % inner, group = m.from / inner;
        if (m.step < inside || m.step >= inside + between) {
          const bool adds = m.step < inside;
          const std::uint32_t k = adds ? m.step : m.step - inside - between;
          const std::uint32_t part = adds ? mod(place, k, inner) : mod(place + 1, k, inner);
          for (std::uint32_t g = 0; g < outer; ++g) {
            have[m.to][part][g] = adds ? have[m.to][part][g] + before[m.from][part][g] : before[m.from][part][g];
          }
        } else {
          const std::uint32_t owned = how.nvls || inner == 1 ? place : (place + 1) % inner;
          const std::uint32_t k = m.step - inside;
          const bool adds = k < outer - 1;
          const std::uint32_t part = adds ? mod(group, k, outer) : mod(group + 1, k - (outer - 1), outer);
          std::uint32_t& to = have[m.to][owned][part];
          to = adds ? to + before[m.from][owned][part] : before[m.from][owned][part];
        }
      }
    }
    for (const auto& member : have) {
      for (const auto& place : member) CHECK(std::count(place.begin(), place.end(), p) == static_cast<long>(outer));
    }
    // Payloads are n = p. Each half inside takes n / g to everyone g - 1 times, or once by each switch's sum.
    const double halves = inner == 1 ? 0.0 : how.nvls ? 2.0 * p * outer : 2.0 * p * (inner - 1) * outer;
    const double ways = outer == 1 ? 0.0 : how.sharp ? p : 2.0 * p * (outer - 1);
    CHECK(bytes == Approx(halves + ways));
  }
}

TEST_CASE("NVLS in pieces adds each part once and gives it to all", "[property][net]") {
  std::mt19937 random(13);
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t p = 2 + below(random, 15), pieces = 1 + below(random, 6);
    const double n = 1e9;
    CAPTURE(p, pieces);
    const Messages messages = by_step(nvls_all_reduce_messages(p, Bytes::of(n), pieces));
    // have[member][piece][part]; the next sum and the next copy of each member are of its next piece.
    std::vector have(p, std::vector(pieces, std::vector<std::uint32_t>(p, 1)));
    std::vector<std::uint32_t> summed(p, 0), copied(p, 0);
    for (std::size_t i = 0, j = 0; i < messages.size(); i = j) {
      const auto before = have;
      for (; j < messages.size() && messages[j].step == messages[i].step; ++j) {
        const CollectiveMessage& m = messages[j];
        REQUIRE(m.among == MemberRange{0, p, 1});
        if (m.way == Way::nvls_sum) {
          const std::uint32_t c = summed[m.to]++;
          std::uint32_t sum = 0;
          for (std::uint32_t k = 0; k < p; ++k) sum += before[k][c][m.to];
          have[m.to][c][m.to] = sum;
        } else {
          REQUIRE(m.way == Way::nvls_copy);
          const std::uint32_t c = copied[m.from]++;
          for (std::uint32_t k = 0; k < p; ++k) have[k][c][m.from] = before[m.from][c][m.from];
        }
      }
    }
    for (const auto& member : have) {
      for (const auto& piece : member) CHECK(std::count(piece.begin(), piece.end(), p) == static_cast<long>(p));
    }
    // Each GPU's link carries n (1 + 1 / p), either way.
    const Fabric f = adding(1, p, {1e-6, 1e11, 1e-6, 1e10});
    const JobTimes t = run_jobs(f, {{first(p), messages}}, PathRule::by_destination, 1);
    for (std::uint32_t g = 0; g < p; ++g) {
      CHECK(t.carried[4 * g].base() == Approx(n * (1.0 + 1.0 / p)));
      CHECK(t.carried[4 * g + 1].base() == Approx(n * (1.0 + 1.0 / p)));
    }
  }
}

TEST_CASE("NVLS trees add every member's part once, node by node and tree by tree, and give the sum to all",
          "[property][net]") {
  std::mt19937 random(19);
  for (int round = 0; round < 60; ++round) {
    const std::uint32_t inner = 2 + below(random, 4), nodes = 1 + below(random, 9), pieces = 1 + below(random, 4);
    const std::uint32_t p = inner * nodes;
    CAPTURE(inner, nodes, pieces);
    const double n = 1e6;
    const Messages messages = nvls_tree_all_reduce_messages(p, inner, Bytes::of(n), pieces);
    // For each place the messages between nodes come first, those of the first tree before those of the second.
    const std::size_t between = 4U * (nodes - 1) * pieces, each = between + 2U * nodes * pieces;
    REQUIRE(messages.size() == inner * each);
    std::vector<std::pair<CollectiveMessage, std::size_t>> all;  // with the tree
    for (std::size_t i = 0; i < messages.size(); ++i) all.emplace_back(messages[i], i % each < between / 2 ? 0 : 1);
    std::stable_sort(all.begin(), all.end(), [](const auto& x, const auto& y) { return x.first.step < y.first.step; });
    // How many members are in the sum that a place of a node has of each piece, by tree; and whose pieces have been
    // given to all.
    std::vector have(p, std::vector(2, std::vector<std::uint32_t>(pieces, 1)));
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::size_t>, std::uint32_t> sent;
    std::vector<std::uint32_t> summed(p, 0), copied(p, 0);
    double network = 0.0;
    for (std::size_t i = 0, j = 0; i < all.size(); i = j) {
      const auto before = have;
      for (; j < all.size() && all[j].first.step == all[i].first.step; ++j) {
        const auto& [m, tree] = all[j];
        if (m.way == Way::nvls_sum) {
          const std::uint32_t c = summed[m.to]++;
          for (std::size_t t = 0; t < 2; ++t) have[m.to][t][c] = m.among.count;
        } else if (m.way == Way::nvls_copy) {
          const std::uint32_t c = copied[m.from]++;
          for (std::size_t t = 0; t < 2; ++t) CHECK(before[m.from][t][c] == p);
        } else {
          REQUIRE(m.from % inner == m.to % inner);
          network += m.payload.base();
          const std::uint32_t c = sent[{m.from, m.to, tree}]++;
          REQUIRE(summed[m.from] > c);  // a node's sum is made before it goes up
          const std::uint32_t from = before[m.from][tree][c];
          std::uint32_t& to = have[m.to][tree][c];
          to = from == p ? p : to + from;
        }
      }
    }
    for (std::uint32_t i = 0; i < p; ++i) CHECK((summed[i] == pieces && copied[i] == pieces));
    // Every node except a tree's root sends its half up, and gets it down.
    CHECK(network == Approx(2.0 * (nodes - 1) * n));
  }
}

TEST_CASE("every link of SHARP's tree carries the vector once each way", "[property][net]") {
  std::mt19937 random(14);
  for (int round = 0; round < 50; ++round) {
    // Three levels of switches, any ends below.
    const std::uint32_t down[] = {2 + below(random, 4), 1 + below(random, 4), 4};
    FabricSpec f;
    f.nodes = 2 + below(random, down[0] * down[1] * down[2] - 1);
    const Link cable{LinkKind::network, Bandwidth::of(1e10), Seconds::of(1e-7)};
    f.network = TreeNetwork{
        {{down[0], 1, cable}, {down[1], 1 + below(random, 3), cable}, {down[2], 1 + below(random, 3), cable}},
        false,
        true};
    const Fabric fabric(f);
    CAPTURE(f.nodes, down[0], down[1]);
    const std::uint32_t p = f.nodes;
    const double n = 3e6;
    const JobTimes t = run_jobs(
        fabric, {{first(p), hierarchical_all_reduce_messages(p, 1, Bytes::of(n), {false, true})}}, PathRule::hashed, 1);
    double most_latency = 0.0;
    std::uint32_t used = 0;
    for (std::uint32_t l = 0; l < fabric.links(); l += 2) {
      CHECK(t.carried[l] == t.carried[l + 1]);
      if (t.carried[l].base() == 0.0) continue;
      ++used;
      CHECK(t.carried[l].base() == n);
    }
    // A tree over the members: one cable fewer than vertices, of which the members are ends.
    std::set<std::string> vertices;
    for (std::uint32_t l = 0; l < fabric.links(); l += 2) {
      if (t.carried[l].base() == 0.0) continue;
      const std::string name = fabric.name(LinkId{l});
      vertices.insert(name.substr(0, name.find(" -> ")));
      vertices.insert(name.substr(name.find(" -> ") + 4));
    }
    CHECK(vertices.size() == used + 1);
    for (std::uint32_t g = 1; g < p; ++g) {
      std::vector<LinkId> route;
      fabric.route(g, 0, PathRule::by_destination, 0, route);
      most_latency = std::max(most_latency, fabric.latency(route).base());
    }
    CHECK(std::abs(1e-12 * static_cast<double>(t.ends[0]) - (most_latency + n / 1e10)) <= 1e-12);
  }
}

TEST_CASE("a hierarchical all-to-all brings every block to its receiver", "[property][net]") {
  std::mt19937 random(15);
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t inner = 1 + below(random, 7), outer = 1 + below(random, 6), p = inner * outer;
    CAPTURE(inner, outer);
    const Messages messages = by_step(hierarchical_all_to_all_messages(p, inner, Bytes::of(1.0 * p)));
    std::vector<std::set<std::pair<std::uint32_t, std::uint32_t>>> have(p);  // blocks {from, to}, one byte each
    for (std::uint32_t a = 0; a < p; ++a) {
      for (std::uint32_t b = 0; b < p; ++b) have[a].insert({a, b});
    }
    for (std::size_t i = 0, j = 0; i < messages.size(); i = j) {
      const auto before = have;
      for (; j < messages.size() && messages[j].step == messages[i].step; ++j) {
        const CollectiveMessage& m = messages[j];
        const bool inside = m.from / inner == m.to / inner;
        double moved = 0.0;
        for (const auto& block : before[m.from]) {
          const bool goes = inside ? block.second % inner == m.to % inner && block.first == m.from
                                   : block.second == m.to && block.second % inner == m.from % inner;
          if (!goes) continue;
          REQUIRE(have[m.from].erase(block) == 1);
          have[m.to].insert(block);
          moved += 1.0;
        }
        CHECK(m.payload.base() == Approx(moved));
      }
    }
    for (std::uint32_t a = 0; a < p; ++a) {
      CHECK(have[a].size() == p);
      for (const auto& block : have[a]) CHECK(block.second == a);
    }
  }
}

// docs/formulas/network.md, "Collectives as messages". An end is rounded to the nearest picosecond, so a step is off by
// at most one half, and by another half for the first byte.
TEST_CASE("in-network and hierarchical collectives take their closed forms", "[property][net]") {
  std::mt19937 random(16);
  std::uniform_real_distribution<double> exponent(3.0, 9.0), factor(0.5, 2.0);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t inner = 2 + below(random, 7), outer = 2 + below(random, 5), p = inner * outer;
    const std::uint32_t pieces = 1 + below(random, 8);
    const Speeds s{1e-6 * factor(random), 3e11 * factor(random), 4e-6 * factor(random), 4e10 * factor(random)};
    const double n = std::pow(10.0, exponent(random)), g = inner, count = outer, m = pieces;
    const Bytes payload = Bytes::of(n);
    CAPTURE(inner, outer, pieces, n);
    const Fabric f = adding(outer, inner, s);
    const auto near = [](double got, double want, double steps) { CHECK(std::abs(got - want) <= 1e-12 * steps); };
    const double rings_inside = 2 * (g - 1) * (s.a1 + n / (g * s.b1)), switch_inside = 2 * (s.a1 + n / s.b1);
    const double rings_between = 2 * (count - 1) * (s.a2 + n / (g * count * s.b2)),
                 tree_between = s.a2 + n / (g * s.b2);
    const double inside_steps = 2 * (g - 1), between_steps = 2 * (count - 1);
    const auto all = [&](bool nvls, bool sharp) {
      near(seconds(f, hierarchical_all_reduce_messages(p, inner, payload, {nvls, sharp}), p),
           (nvls ? switch_inside : rings_inside) + (sharp ? tree_between : rings_between),
           (nvls ? 2 : inside_steps) + (sharp ? 1 : between_steps));
    };
    all(false, false);
    all(false, true);
    all(true, false);
    all(true, true);
    near(seconds(f, nvls_all_reduce_messages(inner, payload, pieces), inner),
         (m + 1) * s.a1 + (2 + (m - 1) * (1 + 1 / g)) * n / (m * s.b1), m + 1);
    // Two nodes: each sends the other half of its part by either tree, up and then down.
    near(seconds(adding(2, inner, s), nvls_tree_all_reduce_messages(2 * inner, inner, payload, 1), 2 * inner),
         switch_inside + 2 * (s.a2 + n / (2 * g * s.b2)), 4);
    near(seconds(f, hierarchical_all_to_all_messages(p, inner, payload), p),
         (g - 1) * (s.a1 + count * n / (p * s.b1)) + (count - 1) * (s.a2 + g * n / (p * s.b2)), g + count - 2);
    near(seconds(star(p, s.a2, s.b2), hierarchical_all_reduce_messages(p, 1, payload, {false, true}), p),
         s.a2 + n / s.b2, 1);
  }
}

namespace {

using Exact = boost::multiprecision::cpp_rational;

/// Messages between pairs on a star of links of bandwidth 1, as docs/network-model.md says: rates grow together until a
/// link is full.  Independent of FlowNetwork, and without rounding.
Exact exact_time(std::uint32_t p, const Messages& messages, const Exact& latency, const Exact& payload_of_one) {
  struct State {
    std::uint32_t from, to, step;
    Exact left, arrives, rate;
    bool started = false, done = false;
  };
  std::vector<State> all;
  for (const CollectiveMessage& m : messages) {
    all.push_back({m.from, m.to, m.step, payload_of_one, 0, 0, false, false});
  }
  Exact now = 0;
  for (;;) {
    const auto ready = [&](const State& s, std::uint32_t member) {
      return std::none_of(all.begin(), all.end(), [&](const State& o) {
        return !o.done && o.step < s.step && (o.from == member || o.to == member);
      });
    };
    for (State& s : all) {
      if (s.started || !ready(s, s.from) || !ready(s, s.to)) continue;
      s.started = true;
      s.arrives = now + latency;
    }
    // Progressive filling raises all flows that are not fixed until the next link is full.
    std::vector<State*> open;
    for (State& s : all) {
      s.rate = 0;
      if (s.started && !s.done && s.arrives <= now) open.push_back(&s);
    }
    std::vector<Exact> room(2 * p, Exact(1));
    while (!open.empty()) {
      std::vector<std::uint32_t> flows(2 * p, 0);
      for (const State* s : open) {
        ++flows[s->from];
        ++flows[p + s->to];
      }
      Exact raise = 2;
      for (std::uint32_t l = 0; l < 2 * p; ++l) {
        if (flows[l] > 0) raise = std::min<Exact>(raise, room[l] / flows[l]);
      }
      for (State* s : open) s->rate += raise;
      for (std::uint32_t l = 0; l < 2 * p; ++l) room[l] -= raise * flows[l];
      std::erase_if(open, [&](const State* s) { return room[s->from] == 0 || room[p + s->to] == 0; });
    }
    bool any = false;
    Exact next = 0;
    const auto consider = [&](const Exact& t) {
      if (!any || t < next) next = t;
      any = true;
    };
    for (const State& s : all) {
      if (s.done || !s.started) continue;
      s.arrives > now ? consider(s.arrives) : consider(now + s.left / s.rate);
    }
    if (!any) return now;
    for (State& s : all) {
      if (s.done || !s.started || s.arrives > now) continue;
      s.left -= s.rate * (next - now);
      if (s.left == 0) s.done = true;
    }
    now = next;
  }
}

}  // namespace

TEST_CASE("pipelined trees take the time of an emulation in whole fractions", "[oracle][net]") {
  std::mt19937 random(17);
  for (int round = 0; round < 24; ++round) {
    const std::uint32_t p = 2 + below(random, 8), pieces = 1 + below(random, 4);
    // Bandwidth 1 byte/ns: payload in bytes is time in nanoseconds.
    const std::uint32_t latency_ns = 1000 + below(random, 9000), piece = 1000 + below(random, 100000);
    CAPTURE(p, pieces, latency_ns, piece);
    const Messages messages = double_tree_all_reduce_messages(p, Bytes::of(2.0 * pieces * piece), pieces);
    const Exact want = exact_time(p, messages, latency_ns, piece);
    const double got = 1e9 * seconds(star(p, 1e-9 * latency_ns, 1e9), messages, p);
    const double steps = pieces + 2.0 * double_tree_depth(p);
    CHECK(std::abs(got - want.convert_to<double>()) <= 1e-3 * steps);
  }
}

// At most four messages enter and leave a member in a step, each n / (2 m). Some member (with three or more, one that
// is inside a tree and a leaf of the other) receives the whole vector twice except for what it starts with.
TEST_CASE("two trees take between the bytes of the busiest member and four messages a step", "[property][net]") {
  std::mt19937 random(18);
  std::uniform_real_distribution<double> exponent(2.0, 9.0);
  for (int round = 0; round < 300; ++round) {
    const std::uint32_t p = 2 + below(random, 40), pieces = 1 + below(random, 24);
    const double a = 2e-6, b = 25e9, n = std::pow(10.0, exponent(random)), m = pieces;
    CAPTURE(p, pieces, n);
    const Messages messages = double_tree_all_reduce_messages(p, Bytes::of(n), pieces);
    std::vector<double> in(p, 0.0);
    for (const CollectiveMessage& x : messages) in[x.to] += x.payload.base();
    const double busiest = *std::max_element(in.begin(), in.end()), depth = double_tree_depth(p);
    const double t = seconds(star(p, a, b), messages, p);
    CHECK(t >= 2 * depth * a + busiest / b - 1e-12);
    CHECK(t <= (m + 2 * depth - 1) * (a + 2 * n / (m * b) + 1e-12));
    CHECK(depth <= std::floor(std::log2(p)) + 1);
  }
}

TEST_CASE("algorithms are compared where the group and the switches allow them", "[unit][net]") {
  const Speeds s{1e-6, 3e11, 4e-6, 4e10};
  const auto names = [](const std::vector<AlgorithmTimes>& rows) {
    std::vector<std::string> out;
    for (const auto& e : rows.front().entries) out.push_back(e.algorithm);
    return out;
  };
  const std::vector<Bytes> one{Bytes::of(1e6)};
  using Names = std::vector<std::string>;
  const Fabric f = adding(2, 4, s);
  CHECK(names(compare_all_reduces(f, first(8), one, PathRule::rail_local)) ==
        Names{"ring", "recursive doubling", "halving and doubling", "double tree", "hierarchical", "NVLS and rings",
              "NVLS and trees", "rings and SHARP", "NVLS and SHARP"});
  CHECK(names(compare_all_reduces(f, first(3), one, PathRule::rail_local)) ==
        Names{"ring", "recursive doubling", "halving and doubling", "double tree", "NVLS"});
  CHECK(names(compare_all_reduces(f, {1, 5}, one, PathRule::rail_local)) ==
        Names{"ring", "recursive doubling", "halving and doubling", "double tree", "SHARP"});
  CHECK(names(compare_all_reduces(star(5, 1e-6, 1e10), first(5), one, PathRule::hashed)) ==
        Names{"ring", "recursive doubling", "halving and doubling", "double tree", "SHARP"});
  CHECK(names(compare_all_to_alls(f, first(8), one, PathRule::rail_local)) == Names{"pairwise", "hierarchical"});
  CHECK(names(compare_all_to_alls(f, first(6), one, PathRule::rail_local)) == Names{"pairwise"});
}

// sim/cost/collective_cost.hpp prices these messages for pieces without end. SHARP has no others, and NVLS's m pieces
// take (m - 1) a + (1 - 1 / g) n / (m b) more.
TEST_CASE("the prices of in-network all-reduces are those of their messages", "[oracle][net]") {
  std::mt19937 random(19);
  std::uniform_real_distribution<double> exponent(3.0, 9.0), factor(0.5, 2.0);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t inner = 2 + below(random, 7), outer = 2 + below(random, 5), pieces = 1 + below(random, 8);
    const Speeds s{1e-6 * factor(random), 3e11 * factor(random), 4e-6 * factor(random), 4e10 * factor(random)};
    const double n = std::pow(10.0, exponent(random)), m = pieces, g = inner;
    const Bytes payload = Bytes::of(n);
    CAPTURE(inner, outer, pieces, n);
    ClusterSpec cluster;
    cluster.nodes = outer;
    cluster.devices_per_node = inner;
    cluster.levels = {{"nvlink", inner, Bandwidth::of(s.b1), Seconds::of(s.a1)},
                      {"network", outer, Bandwidth::of(s.b2), Seconds::of(s.a2)}};
    cluster.levels[0].switches = SwitchSum::nvls;
    cluster.levels[1].switches = SwitchSum::sharp;
    const CollectiveCost cost(cluster, {});
    const auto price = [&](const std::vector<std::uint32_t>& devices) {
      return collective_time(Collective::Kind::all_reduce, payload, group_shape(devices, cluster),
                             CollectiveAlgorithm::in_network, cost.links())
          ->base();
    };
    const Fabric f = adding(outer, inner, s);
    CHECK(std::abs(seconds(f, nvls_all_reduce_messages(inner, payload, pieces), inner) - price(first(inner)) -
                   (m - 1) * s.a1 - (1 - 1 / g) * n / (m * s.b1)) <= 1e-12 * (m + 1));
    std::vector<std::uint32_t> heads;
    for (std::uint32_t i = 0; i < outer; ++i) heads.push_back(i * inner);
    const Job job{heads, hierarchical_all_reduce_messages(outer, 1, payload, {false, true})};
    CHECK(std::abs(1e-12 * static_cast<double>(run_jobs(f, {job}, PathRule::by_destination, 1).ends[0]) -
                   price(heads)) <= 1e-12);
    // Both come one after the other and not at once: no faster than the price, and at most the sum of its parts.
    const double both =
        seconds(f, hierarchical_all_reduce_messages(inner * outer, inner, payload, {true, true}), inner * outer);
    CHECK(both >= price(first(inner * outer)) - 3e-12);
    CHECK(both <= 2 * s.a1 + s.a2 + 2 * n / s.b1 + n / (g * s.b2) + 3e-12);
  }
}
