#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/markup.hpp"
#include "core/base/units_text.hpp"
#include "report/sections.hpp"

namespace orrery {
namespace {

struct Stair {
  std::string name;
  double from = 0.0, to = 0.0;  ///< seconds
  bool whole = false;           ///< a plan's step, not a part of the difference
};

/// From one step to another by compute, waiting and bubble, which together are the step.
std::vector<Stair> stairs_of(const ReportedPlan& a, const ReportedPlan& b) {
  const Report &x = a.report, &y = b.report;
  std::vector<Stair> out = {{a.run.plan.name, 0.0, x.step_time.base(), true}};
  double at = x.step_time.base();
  const auto part = [&](const char* name, Seconds before, Seconds after) {
    out.push_back({name, at, at + (after - before).base(), false});
    at = out.back().to;
  };
  part("compute", x.compute, y.compute);
  part("waiting for collectives", exposed_collectives(x), exposed_collectives(y));
  part("bubble", x.bubble_fraction * x.step_time, y.bubble_fraction * y.step_time);
  out.push_back({b.run.plan.name, 0.0, y.step_time.base(), true});
  return out;
}

std::string signed_text(double seconds) {
  return (seconds < 0.0 ? "-" : "+") + short_text(Seconds::of(std::abs(seconds)));
}

std::string waterfall(const std::vector<Stair>& stairs) {
  double most = 0.0;
  for (const Stair& s : stairs) most = std::max({most, s.from, s.to});
  constexpr double left = 190.0, width = 420.0, height = 30.0;
  const double scale = most > 0.0 ? width / most : 0.0;
  std::string out = fmt::format(
      "<svg role=\"img\" aria-label=\"from one step to the other\" width=\"740\" height=\"{0:.0f}\" viewBox=\"0 0 740 "
      "{0:.0f}\">\n",
      height * static_cast<double>(stairs.size()));
  for (std::size_t i = 0; i < stairs.size(); ++i) {
    const Stair& s = stairs[i];
    const double y = height * static_cast<double>(i), low = std::min(s.from, s.to), high = std::max(s.from, s.to);
    const std::string name = s.name.size() > 26 ? s.name.substr(0, 25) + "." : s.name;
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 8.0, y + 19.0,
                       marked_up(name));
    out += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"20\"/>\n",
                       s.whole         ? "f1"
                       : s.to > s.from ? "f6"
                                       : "f3",
                       left + scale * low, y + 4.0, std::max(1.0, scale * (high - low)));
    out += fmt::format("<text x=\"{:.2f}\" y=\"{:.1f}\">{}</text>\n", left + scale * high + 8.0, y + 19.0,
                       s.whole ? short_text(Seconds::of(s.to)) : signed_text(s.to - s.from));
  }
  return out + "</svg>\n";
}

}  // namespace

PageSection comparison_section(const std::vector<ReportedPlan>& plans) {
  std::vector<std::string> headers = {"figure"};
  for (const ReportedPlan& p : plans) headers.push_back(p.run.plan.name);
  const auto row = [&](const char* name, const auto& text) {
    std::vector<std::string> out = {name};
    for (const ReportedPlan& p : plans) out.push_back(text(p));
    return out;
  };
  const std::vector<std::vector<std::string>> rows = {
      row("predicted step", [](const ReportedPlan& p) { return short_text(p.report.step_time, 4); }),
      row("tokens/s per GPU", [](const ReportedPlan& p) { return short_count(p.report.tokens_per_s_per_gpu, 4); }),
      row("MFU",
          [](const ReportedPlan& p) { return fmt::format("{:.1f} %", 100.0 * p.report.model_flops_utilization); }),
      row("compute", [](const ReportedPlan& p) { return short_text(p.report.compute); }),
      row("waiting for collectives", [](const ReportedPlan& p) { return short_text(exposed_collectives(p.report)); }),
      row("bubble", [](const ReportedPlan& p) { return short_text(p.report.bubble_fraction * p.report.step_time); }),
      row("fullest device",
          [](const ReportedPlan& p) { return short_text(Bytes::of(static_cast<double>(held(p.report)))); }),
      row("fits", [](const ReportedPlan& p) { return std::string(p.report.fits ? "yes" : "no"); }),
      row("cost per step",
          [](const ReportedPlan& p) {
            return p.report.cost_per_step ? fmt::format("{:.4g} {}", *p.report.cost_per_step, p.report.cost_currency)
                                          : std::string("-");
          }),
  };
  std::string body = html_table(headers, rows);
  for (std::size_t i = 1; i < plans.size(); ++i) {
    body +=
        fmt::format("<h3>From {} to {}</h3>\n", marked_up(plans[0].run.plan.name), marked_up(plans[i].run.plan.name));
    body += waterfall(stairs_of(plans[0], plans[i]));
    if (plans[i].differences.empty()) continue;
    body += "<ul>\n";
    for (const std::string& d : plans[i].differences) body += fmt::format("<li>{}</li>\n", marked_up(d));
    body += "</ul>\n";
  }
  return {"comparison", "Comparison", body};
}

}  // namespace orrery
