#include <fmt/format.h>

#include <algorithm>

#include "core/base/counted.hpp"
#include "core/base/markup.hpp"
#include "core/base/units_text.hpp"
#include "report/folded_timeline.hpp"
#include "report/sections.hpp"

namespace orrery {
namespace {

/// By BarKind: the number of its colour in the style, whose variable is --c1 and whose class is k1.
constexpr int colours[] = {1, 3, 5, 2, 6, 4, 7};
constexpr std::size_t kinds = std::size(colours);

/// Text in quotes inside a script element: nothing in it can end the element.
std::string script_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '<' || static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

PageSection timeline_section(const ReportedPlan& p) {
  const std::vector<TimelineRow> rows = folded_timeline(p.program, p.step.trace);
  auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(p.step.report.step_time.base() * 1e12 + 0.5));
  for (const TimelineRow& row : rows) {
    for (const TimelineBar& bar : row.bars) step = std::max(step, bar.end);
  }
  const auto place = [&](std::int64_t t) {
    return static_cast<std::int64_t>(1e6 * (static_cast<double>(t) / static_cast<double>(step)) + 0.5);
  };
  std::string data = fmt::format("{{\"step\":{},\"kinds\":[", static_cast<double>(step) * 1e-12);
  std::string legend = "<div class=\"key\">\n";
  for (std::size_t k = 0; k < kinds; ++k) {
    const std::string_view name = name_of(static_cast<BarKind>(k));
    data += fmt::format("{}[{},\"--c{}\"]", k == 0 ? "" : ",", script_text(name), colours[k]);
    legend += fmt::format("<span><i class=\"k{}\"></i>{}</span>\n", colours[k], marked_up(name));
  }
  legend += "</div>\n";
  data += "],\"rows\":[";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    data += fmt::format("{}[{},[", r == 0 ? "" : ",\n", script_text(rows[r].name));
    bool first = true;
    for (const TimelineBar& bar : rows[r].bars) {
      const std::int64_t start = place(bar.start);
      data += fmt::format("{}{},{},{},{}", first ? "" : ",", start, place(bar.end) - start, static_cast<int>(bar.kind),
                          bar.microbatch);
      first = false;
    }
    data += "]]";
  }
  data += "]}";
  std::string body = paragraph(
      fmt::format(
          "One simulated step of {}; one rank of each stage stands for all that are like it. Numbers on bars are "
          "microbatches. The wheel, two fingers or the buttons zoom; dragging moves.",
          short_text(Seconds::of(static_cast<double>(step) * 1e-12), 4)),
      "soft");
  body += legend +
          "<div class=\"timeline\">\n<p><button type=\"button\">closer</button><button type=\"button\">wider</button>"
          "<button type=\"button\">whole step</button></p>\n";
  body +=
      fmt::format("<canvas tabindex=\"0\" role=\"img\" aria-label=\"timeline of {}\"></canvas>\n<output></output>\n",
                  counted(p.report.time_by_stage.size(), "stage"));
  body += fmt::format("<script type=\"application/json\">{}</script>\n</div>\n", data);
  body += "<noscript>" + paragraph("The timeline is drawn by the page's own script, which is switched off.") +
          "</noscript>\n";
  // The same in numbers, for readers without the picture.
  std::vector<std::vector<std::string>> table;
  for (const StageTime& t : p.report.time_by_stage) {
    table.push_back(
        {fmt::format("{}", t.stage), short_text(t.compute), short_text(exposed_collectives(t)), short_text(t.bubble)});
  }
  body += folded("Compute, waiting and bubble of each stage",
                 html_table({"stage", "compute", "waiting for collectives", "bubble"}, table));
  return {"timeline", "Timeline", body};
}

}  // namespace orrery
