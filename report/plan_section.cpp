#include <fmt/format.h>

#include "core/base/markup.hpp"
#include "report/sections.hpp"

namespace orrery {

PageSection plan_section(const ReportedPlan& p) {
  std::string body = "<h3>Plan file</h3>\n" + listing(p.plan_file);
  if (!p.resolved.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [key, value] : p.resolved) rows.push_back({key, value});
    body += folded("What the plan left open", html_table({"key", "<chosen, and why"}, rows));
  }
  std::string launches;
  for (const ReportedLaunch& l : p.launches) {
    launches += l.text.empty() ? paragraph(fmt::format("{}: {}.", l.title, l.refused), "soft")
                               : folded(fmt::format("{} (orrery export --to {})", l.title, l.name), listing(l.text));
  }
  if (!launches.empty()) body += "<h3>Launches</h3>\n" + launches;
  return {"plan", "Plan", body};
}

PageSection provenance_section(const ReportedPlan& p) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [what, whence] : p.provenance) rows.push_back({what, whence});
  std::string body = html_table({"what", "<from"}, rows);
  if (!p.report.assumptions.empty()) {
    body += "<h3>Assumptions</h3>\n<ul>\n";
    for (const std::string& a : p.report.assumptions) body += fmt::format("<li>{}</li>\n", marked_up(a));
    body += "</ul>\n";
  }
  return {"provenance", "Where the numbers come from", body};
}

std::string plan_page(const std::vector<ReportedPlan>& plans) {
  const ReportedPlan& first = plans.front();
  std::vector<PageSection> sections = {verdict_section(first)};
  if (plans.size() > 1) sections.push_back(comparison_section(plans));
  sections.push_back(figures_section(first));
  sections.push_back(memory_section(first));
  sections.push_back(timeline_section(first));
  sections.push_back(traffic_section(first));
  sections.push_back(path_section(first));
  sections.push_back(plan_section(first));
  sections.push_back(provenance_section(first));
  for (std::size_t i = 1; i < plans.size(); ++i) {
    std::string body = verdict_section(plans[i]).body;
    body += folded("Memory by stage", memory_section(plans[i]).body);
    body += folded("Critical path", path_section(plans[i]).body);
    body += folded("Plan and launches", plan_section(plans[i]).body);
    sections.push_back({fmt::format("plan-{}", i + 1), plans[i].run.plan.name, body});
  }
  return html_page(first.run.plan.name.empty() ? "plan" : first.run.plan.name, sections);
}

}  // namespace orrery
