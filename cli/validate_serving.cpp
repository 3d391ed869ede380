#include "cli/validate_serving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/interrupt.hpp"
#include "cli/progress.hpp"
#include "cli/status.hpp"
#include "cli/table.hpp"
#include "cli/wrapping.hpp"
#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "validate/serving_validation.hpp"

namespace orrery {
namespace {

using Json = nlohmann::ordered_json;

std::string pct(double v) { return fmt::format("{:.1f}", v); }

std::string round_text(const ServingRound& r) {
  Table table({"", "n", "TPOT MAPE", "median", "p90", "bias", "TTFT median", "bias"});
  for (const ServingErrors& e : r.groups) {
    table.row({e.name, fmt::format("{}", e.tpot.n), pct(e.tpot.mape_pct), pct(e.tpot.median_pct), pct(e.tpot.p90_pct),
               fmt::format("{:+.1f}", e.tpot.bias_pct), pct(e.ttft.median_pct),
               fmt::format("{:+.1f}", e.ttft.bias_pct)});
  }
  return fmt::format("By {}\n{}\n", r.name, table.str(""));
}

std::string costs_text(const ServingValidation& v) {
  const auto value = [](const EngineFigure& f) {
    return is_factor(f.cost) ? fmt::format("{:.3f}", f.value) : short_text(Seconds::of(f.value));
  };
  Table table({"cost", "<of", "shipped", "fitted here"});
  const auto rows = [&](const std::vector<EngineFigure>& a, const std::vector<EngineFigure>& b, const char* of) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      table.row({std::string(name_of(a[i].cost)), of, value(a[i]), a[i].spread > 0.0 ? value(b[i]) : "not fitted"});
    }
  };
  rows(v.shipped.shared, v.refitted.shared, "all engines");
  for (std::size_t e = 0; e < v.shipped.engines.size(); ++e) {
    rows(v.shipped.engines[e].own, v.refitted.engines[e].own, v.shipped.engines[e].name.c_str());
  }
  return table.str("");
}

std::string skipped_text(const ServingValidation& v) {
  if (v.skipped.empty()) return "";
  std::map<std::string, std::size_t> reasons;
  for (const SkippedServing& s : v.skipped) ++reasons[s.reason];
  Table table({"<not predicted", "rows"});
  for (const auto& [reason, n] : reasons) table.row({reason, fmt::format("{}", n)});
  return "\n" + table.str("");
}

std::string all_rows_text(const ServingValidation& v) {
  Table table({"row", "TPOT predicted", "measured", "error", "TTFT predicted", "measured"});
  for (std::size_t i = 0; i < v.cases.size(); ++i) {
    const ServingTimes& t = v.rounds.front().times[i];
    table.row({v.cases[i].id, short_text(t.tpot), short_text(Seconds::of(*v.cases[i].tpot_s)),
               fmt::format("{:+.1f} %", error_pct(t.tpot.in(second), *v.cases[i].tpot_s)),
               short_text(t.ttft) + (t.saturated ? " (queues)" : ""),
               v.cases[i].ttft_s ? short_text(Seconds::of(*v.cases[i].ttft_s)) : ""});
  }
  return table.str("") + "\n";
}

Json errors_json(const ErrorSummary& e) {
  return {{"n", e.n},
          {"mape_pct", e.mape_pct},
          {"median_pct", e.median_pct},
          {"p90_pct", e.p90_pct},
          {"bias_pct", e.bias_pct}};
}

Json figures_json(const std::vector<EngineFigure>& figures) {
  Json out = Json::object();
  for (const EngineFigure& f : figures) out[std::string(name_of(f.cost))] = f.value;
  return out;
}

Json json_of(const ServingValidation& v) {
  Json out;
  out["rounds"] = Json::array();
  for (const ServingRound& r : v.rounds) {
    Json groups = Json::array();
    for (const ServingErrors& e : r.groups) {
      groups.push_back({{"group", e.name}, {"tpot", errors_json(e.tpot)}, {"ttft", errors_json(e.ttft)}});
    }
    out["rounds"].push_back({{"costs", r.name}, {"groups", std::move(groups)}});
  }
  out["refitted"]["all"] = figures_json(v.refitted.shared);
  for (const Engine& e : v.refitted.engines) out["refitted"][e.name] = figures_json(e.own);
  out["rows"] = Json::array();
  for (std::size_t i = 0; i < v.cases.size(); ++i) {
    const ServingCase& c = v.cases[i];
    const ServingTimes& t = v.rounds.front().times[i];
    out["rows"].push_back({{"id", c.id},
                           {"engine", c.engine},
                           {"gpu", c.gpu},
                           {"model", c.model},
                           {"pool", c.pool},
                           {"lengths", c.shape},
                           {"kv", c.kv},
                           {"tpot_s", t.tpot.in(second)},
                           {"tpot_measured_s", *c.tpot_s},
                           {"ttft_s", t.ttft.in(second)},
                           {"ttft_measured_s", c.ttft_s ? Json(*c.ttft_s) : Json(nullptr)},
                           {"queues", t.saturated}});
  }
  out["not_predicted"] = Json::array();
  for (const SkippedServing& s : v.skipped) out["not_predicted"].push_back({{"id", s.id}, {"reason", s.reason}});
  return out;
}

}  // namespace

int validate_serving_table(const CommonFlags& flags, const std::string& file, bool all_rows) {
  keep_apart(file, {flags.output});
  require_output(flags);
  const Library library = library_of(flags);
  Diagnostics d;
  const std::optional<std::vector<MeasuredServing>> rows = read_serving(file, d);
  const std::optional<EngineTable> engines = read_engines(engines_path(library), d);
  require_none(d);
  catch_interrupt();
  std::optional<Ticker> ticker(std::in_place, "validate");
  const std::optional<ServingValidation> v = validate_serving(*rows, *engines, library, [&](double share) {
    ticker->show("refit", static_cast<std::uint64_t>(100.0 * share), 100);
    return !interrupted();
  });
  ticker.reset();
  if (!v) return interrupted_status();
  std::string text = fmt::format(
      "Predicted beside measured, in percent of what was measured. KV formats are assumed: fp8 where TensorRT-LLM "
      "serves fp8 or four-bit weights, else bf16. TTFT counts where requests do not queue for room.\n\n");
  if (all_rows) text += all_rows_text(*v);
  for (const ServingRound& r : v->rounds) text += round_text(r);
  text += costs_text(*v) + skipped_text(*v);
  text += fmt::format("\n{}: {} predicted, {} not\n", counted(rows->size(), "row"), v->cases.size(), v->skipped.size());
  answer(flags, json_of(*v), wrapped(text, output_columns()));
  return status_fine;
}

}  // namespace orrery
