#include "tests/support/net/naive.hpp"

#include <algorithm>
#include <limits>

namespace orrery::test {

std::vector<long double> naive_rates(const std::vector<long double>& capacity,
                                     const std::vector<std::vector<std::uint32_t>>& routes) {
  std::vector<long double> rate(routes.size(), -1.0L), left = capacity;
  std::vector<std::uint32_t> growing(capacity.size(), 0);
  for (const auto& route : routes) {
    for (const std::uint32_t l : route) ++growing[l];
  }
  for (;;) {
    std::size_t full = capacity.size();
    long double least = std::numeric_limits<long double>::infinity();
    for (std::size_t l = 0; l < capacity.size(); ++l) {
      if (growing[l] > 0 && left[l] / growing[l] < least) {
        least = left[l] / growing[l];
        full = l;
      }
    }
    if (full == capacity.size()) return rate;
    for (std::size_t f = 0; f < routes.size(); ++f) {
      if (rate[f] >= 0.0L || std::find(routes[f].begin(), routes[f].end(), full) == routes[f].end()) continue;
      rate[f] = least;
      for (const std::uint32_t l : routes[f]) {
        left[l] = std::max(0.0L, left[l] - least);
        --growing[l];
      }
    }
  }
}

Times run_naive(const Tree& tree, const Traffic& traffic) {
  struct Moving {
    std::uint32_t process, step;
    long double begin, left;
    std::vector<std::uint32_t> route;
    bool ended = false;
  };
  std::vector<long double> capacity;
  for (std::uint32_t l = 0; l < tree.links(); ++l) capacity.push_back(tree.capacity(l));
  Times times(traffic.size());
  std::vector<std::uint32_t> sent(traffic.size()), received(traffic.size()), step(traffic.size());
  std::vector<Moving> moving;
  std::vector<LinkId> ids;
  const auto send = [&](long double now, std::uint32_t p, std::uint32_t k) {
    const Process::Send& s = traffic[p].sends[k];
    Moving m{p, k, now + tree.latency, s.bytes, {}};
    tree.route(traffic[p].host, traffic[s.to].host, ids);
    for (const LinkId l : ids) m.route.push_back(index(l));
    moving.push_back(std::move(m));
  };
  const auto move_on = [&](long double now, std::uint32_t p) {
    const Process& process = traffic[p];
    const std::uint32_t k = step[p];
    if (k == process.sends.size() || sent[p] == k || (process.lockstep && received[p] <= k)) return;
    times[p][k] = static_cast<double>(now);
    if (++step[p] < process.sends.size()) send(now, p, step[p]);
  };
  for (std::uint32_t p = 0; p < traffic.size(); ++p) {
    times[p].resize(traffic[p].sends.size());
    for (std::uint32_t k = 0; k < (traffic[p].at_once ? traffic[p].sends.size() : 1); ++k) send(0.0L, p, k);
  }
  long double now = 0.0L;
  while (!moving.empty()) {
    std::vector<std::vector<std::uint32_t>> routes;
    for (const Moving& m : moving) routes.push_back(m.begin <= now ? m.route : std::vector<std::uint32_t>{});
    const std::vector<long double> rate = naive_rates(capacity, routes);
    long double next = std::numeric_limits<long double>::infinity();
    for (std::size_t i = 0; i < moving.size(); ++i) {
      next = std::min(next, moving[i].begin > now ? moving[i].begin : now + moving[i].left / rate[i]);
    }
    // Flows that end within a femtosecond end together, because equal steps would otherwise fall apart by rounding.
    next += 1e-15L;
    std::vector<Moving> ended;
    for (std::size_t i = 0; i < moving.size(); ++i) {
      if (moving[i].begin > now) continue;
      moving[i].left -= rate[i] * (next - now);
      moving[i].ended = moving[i].left <= rate[i] * 1e-15L;
      if (moving[i].ended) ended.push_back(moving[i]);
    }
    std::erase_if(moving, [](const Moving& m) { return m.ended; });
    now = next;
    for (const Moving& m : ended) {
      if (traffic[m.process].at_once) {
        times[m.process][m.step] = static_cast<double>(now);
        continue;
      }
      const std::uint32_t to = traffic[m.process].sends[m.step].to;
      ++sent[m.process];
      ++received[to];
      if (traffic[to].lockstep) move_on(now, to);
      move_on(now, m.process);
    }
  }
  return times;
}

}  // namespace orrery::test
