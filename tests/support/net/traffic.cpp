#include "tests/support/net/traffic.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/diagnostics.hpp"
#include "core/base/random.hpp"

namespace orrery::test {

void Tree::route(std::uint32_t from, std::uint32_t to, std::vector<LinkId>& into) const {
  into.clear();
  into.push_back(LinkId{2 * from});
  const std::uint32_t a = from / per_leaf, b = to / per_leaf;
  if (a != b) {
    into.push_back(LinkId{2 * (hosts + a)});
    into.push_back(LinkId{2 * (hosts + b) + 1});
  }
  into.push_back(LinkId{2 * to + 1});
}

Tree star(std::uint32_t hosts) { return {.hosts = hosts, .per_leaf = hosts}; }
Tree two_to_one(std::uint32_t hosts) { return {.hosts = hosts, .per_leaf = 16}; }

Traffic ring(std::uint32_t hosts, std::uint32_t stride, double bytes, std::uint32_t rings) {
  Traffic out(std::size_t{hosts} * rings);
  const std::uint32_t period = hosts / std::gcd(hosts, stride);
  for (std::uint32_t r = 0; r < rings; ++r) {
    for (std::uint32_t i = 0; i < hosts; ++i) {
      Process& p = out[std::size_t{r} * hosts + i];
      p.host = (i * stride + i / period) % hosts;
      p.lockstep = true;
      p.sends.assign(2 * (hosts - 1), {r * hosts + (i + 1) % hosts, bytes / hosts});
    }
  }
  return out;
}

Traffic irregular(std::uint32_t hosts, std::uint32_t messages, std::uint64_t seed, bool at_once) {
  Traffic out(hosts);
  for (std::uint32_t h = 0; h < hosts; ++h) {
    out[h].host = h;
    out[h].at_once = at_once;
    for (std::uint32_t m = 0; m < messages; ++m) {
      const std::uint64_t bits = random_bits(seed, h, m);
      const auto other = static_cast<std::uint32_t>((bits >> 32) % (hosts - 1));
      out[h].sends.push_back({other < h ? other : other + 1, 1e5 + static_cast<double>(bits % 9'900'000)});
    }
  }
  return out;
}

std::uint64_t flows_of(const Traffic& traffic) {
  std::uint64_t count = 0;
  for (const Process& p : traffic) count += p.sends.size();
  return count;
}

double largest_difference(const Times& a, const Times& b) {
  double worst = 0.0;
  ORRERY_ASSERT(a.size() == b.size(), a.size(), b.size());
  for (std::size_t p = 0; p < a.size(); ++p) {
    ORRERY_ASSERT(a[p].size() == b[p].size(), p, a[p].size(), b[p].size());
    for (std::size_t k = 0; k < a[p].size(); ++k) worst = std::max(worst, std::abs(a[p][k] - b[p][k]) / b[p][k]);
  }
  return worst;
}

Times run(const Tree& tree, const Traffic& traffic, std::uint64_t* levels) {
  FlowNetwork network(tree.links(), [&](LinkId l) { return Bandwidth::of(tree.capacity(index(l))); });
  const Picoseconds latency = picoseconds(Seconds::of(tree.latency));
  Times times(traffic.size());
  // A flow's number is its process; for a process that sends at once it is its message, counted on from there.
  std::vector<std::uint32_t> sent(traffic.size()), received(traffic.size()), step(traffic.size()), ended;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> messages;
  const auto processes = static_cast<std::uint32_t>(traffic.size());
  std::vector<LinkId> route;
  const auto send = [&](Picoseconds now, std::uint32_t p, std::uint32_t k, std::uint32_t number) {
    const Process::Send& s = traffic[p].sends[k];
    tree.route(traffic[p].host, traffic[s.to].host, route);
    network.start(now, route, latency, Bytes::of(s.bytes), number);
  };
  const auto move_on = [&](Picoseconds now, std::uint32_t p) {
    const Process& process = traffic[p];
    if (step[p] == process.sends.size() || sent[p] == step[p]) return;
    if (process.lockstep && received[p] <= step[p]) return;
    times[p].push_back(1e-12 * static_cast<double>(now));
    if (++step[p] < process.sends.size()) send(now, p, step[p], p);
  };
  for (std::uint32_t p = 0; p < processes; ++p) {
    const auto count = static_cast<std::uint32_t>(traffic[p].sends.size());
    if (!traffic[p].at_once) {
      times[p].reserve(count);
      if (count > 0) send(0, p, 0, p);
      continue;
    }
    times[p].resize(count);
    for (std::uint32_t k = 0; k < count; ++k) {
      send(0, p, k, processes + static_cast<std::uint32_t>(messages.size()));
      messages.emplace_back(p, k);
    }
  }
  while (!network.idle()) {
    const Picoseconds now = network.next_event();
    ended.clear();
    network.advance(ended);
    for (const std::uint32_t p : ended) {
      if (p >= processes) {
        const auto [process, k] = messages[p - processes];
        times[process][k] = 1e-12 * static_cast<double>(now);
        continue;
      }
      const std::uint32_t to = traffic[p].sends[step[p]].to;
      ++sent[p];
      ++received[to];
      if (traffic[to].lockstep) move_on(now, to);
      move_on(now, p);
    }
  }
  if (levels != nullptr) *levels = network.levels_computed();
  return times;
}

}  // namespace orrery::test
