#include "planner/study/chart_svg.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/base/markup.hpp"

namespace orrery {
namespace {

// All lengths in SVG user units (pixels at 100 %).
constexpr double page_width = 900.0;
constexpr double heading = 58.0;
constexpr double panel_height = 400.0;
constexpr double left = 86.0;
constexpr double right = 190.0;  // legend
constexpr double top = 38.0;
constexpr double bottom = 62.0;

struct Look {
  const char* colour;
  const char* dash;
};
// Colours of Okabe and Ito, told apart by colour-blind readers.
constexpr std::array<Look, 6> looks = {{{"#0072b2", ""},
                                        {"#d55e00", "7 4"},
                                        {"#009e73", "2 3"},
                                        {"#cc79a7", "9 3 2 3"},
                                        {"#56b4e9", "5 2"},
                                        {"#000000", "1 4"}}};

/// A coordinate: two decimals, never "-0.00".
std::string at(double x) {
  const double rounded = std::round(x * 100.0) / 100.0;
  return fmt::format("{:.2f}", rounded == 0.0 ? 0.0 : rounded);
}

std::string label(double x) {
  const double size = std::abs(x);
  if (size >= 1e6) return fmt::format("{:g}M", x / 1e6);
  if (size != 0.0 && size < 1e-3) return fmt::format("{:.0e}", x);
  return fmt::format("{:g}", x);
}

/// The value over a bar: three digits, larger numbers whole.
std::string bar_label(double x) { return std::abs(x) >= 1000.0 ? fmt::format("{:.0f}", x) : fmt::format("{:.3g}", x); }

/// Values from low to high on a line of pixels.
class Scale {
 public:
  /// `from_zero`: a linear scale begins at 0, so that lengths can be compared.
  Scale(double low, double high, bool logarithmic, bool from_zero, double from, double to)
      : logarithmic_(logarithmic), from_(from), to_(to) {
    if (logarithmic) {
      low_ = std::log10(low);
      high_ = std::log10(high);
      if (high_ - low_ < 0.3) {
        low_ -= 0.15;
        high_ += 0.15;
      }
    } else {
      low_ = from_zero ? std::min(0.0, low) : low;
      high_ = high > low_ ? high : low_ + 1.0;
    }
    const double air = 0.05 * (high_ - low_);
    if (logarithmic || !from_zero) low_ -= air;
    high_ += air;
  }
  [[nodiscard]] double operator()(double x) const {
    const double v = logarithmic_ ? std::log10(x) : x;
    return from_ + (v - low_) / (high_ - low_) * (to_ - from_);
  }
  [[nodiscard]] bool shows(double x) const { return !logarithmic_ || x > 0.0; }

  /// 1, 2 and 5 of each decade (powers of ten alone where that is too many);
  /// or round steps.
  [[nodiscard]] std::vector<double> ticks() const {
    std::vector<double> out;
    if (logarithmic_) {
      const bool dense = high_ - low_ < 3.0;
      for (int e = static_cast<int>(std::floor(low_)); e <= static_cast<int>(std::ceil(high_)); ++e) {
        for (const double m : {1.0, 2.0, 5.0}) {
          if (m != 1.0 && !dense) continue;
          const double v = m * std::pow(10.0, e);
          if (std::log10(v) >= low_ - 1e-9 && std::log10(v) <= high_ + 1e-9) out.push_back(v);
        }
      }
      return out;
    }
    const double raw = (high_ - low_) / 6.0;
    const double decade = std::pow(10.0, std::floor(std::log10(raw)));
    double step = 10.0 * decade;
    for (const double m : {1.0, 2.0, 2.5, 5.0}) {
      if (m * decade >= raw) {
        step = m * decade;
        break;
      }
    }
    for (double i = std::ceil(low_ / step); i * step <= high_ + 1e-9 * step; i += 1.0) out.push_back(i * step);
    return out;
  }

