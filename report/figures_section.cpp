#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/base/markup.hpp"
#include "core/base/units_text.hpp"
#include "core/record/rates.hpp"
#include "core/spec/node_kinds.hpp"
#include "report/sections.hpp"

namespace orrery {
namespace {

constexpr std::size_t most_prices = 40;
constexpr std::size_t deepest = 12;

std::string figure(const std::string& line, const std::string& formula, const std::string& numbers,
                   const std::string& source) {
  return folded(line, listing(formula + "\n" + numbers) + paragraph(source, "soft"));
}

std::string tree(const DerivedNumber& n, std::size_t depth = 0) {
  const std::string where = n.where.empty() ? "" : ", " + n.where;
  const std::string line = n.by == NumberBy::given
                               ? fmt::format("{} = {} ({}{})", n.name, value_text(n), name_of(n.source), where)
                               : fmt::format("{} = {}: the {} of{}", n.name, value_text(n), name_of(n.by), where);
  if (n.from.empty() || depth == deepest) return fmt::format("<li>{}</li>\n", marked_up(line));
  std::string out = fmt::format("<li>{}<ul>\n", marked_up(line));
  for (const DerivedNumber& part : n.from) out += tree(part, depth + 1);
  return out + "</ul></li>\n";
}

std::string prices(const ReportedPlan& p) {
  if (p.prices.empty()) return "";
  std::string out = paragraph(
      "One run of each, the most expensive together first. A click opens the numbers that a "
      "price was computed from, down to files.",
      "soft");
  for (std::size_t i = 0; i < std::min(most_prices, p.prices.size()); ++i) {
    const ReportedPrice& price = p.prices[i];
    const Seconds all = Seconds::of(price.price.value * price.runs);
    out += folded(fmt::format("{}: {}, {:.4g} times, {} together", price.what, value_text(price.price), price.runs,
                              short_text(all)),
                  "<ul>\n" + tree(price.price) + "</ul>\n");
  }
  if (p.prices.size() > most_prices) {
    out += paragraph(fmt::format("{} cheaper ones are left out.", p.prices.size() - most_prices), "soft");
  }
  return "<h3>Prices of operations</h3>\n" + folded(counted(p.prices.size(), "operation"), out);
}

}  // namespace

PageSection figures_section(const ReportedPlan& p) {
  const Report& r = p.report;
  const Workload& w = p.run.workload;
  const double tokens = static_cast<double>(w.global_batch) * static_cast<double>(w.sequence_length);
  const Seconds bubble = r.bubble_fraction * r.step_time, waiting = exposed_collectives(r);
  std::string body = figure(
      fmt::format("predicted step {}", short_text(r.step_time, 4)), "step = compute + waiting for collectives + bubble",
      fmt::format("{} = {} + {} + {}", short_text(r.step_time, 4), short_text(r.compute, 4), short_text(waiting, 4),
                  short_text(bubble, 4)),
      "Means over ranks (docs/formulas/step.md). Time in which a message between stages moves is in the bubble.");
  if (p.faster != 1.0) {
    body +=
        paragraph(fmt::format("No software is named, so {} is the middle of the measured range; the parts below are "
                              "those of the predicted step.",
                              p.step_time),
                  "soft");
  }
  body += figure(fmt::format("{} tokens/s", short_count(r.tokens_per_s, 4)), "tokens/s = batch x sequence / step",
                 fmt::format("{} = {} x {} / {}", short_count(r.tokens_per_s, 4), w.global_batch, w.sequence_length,
                             short_text(r.step_time, 4)),
                 fmt::format("{} tokens a step.", short_count(tokens, 4)));
  const std::optional<FlopRate> peak = total_peak(*p.run.cluster, w.precision, r.gpus);
  if (peak && r.model_flops_utilization > 0.0) {
    const double flops = model_flops(p.run.model, w);
    body +=
        figure(fmt::format("MFU {:.2f} %", 100.0 * r.model_flops_utilization), "MFU = F / (step x peak of all devices)",
               fmt::format("{:.2f} % = {}FLOP / ({} x {})", 100.0 * r.model_flops_utilization, short_count(flops, 4),
                           short_text(r.step_time, 4), short_text(*peak, 4)),
               "F is the model's FLOPs without recomputation: " + r.flop_convention + " (docs/formulas/compute.md).");
  }
  if (r.cost_per_step && p.run.cluster->price_per_gpu_hour) {
    body += figure(fmt::format("{:.4g} {} a step", *r.cost_per_step, r.cost_currency),
                   "cost = price of a GPU-hour x GPUs x step / 3600 s",
                   fmt::format("{:.4g} = {:g} x {} x {} / 3600 s", *r.cost_per_step, *p.run.cluster->price_per_gpu_hour,
                               r.gpus, short_text(r.step_time, 4)),
                   p.run.cluster->price_source);
  }
  body += figure(fmt::format("{} sent by all ranks", short_text(Bytes::of(static_cast<double>(r.sent_bytes)))),
                 "sum over all operations of all ranks", "ring algorithms: 2 n (p - 1) / p for an all-reduce",
                 "docs/formulas/collectives.md");
  // Time by kind of operation.
  std::vector<OperationTime> operations = r.operations;
  std::stable_sort(operations.begin(), operations.end(), [](const auto& a, const auto& b) { return a.time > b.time; });
  std::vector<std::vector<std::string>> rows;
  for (const OperationTime& op : operations) {
    if (op.time.base() < 1e-4 * r.step_time.base()) continue;
    rows.push_back({op.name, short_text(op.time), fmt::format("{:.2f} %", 100.0 * (op.time / r.step_time)),
                    fmt::format("{}", op.count)});
  }
  body += "<h3>Time by kind of operation, mean over ranks</h3>\n" +
          html_table({"operation", "time", "of the step", "runs"}, rows) + prices(p);
  return {"figures", "Figures and formulas", body};
}

}  // namespace orrery
