#include "sim/net/detour.hpp"

#include <deque>
#include <limits>

namespace orrery {

namespace {

constexpr std::uint32_t far = std::numeric_limits<std::uint32_t>::max();

}  // namespace

template <class Side>
Detour::Links Detour::by(Side side) const {
  Links out;
  out.first.assign(topology_.vertices() + 1, 0);
  for (std::uint32_t l = 0; l < topology_.links(); ++l) ++out.first[side(topology_.sides(l)) + 1];
  for (std::size_t v = 1; v < out.first.size(); ++v) out.first[v] += out.first[v - 1];
  out.link.resize(topology_.links());
  std::vector<std::uint32_t> next(out.first.begin(), out.first.end() - 1);
  for (std::uint32_t l = 0; l < topology_.links(); ++l) out.link[next[side(topology_.sides(l))]++] = l;
  return out;
}

Detour::Detour(const Topology& topology) : topology_(topology) {
  into_ = by([](const Topology::Sides& s) { return s.to; });
  out_ = by([](const Topology::Sides& s) { return s.from; });
}

bool Detour::passes_on(std::uint32_t vertex) const { return vertex >= topology_.ends() || topology_.ends_pass_on(); }

bool Detour::route(std::uint32_t from, std::uint32_t to, const PathChoice& choice,
                   const std::function<bool(std::uint32_t)>& failed, std::vector<std::uint32_t>& into) const {
  // Number of links left to `to`, found backwards from there, as far as `from`.
  std::vector<std::uint32_t> distance(topology_.vertices(), far);
  distance[to] = 0;
  std::deque<std::uint32_t> queue{to};
  while (!queue.empty() && distance[from] == far) {
    const std::uint32_t v = queue.front();
    queue.pop_front();
    if (v != to && !passes_on(v)) continue;
    for (std::uint32_t i = into_.first[v]; i < into_.first[v + 1]; ++i) {
      const std::uint32_t before = topology_.sides(into_.link[i]).from;
      if (distance[before] != far || failed(into_.link[i])) continue;
      distance[before] = distance[v] + 1;
      queue.push_back(before);
    }
  }
  if (distance[from] == far) return false;
  std::vector<std::uint32_t> ways;
  for (std::uint32_t at = from, left = distance[from]; left > 0; --left) {
    ways.clear();
    for (std::uint32_t i = out_.first[at]; i < out_.first[at + 1]; ++i) {
      const std::uint32_t next = topology_.sides(out_.link[i]).to;
      if (distance[next] == left - 1 && (next == to || passes_on(next)) && !failed(out_.link[i])) {
        ways.push_back(out_.link[i]);
      }
    }
    const std::uint32_t link = ways[choice.pick(left, static_cast<std::uint32_t>(ways.size()), to)];
    into.push_back(link);
    at = topology_.sides(link).to;
  }
  return true;
}

}  // namespace orrery
