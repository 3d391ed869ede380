#include "sweep/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/pareto_front.hpp"
#include "core/base/units_text.hpp"

namespace orrery {
namespace {

using Figures = SweptPoint::Figures;
using Value = std::optional<double>;

double steps(const Figures& f, const WholeRun& run) { return *run.tokens / f.tokens_per_step; }

constexpr std::array measures = {
    SweepMeasure{"step-time", "step time, s", false, false,
                 [](const Figures& f, const WholeRun&) -> Value { return f.step_s; }},
    SweepMeasure{"tokens-per-s", "tokens/s", true, false,
                 [](const Figures& f, const WholeRun&) -> Value { return f.tokens_per_s; }},
    SweepMeasure{
        "tokens-per-s-per-gpu", "tokens/s per GPU", true, false,
        [](const Figures& f, const WholeRun&) -> Value { return f.tokens_per_s / static_cast<double>(f.gpus); }},
    SweepMeasure{
        "mfu", "MFU, %", true, false,
        [](const Figures& f, const WholeRun&) -> Value { return f.mfu > 0.0 ? Value(100.0 * f.mfu) : Value(); }},
    SweepMeasure{"memory", "memory of the fullest device, GiB", false, false,
                 [](const Figures& f, const WholeRun&) -> Value {
                   return Bytes::of(static_cast<double>(f.memory_bytes)).in(gibibyte);
                 }},
    SweepMeasure{"gpus", "GPUs", false, false,
                 [](const Figures& f, const WholeRun&) -> Value { return static_cast<double>(f.gpus); }},
    SweepMeasure{"cost", "cost per step", false, false,
                 [](const Figures& f, const WholeRun&) { return f.cost_per_step; }},
    SweepMeasure{"cost-per-token", "cost per million tokens", false, false,
                 [](const Figures& f, const WholeRun&) -> Value {
                   if (!f.cost_per_step) return std::nullopt;
                   return *f.cost_per_step / f.tokens_per_step * 1e6;
                 }},
    SweepMeasure{"days", "days of the whole run", false, true,
                 [](const Figures& f, const WholeRun& run) -> Value { return steps(f, run) * f.step_s / 86400.0; }},
    SweepMeasure{"run-cost", "cost of the whole run", false, true,
                 [](const Figures& f, const WholeRun& run) -> Value {
                   if (!f.cost_per_step) return std::nullopt;
                   return steps(f, run) * *f.cost_per_step;
                 }},
};

/// Figures turned so that less is better; empty where one is missing.
std::vector<double> losses(const SweptPoint& p, const std::vector<const SweepMeasure*>& asked, const WholeRun& run) {
  std::vector<double> out;
  if (!p.figures) return out;
  for (const SweepMeasure* m : asked) {
    const Value value = m->get(*p.figures, run);
    if (!value) return {};
    out.push_back(m->more_is_better ? -*value : *value);
  }
  return out;
}

}  // namespace

std::span<const SweepMeasure> sweep_measures() { return measures; }

const SweepMeasure* sweep_measure_named(std::string_view name) {
  const auto at = std::find_if(measures.begin(), measures.end(), [&](const SweepMeasure& m) { return m.name == name; });
  return at == measures.end() ? nullptr : &*at;
}

std::string measure_text(double figure) {
  return figure >= 1e4 ? short_count(figure, 4) : fmt::format("{:.4g}", figure);
}

std::vector<std::size_t> pareto_front(const std::vector<SweptPoint>& points,
                                      const std::vector<const SweepMeasure*>& asked, const WholeRun& run) {
  std::vector<std::vector<double>> figures;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::vector<double> l = losses(points[i], asked, run);
    if (l.empty()) continue;
    figures.push_back(std::move(l));
    places.push_back(i);
  }
  std::vector<std::size_t> front = pareto_front(figures);
  std::stable_sort(front.begin(), front.end(), [&](std::size_t a, std::size_t b) { return figures[a] < figures[b]; });
  const auto equal = [&](std::size_t a, std::size_t b) { return figures[a] == figures[b]; };
  front.erase(std::unique(front.begin(), front.end(), equal), front.end());
  for (std::size_t& at : front) at = places[at];
  return front;
}

}  // namespace orrery
