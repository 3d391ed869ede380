#include "core/record/compare.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/program/op_count.hpp"
#include "core/record/summarize.hpp"

namespace orrery {

std::optional<double> relative_error(double predicted, double measured) {
  if (measured == 0.0) return std::nullopt;
  return (predicted - measured) / measured;
}

namespace {

constexpr double picosecond = 1e-12;

ComparedTime time_row(std::string name, Seconds predicted, Seconds measured) {
  ComparedTime row;
  row.name = std::move(name);
  row.predicted = predicted;
  row.measured = measured;
  row.error = relative_error(predicted.base(), measured.base());
  return row;
}

void judge(Comparison& c) {
  c.step_error = relative_error(c.predicted_step.base(), c.measured_step.base());
  const auto peak_error =
      relative_error(static_cast<double>(c.predicted_peak_bytes), static_cast<double>(c.measured_peak_bytes));
  const bool step_fits = c.step_error && std::abs(*c.step_error) <= c.tolerance.step_time;
  const bool memory_fits =
      c.predicted_peak_bytes == c.measured_peak_bytes || (peak_error && std::abs(*peak_error) <= c.tolerance.memory);
  c.within_tolerance = step_fits && memory_fits && c.mismatches.empty();
}

std::int64_t end_of(const RankTrace& r) {
  std::int64_t end = 0;
  for (const Span& s : r.spans) end = std::max(end, s.end);
  return end;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Sums of both sides over the ranks that both have.
struct Sums {
  RankTimes predicted;
  RankTimes measured;
  std::int64_t predicted_bubble = 0;
  std::int64_t measured_bubble = 0;
  std::array<std::vector<double>, operation_count> errors;  ///< |error| of each op that took time when measured
};

void add(RankTimes& sum, const RankTimes& t) {
  sum.busy += t.busy;
  sum.exposed += t.exposed;
  sum.collectives += t.collectives;
  for (std::size_t o = 0; o < operation_count; ++o) {
    sum.time[o] += t.time[o];
    sum.count[o] += t.count[o];
  }
}

void add_errors(Sums& sums, const Program& program, const RankTrace& predicted, const RankTrace& measured) {
  for_each_op(program, program.classes[class_of(program, predicted.rank)].step, [&](const OpRun& r) {
    if (!is_timed(*r.op)) return;
    const Span& p = predicted.spans[index(r.id)];
    const Span& m = measured.spans[index(r.id)];
    if (m.end == m.start) return;
    const double length = static_cast<double>(m.end - m.start);
    sums.errors[index(operation_of(program, *r.block, *r.op))].push_back(
        std::abs(static_cast<double>(p.end - p.start) - length) / length);
  });
}

}  // namespace

std::size_t step_ops(const Program& program, Rank rank) {
  return op_count(program, program.classes[class_of(program, rank)].step);
}

Comparison compare(const Trace& predicted, const Trace& measured, const Program* program, const Tolerance& tolerance) {
  Comparison c;
  c.predicted = predicted.origin;
  c.measured = measured.origin;
  c.tolerance = tolerance;
  std::map<std::uint32_t, const RankTrace*> right;
  for (const RankTrace& r : measured.ranks) right[index(r.rank)] = &r;
  std::int64_t predicted_step = 0;
  std::int64_t measured_step = 0;
  std::vector<std::pair<const RankTrace*, const RankTrace*>> joined;
  for (const RankTrace& p : predicted.ranks) {
    predicted_step = std::max(predicted_step, end_of(p));
    c.predicted_peak_bytes = std::max(c.predicted_peak_bytes, p.peak_bytes);
    const auto found = right.find(index(p.rank));
    if (found == right.end()) continue;
    const RankTrace& m = *found->second;
    c.ranks.push_back({p.rank, Seconds::of(static_cast<double>(end_of(p)) * picosecond),
                       Seconds::of(static_cast<double>(end_of(m)) * picosecond), p.peak_bytes, m.peak_bytes,
                       p.sent_bytes, m.sent_bytes});
    if (p.spans.size() != m.spans.size()) {
      c.same_plan = false;
      c.mismatches.push_back("rank " + std::to_string(index(p.rank)) + " has " + std::to_string(p.spans.size()) +
                             " ops predicted, " + std::to_string(m.spans.size()) + " measured");
    } else if (program != nullptr &&
               (index(p.rank) >= program->mesh.size() || step_ops(*program, p.rank) != p.spans.size())) {
      c.same_plan = false;
      c.mismatches.push_back("rank " + std::to_string(index(p.rank)) + " has " + std::to_string(p.spans.size()) +
                             " ops, but the plan has another number of them");
    } else {
      joined.emplace_back(&p, &m);
    }
  }
  for (const RankTrace& m : measured.ranks) {
    measured_step = std::max(measured_step, end_of(m));
    c.measured_peak_bytes = std::max(c.measured_peak_bytes, m.peak_bytes);
  }
  if (predicted.concurrent_lanes != measured.concurrent_lanes) {
    c.mismatches.push_back(std::string("lanes run side by side ") +
                           (predicted.concurrent_lanes ? "in the prediction" : "in the measurement") +
                           ", one operation at a time " +
                           (predicted.concurrent_lanes ? "in the measurement" : "in the prediction"));
  }
  if (c.ranks.empty()) {
    c.same_plan = false;
    c.mismatches.push_back("the traces have no rank in common");
  }
  c.predicted_step = Seconds::of(static_cast<double>(predicted_step) * picosecond);
  c.measured_step = Seconds::of(static_cast<double>(measured_step) * picosecond);

  if (program != nullptr && !joined.empty()) {
    Sums sums;
    for (const auto& [p, m] : joined) {
      const RankTimes pt = account(*program, *p, predicted.concurrent_lanes);
      const RankTimes mt = account(*program, *m, measured.concurrent_lanes);
      add(sums.predicted, pt);
      add(sums.measured, mt);
      sums.predicted_bubble += predicted_step - pt.busy - pt.collectives;
      sums.measured_bubble += measured_step - mt.busy - mt.collectives;
      add_errors(sums, *program, *p, *m);
    }
    const std::uint64_t n = joined.size();
    const auto mean = [&](std::int64_t sum) {
      return Seconds::of(static_cast<double>(sum) / static_cast<double>(n) * picosecond);
    };
    c.parts.push_back(time_row("compute", mean(sums.predicted.busy), mean(sums.measured.busy)));
    c.parts.push_back(
        time_row("waiting for collectives", mean(sums.predicted.collectives), mean(sums.measured.collectives)));
    c.parts.push_back(time_row("bubble", mean(sums.predicted_bubble), mean(sums.measured_bubble)));
    for (std::size_t o = 0; o < operation_count; ++o) {
      if (sums.predicted.count[o] == 0 && sums.measured.count[o] == 0) continue;
      ComparedTime row =
          time_row(name_of(static_cast<Operation>(o)), mean(sums.predicted.time[o]), mean(sums.measured.time[o]));
      row.predicted_count = sums.predicted.count[o] / n;
      row.measured_count = sums.measured.count[o] / n;
      if (!sums.errors[o].empty()) row.median_error = median(sums.errors[o]);
      c.operations.push_back(std::move(row));
    }
  }
  judge(c);
  return c;
}

Comparison compare(const Report& predicted, const Report& measured, const Tolerance& tolerance) {
  Comparison c;
  c.predicted = predicted.origin;
  c.measured = measured.origin;
  c.tolerance = tolerance;
  c.predicted_step = predicted.step_time;
  c.measured_step = measured.step_time;
  c.predicted_peak_bytes = predicted.peak_memory_bytes;
  c.measured_peak_bytes = measured.peak_memory_bytes;
  c.parts.push_back(time_row("compute", predicted.compute, measured.compute));
  c.parts.push_back(time_row("waiting for collectives", exposed_collectives(predicted), exposed_collectives(measured)));
  c.parts.push_back(time_row("bubble", predicted.bubble_fraction * predicted.step_time,
                             measured.bubble_fraction * measured.step_time));
  if (!predicted.plan.empty() && !measured.plan.empty() && predicted.plan != measured.plan) {
    c.same_plan = false;
    c.mismatches.push_back("one belongs to the plan " + predicted.plan + ", the other to " + measured.plan);
  }
  if (predicted.gpus != measured.gpus) {
    c.same_plan = false;
    c.mismatches.push_back(std::to_string(predicted.gpus) + " devices on one side, " + std::to_string(measured.gpus) +
                           " on the other");
  }
  const auto find = [](const Report& r, const std::string& name) -> const OperationTime* {
    const auto at =
        std::find_if(r.operations.begin(), r.operations.end(), [&](const OperationTime& o) { return o.name == name; });
    return at == r.operations.end() ? nullptr : &*at;
  };
  const auto add_row = [&](const std::string& name) {
    const OperationTime* p = find(predicted, name);
    const OperationTime* m = find(measured, name);
    ComparedTime row = time_row(name, p != nullptr ? p->time : Seconds{}, m != nullptr ? m->time : Seconds{});
    row.predicted_count = p != nullptr ? p->count : 0;
    row.measured_count = m != nullptr ? m->count : 0;
    c.operations.push_back(std::move(row));
  };
  for (const OperationTime& o : predicted.operations) add_row(o.name);
  for (const OperationTime& o : measured.operations) {
    if (find(predicted, o.name) == nullptr) add_row(o.name);
  }
  judge(c);
  return c;
}

}  // namespace orrery
