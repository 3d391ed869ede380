#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/markup.hpp"
#include "core/base/units_text.hpp"
#include "report/sections.hpp"
#include "report/traffic_matrix.hpp"

namespace orrery {
namespace {

std::string bytes_text(double bytes) { return short_text(Bytes::of(bytes)); }

std::string ranks_text(std::uint32_t cell, std::uint32_t size) {
  return size == 1 ? fmt::format("rank {}", cell) : fmt::format("ranks {} to {}", cell * size, (cell + 1) * size - 1);
}

/// Squares whose depth of colour grows with the logarithm of the bytes.
std::string drawing(const TrafficMatrix& m) {
  double most = 0.0, least = 0.0;
  for (const auto& row : m.bytes) {
    for (const double b : row) {
      if (b <= 0.0) continue;
      most = std::max(most, b);
      least = least == 0.0 ? b : std::min(least, b);
    }
  }
  const std::size_t n = m.bytes.size();
  const double side = std::clamp(520.0 / static_cast<double>(n), 6.0, 40.0), edge = 46.0;
  const double all = side * static_cast<double>(n);
  std::string out = fmt::format(
      "<svg role=\"img\" aria-label=\"bytes between ranks\" width=\"{0:.0f}\" height=\"{0:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{0:.0f}\">\n<rect class=\"chart\" x=\"{1}\" y=\"{1}\" width=\"{2:.1f}\" height=\"{2:.1f}\"/>\n",
      all + edge + 2.0, edge, all);
  const std::size_t every = std::max<std::size_t>(1, n / 8);
  for (std::size_t i = 0; i < n; i += every) {
    const double at = edge + side * (static_cast<double>(i) + 0.5);
    const auto rank = i * m.ranks_in_cell;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", at, edge - 6.0, rank);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", edge - 5.0, at + 4.0, rank);
  }
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      const double b = m.bytes[from][to];
      if (b <= 0.0) continue;
      const double depth = most > least ? std::log(b / least) / std::log(most / least) : 1.0;
      out += fmt::format(
          "<rect class=\"f1\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "opacity=\"{:.2f}\"><title>{} "
          "to {}: {}</title></rect>\n",
          edge + side * static_cast<double>(to), edge + side * static_cast<double>(from), side - 0.5, side - 0.5,
          0.2 + 0.8 * depth, ranks_text(static_cast<std::uint32_t>(from), m.ranks_in_cell),
          ranks_text(static_cast<std::uint32_t>(to), m.ranks_in_cell), bytes_text(b));
    }
  }
  return out + "</svg>\n" +
         paragraph(
             fmt::format("Rows send, columns receive; {} the least cell to {} the most, on a logarithmic scale.{}",
                         bytes_text(least), bytes_text(most),
                         m.ranks_in_cell > 1
                             ? fmt::format(" A cell is {} ranks by {} ranks.", m.ranks_in_cell, m.ranks_in_cell)
                             : ""),
             "soft");
}

}  // namespace

PageSection traffic_section(const ReportedPlan& p) {
  const std::vector<GroupTraffic> groups = group_traffic(p.program);
  if (groups.empty()) return {"communication", "Communication", paragraph("One rank sends nothing.")};
  std::vector<std::vector<std::string>> rows;
  for (const GroupTraffic& g : groups) {
    rows.push_back(
        {g.what, fmt::format("{}", g.count), bytes_text(g.bytes),
         fmt::format("{:.1f} %", 100.0 * g.bytes / std::max(1.0, static_cast<double>(p.report.sent_bytes)))});
  }
  std::string body = drawing(traffic_matrix(p.program));
  body += "<h3>By kind</h3>\n" + html_table({"operation", "operations of all ranks", "bytes sent", "of all"}, rows);
  return {"communication", "Communication", body};
}

}  // namespace orrery
