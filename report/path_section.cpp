#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/base/counted.hpp"
#include "core/base/units_text.hpp"
#include "report/sections.hpp"

namespace orrery {
namespace {

Seconds seconds(std::int64_t picoseconds) { return Seconds::of(static_cast<double>(picoseconds) * 1e-12); }

}  // namespace

PageSection path_section(const ReportedPlan& p) {
  if (!p.step.critical_path || p.step.critical_path->steps.empty()) {
    return {"path", "Critical path", paragraph("It is not known.")};
  }
  const CriticalPath& path = *p.step.critical_path;
  const std::int64_t step = std::max<std::int64_t>(1, path.steps.back().end);
  const auto share = [&](std::int64_t t) {
    return fmt::format("{:.2f} %", 100.0 * static_cast<double>(t) / static_cast<double>(step));
  };
  std::vector<std::vector<std::string>> rows;
  for (const Gain& g : p.step.gains) {
    if (g.links) continue;
    rows.push_back({g.all_compute ? "all kernels together" : name_of(g.operation), short_text(seconds(g.on_path)),
                    share(g.on_path), short_text(seconds(g.saved)), share(g.saved)});
  }
  std::size_t moves = 0;
  std::map<std::uint32_t, std::int64_t> stages;
  for (std::size_t i = 0; i < path.steps.size(); ++i) {
    const CriticalStep& s = path.steps[i];
    if (i > 0 && s.rank != path.steps[i - 1].rank) ++moves;
    stages[p.program.mesh.coordinate(s.rank, Axis::pipeline)] += s.end - s.start;
  }
  std::string body = paragraph(
      fmt::format("{} decide how long the step takes, one behind the other; the path goes {} from rank to rank.",
                  counted(path.steps.size(), "operation"), counted(moves, "time")),
      "soft");
  body += html_table({"on the path", "time", "of the step", "10 % less of it saves", "of the step"}, rows);
  std::vector<std::vector<std::string>> where;
  for (const auto& [stage, time] : stages) {
    where.push_back({fmt::format("{}", stage), short_text(seconds(time)), share(time)});
  }
  body += folded("Where the path lies", html_table({"stage", "time on the path", "of the step"}, where));
  return {"path", "Critical path", body};
}

}  // namespace orrery
