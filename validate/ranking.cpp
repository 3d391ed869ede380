#include "validate/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/diagnostics.hpp"
#include "validate/validation.hpp"

namespace orrery {
namespace {

/// Ranks from 1 for the least on; equal values share the mean.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<double> out;
  for (const double v : values) {
    double below = 0.0;
    double equal = 0.0;
    for (const double other : values) {
      below += other < v ? 1.0 : 0.0;
      equal += other == v ? 1.0 : 0.0;
    }
    out.push_back(below + (equal + 1.0) / 2.0);
  }
  return out;
}

Ranking ranking_of(const std::string& work, const std::vector<const ValidatedRun*>& rows) {
  struct Sum {
    RankedPlan plan;
    double rows = 0.0;
  };
  std::vector<std::string> order;
  std::map<std::string, Sum> plans;
  for (const ValidatedRun* r : rows) {
    const auto [at, fresh] = plans.try_emplace(r->plan);
    Sum& sum = at->second;
    if (fresh) {
      order.push_back(r->plan);
      sum.plan = {r->id, r->step / r->sequences, 0.0};
    }
    sum.plan.measured += r->time->measured / r->sequences;
    sum.rows += 1.0;
  }
  Ranking out;
  out.work = work;
  for (const std::string& plan : order) {
    Sum& sum = plans.at(plan);
    sum.plan.measured /= sum.rows;
    out.plans.push_back(std::move(sum.plan));
  }
  std::stable_sort(out.plans.begin(), out.plans.end(),
                   [](const RankedPlan& a, const RankedPlan& b) { return a.measured < b.measured; });
  return out;
}

}  // namespace

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  ORRERY_ASSERT(a.size() == b.size(), a.size(), b.size());
  const std::vector<double> x = ranks(a);
  const std::vector<double> y = ranks(b);
  const double mean = (static_cast<double>(a.size()) + 1.0) / 2.0;
  double xy = 0.0;
  double xx = 0.0;
  double yy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0.0 && yy > 0.0 ? xy / std::sqrt(xx * yy) : 0.0;
}

std::vector<Ranking> rankings(const std::vector<ValidatedRun>& rows) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const ValidatedRun*>> groups;
  for (const ValidatedRun& r : rows) {
    if (!r.time) continue;
    std::vector<const ValidatedRun*>& group = groups[r.work];
    if (group.empty()) order.push_back(r.work);
    group.push_back(&r);
  }
  std::vector<Ranking> out;
  for (const std::string& work : order) {
    Ranking r = ranking_of(work, groups.at(work));
    if (r.plans.size() < fewest_ranked) continue;
    std::vector<double> predicted, measured;
    for (const RankedPlan& p : r.plans) {
      predicted.push_back(p.predicted);
      measured.push_back(p.measured);
    }
    r.spearman = spearman(predicted, measured);
    const auto chosen =
        static_cast<std::size_t>(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
    r.regret_pct = 100.0 * (measured[chosen] / measured.front() - 1.0);
    out.push_back(std::move(r));
  }
  return out;
}

}  // namespace orrery