 private:
  double low_ = 0.0, high_ = 1.0;
  bool logarithmic_;
  double from_, to_;
};

struct Range {
  double low = 0.0, high = 0.0;
  bool any = false;
  void add(double v) {
    low = any ? std::min(low, v) : v;
    high = any ? std::max(high, v) : v;
    any = true;
  }
};

class Panel {
 public:
  Panel(const Chart& chart, double y) : chart_(chart), y0_(y + top), y1_(y + panel_height - bottom) {
    Range xs, ys;
    for (const Series& s : chart.series) {
      for (const Series::Point& p : s.points) {
        if ((chart.log_x && p.x <= 0.0) || (chart.log_y && p.y <= 0.0)) continue;
        xs.add(p.x);
        ys.add(p.y);
      }
    }
    if (!ys.any) ys = xs = {1.0, 10.0, true};
    // Bars stand on 1 where that is what they are compared with.
    if (bars() && chart.log_y) ys.add(1.0);
    ys_.emplace(ys.low, ys.high, chart.log_y, true, y1_, y0_);
    xs_.emplace(xs.low, xs.high, chart.log_x, false, x0_ + 8.0, x1_ - 8.0);
  }

  [[nodiscard]] std::string str() {
    text(x0_, y0_ - 14.0, chart_.title, "start", "bold 15px");
    y_axis();
    if (bars()) {
      draw_bars();
    } else {
      draw_lines();
    }
    out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="none" stroke="#333"/>)"
                        "\n",
                        at(x0_), at(y0_), at(x1_ - x0_), at(y1_ - y0_));
    text((x0_ + x1_) / 2.0, y1_ + 44.0, chart_.x_label, "middle", "13px");
    out_ += fmt::format(
        R"svg(<text transform="translate({} {}) rotate(-90)" text-anchor="middle" font-size="13px">{}</text>)svg"
        "\n",
        at(x0_ - 60.0), at((y0_ + y1_) / 2.0), marked_up(chart_.y_label));
    legend();
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool bars() const { return !chart_.categories.empty(); }

  void text(double x, double y, std::string_view words, const char* anchor, std::string_view font) {
    const bool bold = font.substr(0, 5) == "bold ";
    if (bold) font.remove_prefix(5);
    out_ += fmt::format(R"(<text x="{}" y="{}" text-anchor="{}" font-size="{}"{}>{}</text>)"
                        "\n",
                        at(x), at(y), anchor, font, bold ? R"( font-weight="bold")" : "", marked_up(words));
  }
  void line(double xa, double ya, double xb, double yb, const char* stroke) {
    out_ += fmt::format(R"(<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}"/>)"
                        "\n",
                        at(xa), at(ya), at(xb), at(yb), stroke);
  }

  void y_axis() {
    for (const double v : ys_->ticks()) {
      const double y = (*ys_)(v);
      line(x0_, y, x1_, y, "#ddd");
      text(x0_ - 8.0, y + 4.0, label(v), "end", "12px");
    }
  }

  /// Where few x values occur, they are the ticks; else round ones.
  void x_axis() {
    std::vector<double> values;
    for (const Series& s : chart_.series) {
      for (const Series::Point& p : s.points) {
        if (xs_->shows(p.x)) values.push_back(p.x);
      }
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const double v : values.size() <= 12 ? values : xs_->ticks()) {
      const double x = (*xs_)(v);
      line(x, y0_, x, y1_, "#eee");
      text(x, y1_ + 20.0, label(v), "middle", "12px");
    }
  }

