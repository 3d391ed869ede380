#include "validate/collective_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "sim/cost/nccl/link_curve.hpp"

namespace orrery {
namespace {

constexpr double least_stretch = 0.96;
constexpr double long_residual = 0.05;
constexpr double prior_weight = 0.0005;
constexpr std::size_t constants = 4;
using Point = std::array<double, constants>;

/// Rounds to four digits: more digits carry no information and make a file harder to read.
double rounded(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 3.0);
  return unit < 1.0 ? std::round(value / unit) / std::round(1.0 / unit) : std::round(value / unit) * unit;
}

LinkCurve curve_at(const Point& x) {
  return {std::exp(x[0]) * microsecond, least_stretch + std::exp(x[1]), std::exp(x[2]) * microsecond,
          std::exp(x[3]) * microsecond, 1.0};
}

double loss(const Point& x, const Point& prior, const std::vector<CurvePoint>& points) {
  double sum = 0.0;
  for (std::size_t i = 0; i < constants; ++i) {
    if (!(std::abs(x[i]) < 20.0)) return std::numeric_limits<double>::infinity();
    sum += prior_weight * (x[i] - prior[i]) * (x[i] - prior[i]);
  }
  const LinkCurve curve = curve_at(x);
  for (const CurvePoint& p : points) {
    const double r = std::log(p.measured / on_links(curve, p.modelled)) / long_residual;
    sum += 2.0 * p.weight * long_residual * long_residual * (std::sqrt(1.0 + r * r) - 1.0);
  }
  return sum;
}

/// Least value of f around `start` by the simplex method.
std::pair<Point, double> least(const std::function<double(const Point&)>& f, const Point& start) {
  struct Corner {
    Point x;
    double value;
  };
  std::array<Corner, constants + 1> s;
  for (std::size_t i = 0; i <= constants; ++i) {
    s[i].x = start;
    if (i > 0) s[i].x[i - 1] += 1.0;
    s[i].value = f(s[i].x);
  }
  const auto lower = [](const Corner& a, const Corner& b) { return a.value < b.value; };
  for (int step = 0; step < 2000; ++step) {
    std::stable_sort(s.begin(), s.end(), lower);
    if (s.back().value - s.front().value < 1e-13) break;
    Point middle{};
    for (std::size_t i = 0; i < constants; ++i) {
      for (std::size_t j = 0; j < constants; ++j) middle[j] += s[i].x[j] / constants;
    }
    const auto along = [&](double share) {
      Corner c{};
      for (std::size_t j = 0; j < constants; ++j) c.x[j] = middle[j] + share * (s.back().x[j] - middle[j]);
      c.value = f(c.x);
      return c;
    };
    const Corner mirrored = along(-1.0);
    if (mirrored.value < s.front().value) {
      const Corner further = along(-2.0);
      s.back() = further.value < mirrored.value ? further : mirrored;
    } else if (mirrored.value < s[constants - 1].value) {
      s.back() = mirrored;
    } else {
      const Corner nearer = along(mirrored.value < s.back().value ? -0.5 : 0.5);
      if (nearer.value < std::min(mirrored.value, s.back().value)) {
        s.back() = nearer;
      } else {
        for (std::size_t i = 1; i <= constants; ++i) {
          for (std::size_t j = 0; j < constants; ++j) s[i].x[j] = 0.5 * (s[i].x[j] + s.front().x[j]);
          s[i].value = f(s[i].x);
        }
      }
    }
  }
  std::stable_sort(s.begin(), s.end(), lower);
  return {s.front().x, s.front().value};
}

/// A row that counts, in the form of the fit.
struct Sample {
  double bytes = 0.0;
  CurvePoint point;
};

double weight_of(double bytes) { return bytes >= large_collective ? 4.0 : (bytes >= small_collective ? 1.0 : 0.5); }

double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double v : values) sum += v;
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

double error_of(const LinkCurve& curve, const CurvePoint& p) {
  return 100.0 * std::abs(on_links(curve, p.modelled) / p.measured - 1.0);
}

