#include <fmt/format.h>

#include "core/base/markup.hpp"
#include "core/base/units_text.hpp"
#include "core/spec/node_kinds.hpp"
#include "report/sections.hpp"

namespace orrery {
namespace {

std::string card(const std::string& value, const std::string& name, const std::string& more = "") {
  return fmt::format("<div class=\"card\"><b>{}</b>{}{}</div>\n", marked_up(value), marked_up(name),
                     more.empty() ? "" : fmt::format("<br><span>{}</span>", marked_up(more)));
}

}  // namespace

PageSection verdict_section(const ReportedPlan& p) {
  const Report& r = p.report;
  const Workload& w = p.run.workload;
  std::string body =
      paragraph(fmt::format("{}, {} parameters, on {} ({}); batch {} x {} tokens{}", p.run.model.name,
                            short_count(static_cast<double>(parameter_count(p.run.model))), p.run.cluster->name,
                            devices_text(*p.run.cluster), w.global_batch, w.sequence_length,
                            w.adapters ? fmt::format("; adapters of rank {} are trained", w.adapters->rank) : ""));
  body += paragraph((r.fits ? "It " : "It does not fit: ") + p.verdict + ".", r.fits ? "good" : "bad");
  body += "<div class=\"cards\">\n";
  body += card(p.step_time, "step time", p.interval.empty() ? "" : p.interval + " in eight of ten measured cases");
  body += card(short_count(p.faster * r.tokens_per_s, 4), "tokens/s",
               short_count(p.faster * r.tokens_per_s_per_gpu, 4) + " per GPU");
  if (r.model_flops_utilization > 0.0) {
    body += card(fmt::format("{:.1f} %", 100.0 * p.faster * r.model_flops_utilization), "MFU",
                 fmt::format("hardware {:.1f} %", 100.0 * p.faster * r.hardware_flops_utilization));
  }
  body +=
      card(short_text(Bytes::of(static_cast<double>(held(r)))), "fullest device",
           r.memory_capacity_bytes ? "of " + short_text(Bytes::of(static_cast<double>(*r.memory_capacity_bytes))) : "");
  if (r.cost_per_step) {
    body += card(fmt::format("{:.4g} {}", *r.cost_per_step / p.faster, r.cost_currency), "cost per step");
  }
  body += card(fmt::format("{:.1f} %", 100.0 * r.bubble_fraction), "bubble");
  body += "</div>\n" + paragraph(p.description, "soft");
  return {"verdict", "Verdict", body};
}

}  // namespace orrery
