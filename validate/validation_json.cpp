#include "validate/validation_json.hpp"

#include <nlohmann/json.hpp>

#include "validate/ranking.hpp"

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const ErrorSummary& s) {
  return {{"n", s.n},
          {"mape_pct", s.mape_pct},
          {"median_pct", s.median_pct},
          {"p90_pct", s.p90_pct},
          {"max_pct", s.max_pct},
          {"bias_pct", s.bias_pct}};
}

Json to_json(const RunSummary& s) {
  return {{"time", to_json(s.time)}, {"memory", to_json(s.memory)}, {"reserved", to_json(s.reserved)}};
}

Json to_json(const PredictedMeasured& c) {
  return {{"predicted", c.predicted}, {"measured", c.measured}, {"error", c.error_pct}};
}

Json to_json(const ValidatedRun& r) {
  Json out{{"id", r.id}, {"predicted", r.step}};
  if (r.time) out.update({{"measured", r.time->measured}, {"error", r.time->error_pct}});
  out.update({{"low", r.low}, {"high", r.high}, {"interval_of", r.interval_of}});
  if (r.memory) out["memory"] = to_json(*r.memory);
  if (r.reserved) out["reserved"] = to_json(*r.reserved);
  out["filled"] = r.filled;
  return out;
}

Json to_json(const std::vector<ValidatedRun>& rows) {
  Json out = Json::array();
  for (const ValidatedRun& r : rows) out.push_back(to_json(r));
  return out;
}

Json coverage_of_intervals(const Validation& v) {
  Json out = Json::object();
  for (const RunGroup& g : grouped(v, GroupBy::interval)) {
    if (g.summary.time.n > 0) out[g.name] = {{"n", g.summary.time.n}, {"coverage", g.coverage}};
  }
  return out;
}

}  // namespace

Json to_json(const Validation& v, std::optional<GroupBy> by) {
  Json skipped = Json::array();
  std::size_t full = 0;
  for (const SkippedRun& s : v.skipped) {
    skipped.push_back({{"id", s.id}, {"reason", s.reason}, {"full_configuration", s.full_configuration}});
    full += s.full_configuration ? 1 : 0;
  }
  Json out{{"schema", 1},
           {"tier", v.tier},
           {"rows", to_json(v.rows)},
           {"inconsistent", to_json(v.inconsistent)},
           {"skipped", std::move(skipped)},
           {"counts",
            {{"rows", v.rows.size() + v.inconsistent.size() + v.skipped.size()},
             {"predicted", v.rows.size()},
             {"inconsistent", v.inconsistent.size()},
             {"skipped", v.skipped.size()},
             {"full_configurations", v.full_configurations},
             {"skipped_full_configurations", full}}},
           {"interval_coverage", interval_coverage(v)},
           {"interval_coverage_of", coverage_of_intervals(v)},
           {"summary", to_json(summary_of_all(v))},
           {"summary_of_published", to_json(summary_of_published(v))}};
  out["ranking"] = Json::array();
  for (const Ranking& r : rankings(v.rows)) {
    Json plans = Json::array();
    for (const RankedPlan& p : r.plans) {
      plans.push_back({{"id", p.id}, {"predicted", p.predicted}, {"measured", p.measured}});
    }
    out["ranking"].push_back({{"work", r.work},
                              {"spearman", r.spearman},
                              {"regret_pct", r.regret_pct},
                              {"seconds_per_sequence", std::move(plans)}});
  }
  if (by) {
    Json groups = Json::object();
    for (const RunGroup& g : grouped(v, *by)) {
      groups[g.name] = to_json(g.summary);
      groups[g.name]["interval_coverage"] = g.coverage;
    }
    out["groups"] = std::move(groups);
  }
  return out;
}

}  // namespace orrery