  void draw_lines() {
    x_axis();
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Look& look = looks[i % looks.size()];
      std::string path;
      std::string markers;
      for (const Series::Point& p : chart_.series[i].points) {
        if (!xs_->shows(p.x) || !ys_->shows(p.y)) continue;
        const double x = (*xs_)(p.x);
        const double y = (*ys_)(p.y);
        path += fmt::format("{}{} {}", path.empty() ? "M" : " L", at(x), at(y));
        markers += marker(i, x, y);
      }
      if (path.empty()) continue;
      if (chart_.series[i].line) {
        out_ += fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="2"{}/>)"
                            "\n",
                            path, look.colour, dash(look));
      }
      out_ += markers;
    }
  }

  void draw_bars() {
    const double slot = (x1_ - x0_) / static_cast<double>(chart_.categories.size());
    const double width = 0.8 * slot / static_cast<double>(std::max<std::size_t>(1, chart_.series.size()));
    const double base = (*ys_)(chart_.log_y ? 1.0 : 0.0);
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Look& look = looks[i % looks.size()];
      for (const Series::Point& p : chart_.series[i].points) {
        if (!ys_->shows(p.y)) continue;
        const double x = x0_ + slot * (p.x + 0.1) + width * static_cast<double>(i);
        const double y = (*ys_)(p.y);
        out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}"/>)"
                            "\n",
                            at(x), at(std::min(y, base)), at(0.92 * width), at(std::max(1.0, std::abs(base - y))),
                            look.colour);
        text(x + 0.46 * width, y > base ? y + 11.0 : y - 4.0, bar_label(p.y), "middle", "10px");
      }
    }
    for (std::size_t i = 0; i < chart_.categories.size(); ++i) {
      // Names that would run into each other stand on two heights.
      const double lower = chart_.categories.size() > 4 && i % 2 == 1 ? 14.0 : 0.0;
      text(x0_ + slot * (static_cast<double>(i) + 0.5), y1_ + 20.0 + lower, chart_.categories[i], "middle", "12px");
    }
    line(x0_, base, x1_, base, "#333");
  }

  void legend() {
    double y = y0_ + 12.0;
    for (std::size_t i = 0; i < chart_.series.size(); ++i) {
      const Look& look = looks[i % looks.size()];
      const double x = x1_ + 16.0;
      if (bars()) {
        out_ += fmt::format(R"(<rect x="{}" y="{}" width="22" height="10" fill="{}"/>)"
                            "\n",
                            at(x), at(y - 9.0), look.colour);
      } else {
        if (chart_.series[i].line) {
          out_ += fmt::format(R"(<path d="M{} {} L{} {}" fill="none" stroke="{}" stroke-width="2"{}/>)"
                              "\n",
                              at(x), at(y - 4.0), at(x + 26.0), at(y - 4.0), look.colour, dash(look));
        }
        out_ += marker(i, x + 13.0, y - 4.0);
      }
      text(x + 32.0, y, chart_.series[i].name, "start", "12px");
      y += 20.0;
    }
  }

  [[nodiscard]] static std::string dash(const Look& look) {
    return look.dash[0] == '\0' ? std::string() : fmt::format(R"( stroke-dasharray="{}")", look.dash);
  }
  /// Circle, square, diamond, triangle, in turn.
  [[nodiscard]] static std::string marker(std::size_t i, double x, double y) {
    const char* colour = looks[i % looks.size()].colour;
    switch (i % 4) {
      case 0:
        return fmt::format(R"(<circle cx="{}" cy="{}" r="4" fill="{}"/>)"
                           "\n",
                           at(x), at(y), colour);
      case 1:
        return fmt::format(R"(<rect x="{}" y="{}" width="8" height="8" fill="{}"/>)"
                           "\n",
                           at(x - 4.0), at(y - 4.0), colour);
      case 2:
        return fmt::format(R"(<path d="M{} {} L{} {} L{} {} L{} {} Z" fill="{}"/>)"
                           "\n",
                           at(x), at(y - 5.5), at(x + 5.5), at(y), at(x), at(y + 5.5), at(x - 5.5), at(y), colour);
      default:
        return fmt::format(R"(<path d="M{} {} L{} {} L{} {} Z" fill="{}"/>)"
                           "\n",
                           at(x), at(y - 5.0), at(x + 5.0), at(y + 4.0), at(x - 5.0), at(y + 4.0), colour);
    }
  }

  const Chart& chart_;
  double x0_ = left, x1_ = page_width - right;
  double y0_, y1_;
  std::optional<Scale> xs_, ys_;
  std::string out_;
};

}  // namespace

std::string charts_svg(const std::string& name, const std::string& title, const std::vector<Chart>& charts) {
  const double height = heading + panel_height * static_cast<double>(charts.size());
  std::string out = fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" font-family="sans-serif">
<title>{2}</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="{3}" y="26" font-size="16px" font-weight="bold">{2}</text>
<text x="{3}" y="46" font-size="13px">{4}</text>
)",
      at(page_width), at(height), marked_up(name), at(left), marked_up(title));
  for (std::size_t i = 0; i < charts.size(); ++i) {
    out += Panel(charts[i], heading + panel_height * static_cast<double>(i)).str();
  }
  return out + "</svg>\n";
}

}  // namespace orrery