CurveErrors errors_of(const LinkCurve& curve, const std::vector<Sample>& samples) {
  CurveErrors out;
  out.rows = samples.size();
  std::vector<double> from, large, held, ratios;
  std::set<double> sizes;
  for (const Sample& s : samples) {
    if (s.bytes >= small_collective) {
      from.push_back(error_of(curve, s.point));
      sizes.insert(s.bytes);
    } else {
      ratios.push_back(s.point.measured / on_links(curve, s.point.modelled));
    }
    if (s.bytes >= large_collective) large.push_back(from.back());
  }
  for (const double size : sizes) {
    std::vector<CurvePoint> others;
    for (const Sample& s : samples) {
      if (s.bytes != size) others.push_back(s.point);
    }
    const LinkCurve without = fit_curve(others);
    for (const Sample& s : samples) {
      if (s.bytes == size) held.push_back(error_of(without, s.point));
    }
  }
  out.from_pct = mean(from);
  out.large_pct = mean(large);
  out.held_out_pct = mean(held);
  if (!ratios.empty()) {
    std::sort(ratios.begin(), ratios.end());
    const auto n = static_cast<double>(ratios.size());
    out.low = ratios[static_cast<std::size_t>(std::ceil(0.1 * n)) - 1];
    out.high = ratios[static_cast<std::size_t>(std::ceil(0.9 * n)) - 1];
  }
  return out;
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

}  // namespace

LinkCurve fit_curve(const std::vector<CurvePoint>& points) {
  const Point prior{std::log(40.0), std::log(1.02 - least_stretch), std::log(100.0), std::log(200.0)};
  const auto f = [&](const Point& x) { return loss(x, prior, points); };
  std::pair<Point, double> best{prior, std::numeric_limits<double>::infinity()};
  for (const double start : {-1.5, 0.0, 1.5}) {
    std::pair<Point, double> found{{prior[0], prior[1], prior[2] + start, prior[3] + start}, 0.0};
    for (int again = 0; again < 3; ++again) found = least(f, found.first);
    if (found.second < best.second) best = found;
  }
  const LinkCurve found = curve_at(best.first);
  const auto round_time = [](Seconds s) { return Seconds::of(rounded(s.in(microsecond)) / 1e6); };
  return {round_time(found.floor), std::max(least_stretch, rounded(found.stretch)), round_time(found.fill),
          round_time(found.fill_time), 1.0};
}

std::vector<CurveFile> fit_curves(const std::vector<MeasuredCollective>& table) {
  std::set<std::string> names;
  for (const MeasuredCollective& row : table) {
    if (!row.curve.empty()) names.insert(row.curve);
  }
  std::vector<CurveFile> out;
  for (const std::string& name : names) {
    CurveFile file;
    file.name = name;
    LinkCurve plain;  // whose prediction is NCCL's own
    const LinkCurves as_modelled{{name, plain}};
    std::vector<Sample> samples;
    std::vector<CurvePoint> points;
    std::vector<double> pairs;
    for (const MeasuredCollective& row : table) {
      if (row.curve != name || row.notes.starts_with("NOISY")) continue;
      const auto p = predict(row, as_modelled).predicted;
      if (!p) continue;
      const Seconds measured = *row.time_us * microsecond;
      if (p->algorithm && !row.algorithm.empty() && row.algorithm != name_of(*p->algorithm)) {
        continue;  // its time is that of another algorithm
      }
      if (p->algorithm) {
        samples.push_back({*row.bytes, {p->modelled, measured, weight_of(*row.bytes)}});
        points.push_back(samples.back().point);
      } else {
        pairs.push_back(std::log(measured / p->modelled));
      }
      add_once(file.machines, row.machine);
      add_once(file.sources, row.source);
    }
    if (samples.empty()) continue;
    file.curve = fit_curve(points);
    file.errors = errors_of(file.curve, samples);
    if (!pairs.empty()) file.curve.pairs = std::max(least_stretch, rounded(std::exp(mean(pairs))));
    out.push_back(std::move(file));
  }
  return out;
}

}  // namespace orrery
