#include "cli/forecast_variants.hpp"

#include <fmt/format.h>

#include <set>
#include <utility>

namespace orrery {
namespace {

std::vector<std::uint64_t> batches_near(std::uint64_t batch) {
  std::set<std::uint64_t> sizes;
  for (std::uint64_t part = 8; part >= 2; part /= 2) {
    if (batch / part > 0) sizes.insert(batch / part);
  }
  for (std::uint64_t times = 1; times <= 8; times *= 2) sizes.insert(batch * times);
  return {sizes.begin(), sizes.end()};
}

/// The table shows money in one currency.
void require_one_currency(const ClusterSpec& one, const ClusterSpec& other) {
  if (!one.price_per_gpu_hour || !other.price_per_gpu_hour || one.price_currency == other.price_currency) return;
  refuse("forecast.price",
         fmt::format("{} costs {}, and {} costs {}", one.name, one.price_currency, other.name, other.price_currency),
         {"All that are tried need one currency: --price and --also CLUSTER=PRICE give it."});
}

}  // namespace

std::vector<ForecastVariant> variants_of(const ForecastAnswer& answer, const VariantQuestion& asked,
                                         const SizeWish& wish, const ForecastWishes& wishes, const CommonFlags& flags,
                                         const PowerTable& power) {
  std::vector<ForecastVariant> out{{answer, flags}};
  const Workload& work = answer.subject.run.workload;
  const double tokens = answer.inputs.tokens / asked.token_factor(work);
  const auto add = [&](const std::string& cluster, const CommonFlags& its, std::uint64_t batch) {
    SearchQuestion q = asked.question;
    q.flags = its;
    q.cluster = cluster;
    q.batch = batch;
    q.sequence = work.sequence_length;
    q.model = its.model.value_or("");
    const ForecastSubject subject =
        asked.plan ? forecast_subject(load_plan(*asked.plan, its, cluster), power) : searched_subject(q, power);
    for (const ForecastVariant& v : out) require_one_currency(*v.answer.subject.run.cluster, *subject.run.cluster);
    out.push_back({forecast_answer(subject, asked.token_factor(subject.run.workload) * tokens, wishes, its), its});
    if (wish.least) require_amount(out.back().answer, *wish.least);
  };
  std::vector<std::pair<std::string, CommonFlags>> clusters;
  if (asked.cluster) clusters.emplace_back(*asked.cluster, flags);
  for (const std::string& word : asked.also) {
    const std::size_t sign = word.rfind('=');
    clusters.emplace_back(word.substr(0, sign), flags);
    if (sign != std::string::npos) clusters.back().second.price = word.substr(sign + 1);
  }
  const std::vector<std::uint64_t> batches =
      asked.batches ? batches_near(work.global_batch) : std::vector<std::uint64_t>{work.global_batch};
  for (std::size_t i = 0; i < clusters.size(); ++i) {
    for (const std::uint64_t batch : batches) {
      const bool is_own_batch = batch == work.global_batch;
      if (asked.cluster && i == 0 && is_own_batch) continue;  // that is the answer
      try {
        add(clusters[i].first, clusters[i].second, batch);
      } catch (const InputError&) {
        if (is_own_batch) throw;
      }
    }
  }
  return out;
}

ForecastSizes best_variant(const std::vector<ForecastVariant>& variants, const SizeWish& wish,
                           const ForecastWishes& wishes, const PowerTable& power) {
  ForecastSizes best;
  const auto is_better = [&](const ForecastAnswer& a, const ForecastAnswer& than) {
    if (wish.least) return amount_of(a, *wish.least) < amount_of(than, *wish.least);
    if (a.inputs.gpus != than.inputs.gpus) return a.inputs.gpus < than.inputs.gpus;
    return a.wall_s() < than.wall_s();
  };
  for (const ForecastVariant& v : variants) {
    ForecastSizes its = forecast_sizes(v.answer, wish, wishes, v.flags, power);
    best.tried.insert(best.tried.end(), its.tried.begin(), its.tried.end());
    if (its.chosen && (!best.chosen || is_better(*its.chosen, *best.chosen))) best.chosen = std::move(its.chosen);
  }
  return best;
}

}  // namespace orrery
