#include "validate/collective_json.hpp"

#include <nlohmann/json.hpp>

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

Json rows_json(const std::vector<ValidatedCollective>& rows) {
  Json out = Json::array();
  for (const ValidatedCollective& r : rows) {
    Json row{{"id", r.row.id},
             {"machine", r.row.machine},
             {"collective", r.row.collective},
             {"bytes", *r.row.bytes},
             {"predicted", r.predicted.time.base()},
             {"measured", *r.row.time_us * 1e-6},
             {"error", r.error_pct},
             {"modelled", r.predicted.modelled.base()}};
    if (r.predicted.algorithm) {
      row["algorithm"] = std::string(name_of(*r.predicted.algorithm));
      row["protocol"] = std::string(name_of(*r.predicted.protocol));
    }
    if (r.chosen_right) row["chosen_right"] = *r.chosen_right;
    if (r.low_pct) {
      row["low"] = r.predicted.time.base() * (1.0 + *r.low_pct / 100.0);
      row["high"] = r.predicted.time.base() * (1.0 + *r.high_pct / 100.0);
    }
    out.push_back(std::move(row));
  }
  return out;
}

Json errors_json(const ErrorSummary& e) {
  return {{"n", e.n},
          {"mape_pct", e.mape_pct},
          {"median_pct", e.median_pct},
          {"p90_pct", e.p90_pct},
          {"max_pct", e.max_pct},
          {"bias_pct", e.bias_pct}};
}

}  // namespace

Json to_json(const CollectiveValidation& v) {
  Json out;
  out["rows"] = rows_json(v.rows);
  out["noisy"] = rows_json(v.noisy);
  out["skipped"] = Json::array();
  for (const SkippedCollective& s : v.skipped) out["skipped"].push_back({{"id", s.id}, {"reason", s.reason}});
  out["machines"] = Json::array();
  for (const CollectiveSummary& s : summaries(v)) {
    out["machines"].push_back({{"name", s.machine},
                               {"rows", s.runs},
                               {"below_1_mib", errors_json(s.below)},
                               {"from_1_mib", errors_json(s.from)},
                               {"from_64_mib", errors_json(s.large)}});
  }
  const ChoiceCount c = choices(v);
  out["choices"] = {{"known", c.known}, {"right", c.right}};
  return out;
}

}  // namespace orrery
