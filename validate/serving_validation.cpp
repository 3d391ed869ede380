#include "validate/serving_validation.hpp"

#include <map>

namespace orrery {

std::vector<ServingErrors> serving_errors(const std::vector<ServingCase>& cases,
                                          const std::vector<ServingTimes>& times) {
  struct Errors {
    std::vector<double> tpot, ttft;
  };
  std::map<std::string, Errors> of;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const ServingCase& c = cases[i];
    const double tpot = error_pct(times[i].tpot.in(second), *c.tpot_s);
    std::vector<std::string> names{"1 " + std::string(c.pool == "aggregated" ? "" : "disaggregated ") + c.kind};
    if (c.pool == "aggregated") {
      names.push_back("2 " + c.engine);
      names.push_back("3 " + c.gpu);
      names.push_back("4 " + c.precision);
      names.push_back("5 " + c.model);
    }
    for (const std::string& name : names) {
      Errors& e = of[name];
      e.tpot.push_back(tpot);
      if (c.ttft_s && !times[i].saturated) e.ttft.push_back(error_pct(times[i].ttft.in(second), *c.ttft_s));
    }
  }
  std::vector<ServingErrors> out;
  for (const auto& [name, e] : of) {
    out.push_back({name.substr(2), summarize_errors(e.tpot), summarize_errors(e.ttft)});
  }
  return out;
}

std::optional<ServingValidation> validate_serving(const std::vector<MeasuredServing>& rows, const EngineTable& engines,
                                                  const Library& library, const std::function<bool(double)>& go_on) {
  ServingValidation out;
  ServingCases read = serving_cases(rows, engines, library);
  out.cases = std::move(read.cases);
  out.skipped = std::move(read.skipped);
  out.shipped = engines;
  std::vector<const ServingCase*> all;
  for (const ServingCase& c : out.cases) {
    if (is_fitted_to(c)) all.push_back(&c);
  }
  const auto by = [&](const EngineTable& t) {
    std::vector<ServingTimes> times;
    for (const ServingCase& c : out.cases) times.push_back(predicted(c, t.find(c.engine)->costs));
    return times;
  };
  const auto add = [&](const char* name, std::vector<ServingTimes> times) {
    ServingRound round{name, std::move(times), {}};
    round.groups = serving_errors(out.cases, round.times);
    out.rounds.push_back(std::move(round));
  };
  add("shipped costs", by(engines));
  out.refitted = fit_engines(engines, all);
  add("costs fitted to this table", by(out.refitted));
  bool stopped = false;
  const auto without = [&](const char* name, double from, const auto& key) {
    std::vector<ServingTimes> times = held_out(engines, out.cases, key, [&](double share) {
      stopped = stopped || (go_on && !go_on(from + 0.5 * share));
      return !stopped;
    });
    if (!stopped) add(name, std::move(times));
  };
  without("costs that have not seen the point's lengths", 0.0, [](const ServingCase& c) { return c.shape; });
  if (!stopped)
    without("costs that have not seen the point's model", 0.5, [](const ServingCase& c) { return c.model; });
  if (stopped) return std::nullopt;
  return out;
}

}  // namespace orrery
