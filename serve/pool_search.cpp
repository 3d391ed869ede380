#include "serve/pool_search.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace orrery {
namespace {

/// A plan of a worker, with what is found once.
struct Worker {
  ServingPlan plan;
  ServingMemory memory;
  StepPricer pricer;
};

LoadWork work_of(const ServingQuestion& q, const Worker& w, double concurrency, bool prompts) {
  ServingLoad load = replica_load(q, concurrency);
  if (prompts) load.output = 1.0;
  return load_work(w.pricer, q.model, w.plan, w.memory, q.engine.batch, load);
}

bool better(const PooledPlan& a, const PooledPlan& b) {
  if (a.within_bounds != b.within_bounds) return a.within_bounds;
  return a.tokens_per_second > b.tokens_per_second;
}

/// The plans that are tried for each combination of formats, best first.
constexpr std::size_t most_for_prompts = 6;
constexpr std::size_t most_for_decoding = 12;

bool same_formats(const ServingPlan& a, const ServingPlan& b) {
  return a.weights == b.weights && a.experts == b.experts && a.kv_fp8 == b.kv_fp8;
}

/// The first `most` of each combination of formats.
std::vector<const Worker*> firsts(const std::vector<const Worker*>& in, std::size_t most) {
  std::vector<const Worker*> out;
  for (const Worker* w : in) {
    const auto known = static_cast<std::size_t>(
        std::count_if(out.begin(), out.end(), [&](const Worker* o) { return same_formats(o->plan, w->plan); }));
    if (known < most) out.push_back(w);
  }
  return out;
}

std::uint32_t next_split(std::uint32_t p) { return p < 3 ? p + 1 : (p & (p - 1)) == 0 ? p + p / 2 : p + p / 3; }

}  // namespace

std::optional<PooledPlan> search_pools(const ServingQuestion& q, const ServingSearch& found,
                                       const std::function<bool()>& go_on) {
  ORRERY_ASSERT(q.concurrency.has_value());
  const auto all = static_cast<std::uint32_t>(q.cluster.devices());
  std::vector<Worker> workers;
  for (const ServedPlan& s : found.plans) {
    if (s.plan.devices() >= all) continue;  // nothing would be left for the other pool
    workers.push_back({s.plan, s.memory, StepPricer(q.model, s.plan, q.cluster, q.calibration)});
  }
  std::optional<PooledPlan> best;
  std::size_t tried = 0;
  std::vector<const Worker*> decoding;
  for (const Worker& w : workers) decoding.push_back(&w);
  std::vector<const Worker*> computing = decoding;
  const auto prompt_cost = [&](const Worker* w) {
    const LoadWork work = work_of(q, *w, w->plan.attention_data, true);
    return work.chunks * step_time(work.mixed, q.engine.costs) * (w->plan.devices() / work.groups);
  };
  std::map<const Worker*, Seconds> costs;
  for (const Worker* w : computing) costs[w] = prompt_cost(w);
  std::stable_sort(computing.begin(), computing.end(),
                   [&](const Worker* a, const Worker* b) { return costs[a] < costs[b]; });
  decoding = firsts(decoding, most_for_decoding);
  for (const Worker* const prompts : firsts(computing, most_for_prompts)) {
    const LoadWork of_prompts = work_of(q, *prompts, prompts->plan.attention_data, true);
    for (const Worker* const decode : decoding) {
      const ServingPlan& a = prompts->plan;
      const ServingPlan& b = decode->plan;
      if (!same_formats(a, b)) continue;
      if (a.devices() + b.devices() > all) continue;
      if (go_on && !go_on()) return best;
      for (std::uint32_t p = 1; p * a.devices() + b.devices() <= all; p = next_split(p)) {
        PooledPlan pools;
        pools.prompts = a;
        pools.decode = b;
        pools.prompt_workers = p;
        pools.decode_workers = std::min((all - p * a.devices()) / b.devices(),
                                        static_cast<std::uint32_t>(std::max(1.0, std::floor(*q.concurrency))));
        pools.keys = q.input * kv_bytes_per_token(q.model, b.kv_fp8);
        const double ways = std::min(a.stage_devices(), b.stage_devices());
        pools.transfer = pools.keys / (ways * q.cluster.levels.back().bandwidth);
        PoolWork work{of_prompts, work_of(q, *decode, *q.concurrency / pools.decode_workers, false),
                      static_cast<double>(p), static_cast<double>(pools.decode_workers), pools.transfer};
        pools.times = pool_times(work, q.engine.costs);
        pools.tokens_per_second = pools.times.tokens_per_second;
        pools.within_bounds = (!q.ttft || pools.times.ttft <= *q.ttft) && (!q.tpot || pools.times.tpot <= *q.tpot);
        if (q.cluster.price_per_gpu_hour) {
          pools.cost_per_million =
              *q.cluster.price_per_gpu_hour * pools.devices() / 3600.0 / pools.tokens_per_second * 1e6;
        }
        ++tried;
        if (!best || better(pools, *best)) best = pools;
      }
    }
  }
  if (best) best->tried = tried;
  return best;
}

}  // namespace orrery
