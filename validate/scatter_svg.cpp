#include "validate/scatter_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/base/markup.hpp"

namespace orrery {
namespace {

// All lengths in SVG user units (pixels at 100 %).
constexpr double width = 940.0;
constexpr double height = 680.0;
constexpr double left = 80.0;
constexpr double right = 250.0;  // legend
constexpr double top = 60.0;
constexpr double bottom = 60.0;

// Colours of Okabe and Ito, told apart by colour-blind readers.
constexpr std::array<const char*, 7> colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                "#e69f00", "#56b4e9", "#000000"};

/// Both axes have the same decades, so that equality is the diagonal.
struct Scale {
  int low = 0, high = 1;  ///< powers of ten
  [[nodiscard]] double part(double seconds) const { return (std::log10(seconds) - low) / (high - low); }
  [[nodiscard]] double x(double seconds) const { return left + part(seconds) * (width - left - right); }
  [[nodiscard]] double y(double seconds) const { return height - bottom - part(seconds) * (height - top - bottom); }
};

Scale scale_of(const Validation& v) {
  double least = 1.0;
  double most = 1.0;
  for (const ValidatedRun& r : v.rows) {
    if (!r.time) continue;
    least = std::min({least, r.step, r.time->measured});
    most = std::max({most, r.step, r.time->measured});
  }
  Scale s{static_cast<int>(std::floor(std::log10(least))), static_cast<int>(std::ceil(std::log10(most)))};
  s.high = std::max(s.high, s.low + 1);
  return s;
}

/// A mark whose shape and colour tell groups apart.
std::string mark(std::size_t group, double x, double y) {
  const char* colour = colours[group % colours.size()];
  switch (group / colours.size() % 3) {
    case 0:
      return fmt::format("<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"3.5\" fill=\"{}\" fill-opacity=\"0.6\"", x, y,
                         colour);
    case 1:
      return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"6\" height=\"6\" fill=\"{}\" fill-opacity=\"0.6\"",
                         x - 3.0, y - 3.0, colour);
    default:
      return fmt::format("<path d=\"M{:.2f} {:.2f}l4 7h-8z\" fill=\"{}\" fill-opacity=\"0.6\"", x, y - 4.0, colour);
  }
}

/// The line measured -> predicted = factor * measured, cut to the plot.
std::string diagonal(const Scale& s, double factor, const char* dash) {
  const double low = std::pow(10.0, s.low);
  const double high = std::pow(10.0, s.high);
  const double from = std::max(low, low / factor);
  const double to = std::min(high, high / factor);
  return fmt::format("<line x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\" stroke=\"#666\"{}/>\n", s.x(from),
                     s.y(factor * from), s.x(to), s.y(factor * to), dash);
}

std::string axes(const Scale& s) {
  std::string out;
  for (int e = s.low; e <= s.high; ++e) {
    const double v = std::pow(10.0, e);
    out += fmt::format("<line x1=\"{0:.2f}\" y1=\"{1:.2f}\" x2=\"{0:.2f}\" y2=\"{2:.2f}\" stroke=\"#ddd\"/>\n", s.x(v),
                       top, height - bottom);
    out += fmt::format("<line x1=\"{0:.2f}\" y1=\"{2:.2f}\" x2=\"{1:.2f}\" y2=\"{2:.2f}\" stroke=\"#ddd\"/>\n", left,
                       width - right, s.y(v));
    out += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">{:g}</text>\n", s.x(v),
                       height - bottom + 18.0, v);
    out +=
        fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"end\">{:g}</text>\n", left - 8.0, s.y(v) + 4.0, v);
  }
  out += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" text-anchor=\"middle\">measured step time, s</text>\n",
                     0.5 * (left + width - right), height - 18.0);
  out += fmt::format(
      "<text x=\"22\" y=\"{0:.2f}\" text-anchor=\"middle\" transform=\"rotate(-90 22 {0:.2f})\">predicted step time, "
      "s</text>\n",
      0.5 * (top + height - bottom));
  return out;
}

}  // namespace

std::string scatter_svg(const Validation& v, GroupBy by) {
  const Scale s = scale_of(v);
  const ErrorSummary all = summary_of_all(v).time;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" height=\"{1:g}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#fff\"/>\n"
      "<text x=\"{2:g}\" y=\"24\" font-size=\"16\">Predicted over measured step time</text>\n"
      "<text x=\"{2:g}\" y=\"44\">{3} runs, {4}: mean absolute error {5:.1f} %, median {6:.1f} %; dashed: 10 % "
      "off</text>\n",
      width, height, left, all.n, v.tier, all.mape_pct, all.median_pct);
  out += axes(s);
  out += diagonal(s, 1.0, "") + diagonal(s, 1.1, " stroke-dasharray=\"4 3\"") +
         diagonal(s, 1.0 / 1.1, " stroke-dasharray=\"4 3\"");
  std::map<std::string, std::size_t> number;
  for (const ValidatedRun& r : v.rows) {
    if (r.time) number.emplace(group_name(r, by), 0);
  }
  std::size_t next = 0;
  for (auto& [name, n] : number) n = next++;
  for (const ValidatedRun& r : v.rows) {
    if (!r.time) continue;
    out += mark(number.at(group_name(r, by)), s.x(r.time->measured), s.y(r.step)) +
           fmt::format("><title>{}: {:.4g} s predicted, {:.4g} s measured</title></{}>\n", marked_up(r.id), r.step,
                       r.time->measured,
                       std::array{"circle", "rect", "path"}[number.at(group_name(r, by)) / colours.size() % 3]);
  }
  for (const auto& [name, n] : number) {
    const double y = top + 14.0 + 20.0 * static_cast<double>(n);
    out += mark(n, width - right + 18.0, y - 4.0) + "/>\n";
    out += fmt::format("<text x=\"{:.2f}\" y=\"{:.2f}\" font-size=\"11\">{}</text>\n", width - right + 30.0, y,
                       marked_up(name.size() > 40 ? name.substr(0, 37) + "..." : name));
  }
  return out + "</svg>\n";
}

}  // namespace orrery
