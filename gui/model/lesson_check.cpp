#include "gui/model/lesson_check.hpp"

#include <fmt/format.h>

#include <QCoreApplication>
#include <algorithm>
#include <cmath>

#include "edit/lesson_changes.hpp"

namespace orrery::gui {
namespace {

using Kind = LessonQuestion::Kind;

/// A question needs options that differ by at least this much.
constexpr double least_difference = 0.01;

std::string tr(const char* text) { return QCoreApplication::translate("orrery::gui", text).toStdString(); }
std::string name_of(Measure m) { return QCoreApplication::translate("measure", label_of(m)).toStdString(); }

double measure_of(const PlannedRun& base, const std::vector<LessonChange>& changes, Measure m, const Pricer& price) {
  std::string why;
  auto run = with_changes(base, changes, why);
  if (!run) throw Error("the lesson names a plan that is not valid: " + why);
  auto priced = price(std::move(*run));
  if (priced == nullptr) throw Error("the lesson's cluster has no prices");
  return measured(m, predict_live(std::move(priced)));
}

std::size_t best_of(const std::vector<double>& values, bool most) {
  const auto at =
      most ? std::max_element(values.begin(), values.end()) : std::min_element(values.begin(), values.end());
  return static_cast<std::size_t>(at - values.begin());
}

Verdict judge_which(const LessonQuestion& q, const std::vector<double>& values, std::size_t chosen) {
  const std::size_t best = best_of(values, q.most);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double larger = std::max(std::abs(values[i]), std::abs(values[best]));
    if (i != best && std::abs(values[i] - values[best]) <= least_difference * larger) {
      throw Error("two options of the lesson are equally good");
    }
  }
  if (chosen != best) {
    return {false, fmt::format(fmt::runtime(tr("Not this one: its {} is {}, and another has {}.")), name_of(q.measure),
                               text_of(q.measure, values[std::min(chosen, values.size() - 1)]),
                               q.most ? tr("more") : tr("less"))};
  }
  std::string text = fmt::format(fmt::runtime(tr("Right. The {} of each:")), name_of(q.measure));
  for (std::size_t i = 0; i < values.size(); ++i) {
    text +=
        fmt::format("\n{} {}: {}", i == best ? "\u2713" : "\u2022", q.options[i].text, text_of(q.measure, values[i]));
  }
  return {true, text};
}

/// A quotient has no unit.
std::string number_text(const LessonQuestion& q, double value) {
  return q.over ? fmt::format("{:.4g}", value) : text_of(q.measure, value);
}

Verdict judge_number(const LessonQuestion& q, double right, double given) {
  if (std::abs(given - right) <= q.tolerance * std::abs(right)) {
    return {true, fmt::format(fmt::runtime(tr("Right: the engine says {}.")), number_text(q, right))};
  }
  return {false, given > right ? tr("No, it is less.") : tr("No, it is more.")};
}

Verdict judge_reach(const LessonQuestion& q, const PlannedRun& base, const std::shared_ptr<const PricedRun>& in_hand) {
  if (in_hand == nullptr) return {false, tr("No plan is open.")};
  const PlannedRun& run = in_hand->run;
  // A run with another model, batch or machine answers another question.
  const Workload &w = run.workload, &asked = base.workload;
  if (run.model != base.model || w.global_batch != asked.global_batch || w.sequence_length != asked.sequence_length ||
      w.precision != asked.precision || run.cluster->devices() != base.cluster->devices() ||
      run.cluster->device != base.cluster->device) {
    return {false, tr("Keep model, batch, sequence, precision and devices as the lesson has them.")};
  }
  const Prediction p = predict_live(in_hand);
  const double value = measured(q.measure, p);
  const bool there = q.most ? value >= q.bound : value <= q.bound;
  const std::string is = fmt::format(fmt::runtime(tr("The {} is {}")), name_of(q.measure), text_of(q.measure, value));
  if (!there) {
    return {false, fmt::format("{}, {} {}.", is, q.most ? tr("and must be at least") : tr("and must be at most"),
                               text_of(q.measure, q.bound))};
  }
  if (q.fits && !p.report.fits) return {false, is + tr(", but the plan does not fit in memory.")};
  return {true, fmt::format(fmt::runtime(tr("Right. {}.")), is)};
}

}  // namespace

std::vector<double> measured_answers(const LessonQuestion& q, const PlannedRun& base, const Pricer& price) {
  std::vector<double> out;
  switch (q.kind) {
    case Kind::which:
      for (const LessonOption& o : q.options) out.push_back(measure_of(base, o.changes, q.measure, price));
      break;
    case Kind::number: {
      double value = measure_of(base, q.changes, q.measure, price);
      if (q.over) value /= measure_of(base, *q.over, q.measure, price);
      if (!std::isfinite(value)) throw Error("the lesson divides by nothing");
      out.push_back(value);
      break;
    }
    case Kind::reach: out.push_back(measure_of(base, q.solution, q.measure, price)); break;
  }
  return out;
}

Verdict judged(const LessonQuestion& q, const PlannedRun& base, const LessonAnswer& answer, const Pricer& price) {
  switch (q.kind) {
    case Kind::which: return judge_which(q, measured_answers(q, base, price), std::get<std::size_t>(answer));
    case Kind::number: return judge_number(q, measured_answers(q, base, price).front(), std::get<double>(answer));
    case Kind::reach: return judge_reach(q, base, std::get<std::shared_ptr<const PricedRun>>(answer));
  }
  return {};
}

}  // namespace orrery::gui
