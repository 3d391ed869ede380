#include "gui/model/comparison.hpp"

#include <fmt/format.h>

#include <QCoreApplication>
#include <QFile>
#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/units_text.hpp"
#include "core/plan/plan_file.hpp"

#include "core/program/op_count.hpp"
#include "core/record/chrome_trace.hpp"
#include "core/record/compare_profile.hpp"
#include "gui/model/basis.hpp"
#include "gui/model/profile_timeline.hpp"
#include "gui/model/services.hpp"

namespace orrery::gui {
namespace {

QString q(const std::string& text) { return QString::fromStdString(text); }
QString tr(const char* text) { return QCoreApplication::translate("orrery::gui", text); }

Cell time(double seconds) { return {q(short_text(Seconds::of(seconds), 4)), seconds}; }
Cell signed_time(double seconds) {
  const std::string text = short_text(Seconds::of(std::abs(seconds)), 4);
  return {
      seconds == 0.0 ? QStringLiteral("0") : (seconds < 0 ? QStringLiteral("\u2212") : QStringLiteral("+")) + q(text),
      seconds};
}
Cell signed_percent(std::optional<double> share) {
  if (!share) return {QStringLiteral("\u2013")};
  return {q(fmt::format("{:+.1f} %", 100.0 * *share)), *share};
}
Cell count(std::uint64_t n) { return {q(with_commas(n)), static_cast<double>(n)}; }
/// The change from one plan to another, where it says something; the error of a prediction is always shown.
Cell change_cell(const PlanComparison& c, std::optional<double> share) {
  return signed_percent(c.are_comparable() ? share : std::nullopt);
}

/// The measured step of the side's own Program.
Trace read_measured(const ComparisonSource& source, const Program& program) {
  QFile in(source.trace_file);
  if (!in.open(QIODevice::ReadOnly)) {
    throw Error(fmt::format("cannot read {}: {}", source.trace_file.toStdString(), in.errorString().toStdString()));
  }
  const QByteArray text = in.readAll();
  Diagnostics d;
  auto trace =
      read_chrome_trace({text.constData(), static_cast<std::size_t>(text.size())}, source.trace_file.toStdString(), d);
  if (!trace) throw Error(orrery::render(d));
  if (trace->ranks.empty()) throw Error(fmt::format("{} holds no rank", source.trace_file.toStdString()));
  for (const RankTrace& r : trace->ranks) {
    const std::uint32_t rank = index(r.rank);
    if (rank >= program.mesh.size()) {
      throw Error(
          fmt::format("This trace does not belong to the plan {}: it has rank {}, but the plan has ranks 0 to {}.",
                      source.run->run.plan.name, rank, program.mesh.size() - 1));
    }
    const std::uint64_t ops = op_count(program, program.classes[class_of(program, r.rank)].step);
    if (ops != r.spans.size()) {
      throw Error(fmt::format(
          "This trace does not belong to the plan {}: its rank {} has {} operations, but in the plan it has {}.",
          source.run->run.plan.name, rank, r.spans.size(), ops));
    }
  }
  return std::move(*trace);
}

/// One file at a time is in memory, and only by the system's pages.
ProfiledStep read_step(const ComparisonSource& source, const std::atomic<bool>& cancelled) {
  Diagnostics d;
  std::vector<ProfiledRank> ranks;
  for (const QString& file : QStringList(source.trace_file) + source.more_files) {
    QFile in(file);
    if (!in.open(QIODevice::ReadOnly)) {
      throw Error(fmt::format("cannot read {}: {}", file.toStdString(), in.errorString().toStdString()));
    }
    const uchar* text = in.size() == 0 ? nullptr : in.map(0, in.size());
    if (text == nullptr) throw Error(fmt::format("cannot read {}", file.toStdString()));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes of a file
    const std::string_view all(reinterpret_cast<const char*>(text), static_cast<std::size_t>(in.size()));
    auto rank = read_profile(all, file.toStdString(), d, [&](std::uint64_t, std::uint64_t) {
      if (cancelled) throw SimulationCancelled(0, 0, {});
    });
    if (rank) ranks.push_back(std::move(*rank));
  }
  if (!d.empty()) throw Error(orrery::render(d));
  auto step = median_step(ranks, d);
  if (!step) throw Error(orrery::render(d));
  return std::move(*step);
}

ComparedSide side_of(const ComparisonSource& source, bool all_ranks, const std::atomic<bool>& cancelled) {
  ComparedSide side{
      source.name, !source.trace_file.isEmpty(), std::make_shared<const Prediction>(predict_live(source.run)), {}, {}};
  const Prediction& p = *side.prediction;
  const std::uint64_t operations = traced_operations(*p.program);
  if (operations > most_drawn_operations) {
    throw Error(fmt::format("The step of {} has {} operations on one rank of each stage; at most {} are drawn.",
                            p.run.plan.name, with_commas(operations), with_commas(most_drawn_operations)));
  }
  if (side.measured) {
    side.trace = read_measured(source, *p.program);
  } else {
    SimulateOptions options;
    options.progress.cancelled = &cancelled;
    if (all_ranks) options.trace = SimulateOptions::Ranks::all;
    side.trace = simulate(p.run, *p.program, costs_of(p), options).trace;
  }
  side.timeline = make_timeline(*p.program, side.trace);
  return side;
}

}  // namespace

std::vector<TimePart> time_parts(const Timeline& timeline) {
  using Group = TimePart::Group;
  std::vector<TimePart> out;
  for (std::size_t kind = 0; kind < slice_kind_count; ++kind) {
    out.push_back({std::string("compute: ") + name_of(static_cast<SliceKind>(kind)), Group::compute, 0});
  }
  for (const std::string& name : timeline.names) out.push_back({"waiting for " + name, Group::communication, 0});
  const std::size_t message = out.size();
  out.push_back({"bubble, a message moving", Group::bubble, 0});
  out.push_back({"bubble", Group::bubble, 0});
  for (const TimelineRank& rank : timeline.ranks) {
    for (const Slice& s : rank.lanes.front().slices) out[static_cast<std::size_t>(s.kind)].time += s.end - s.start;
    for (const IdleRange& i : rank.idle) {
      const std::size_t part = i.cause == IdlePart::Cause::collective ? slice_kind_count + i.name
                               : i.cause == IdlePart::Cause::message  ? message
                                                                      : message + 1;
      out[part].time += i.range.length();
    }
  }
  std::erase_if(out, [](const TimePart& p) { return p.time == 0; });
  return out;
}

std::vector<WaterfallTerm> waterfall(const Timeline& a, const Timeline& b) {
  std::vector<WaterfallTerm> out;
  const auto add = [&](const Timeline& timeline, double WaterfallTerm::*side) {
    const double ranks = static_cast<double>(std::max<std::size_t>(1, timeline.ranks.size()));
    for (const TimePart& part : time_parts(timeline)) {
      auto at = std::find_if(out.begin(), out.end(), [&](const WaterfallTerm& t) { return t.name == part.name; });
      if (at == out.end()) at = out.insert(out.end(), {part.name, part.group, 0.0, 0.0});
      (*at).*side = static_cast<double>(part.time) * 1e-12 / ranks;
    }
  };
  add(a, &WaterfallTerm::a);
  add(b, &WaterfallTerm::b);
  if (!a.kernels.empty() || !b.kernels.empty()) {
    std::vector<WaterfallTerm> coarse;
    for (const WaterfallTerm& t : out) {
      constexpr std::string_view waiting = "waiting for ";
      std::string name = t.name;
      if (t.group == TimePart::Group::compute) name = "compute";
      if (t.group == TimePart::Group::communication) name = t.name.substr(0, t.name.find(' ', waiting.size()));
      auto at = std::find_if(coarse.begin(), coarse.end(), [&](const WaterfallTerm& c) { return c.name == name; });
      if (at == coarse.end()) at = coarse.insert(coarse.end(), {name, t.group, 0.0, 0.0});
      at->a += t.a;
      at->b += t.b;
    }
    out = std::move(coarse);
  }
  std::stable_sort(out.begin(), out.end(), [](const WaterfallTerm& x, const WaterfallTerm& y) {
    return x.group != y.group ? x.group < y.group : std::abs(x.change()) > std::abs(y.change());
  });
  return out;
}

std::vector<BasisDifference> PlanComparison::basis() const {
  if (has_measurement()) return {};
  return basis_differences(*a.prediction->of, *b.prediction->of);
}

bool PlanComparison::are_comparable() const { return is_comparable(basis()); }

std::vector<FieldDifference> field_differences(const PlannedRun& a, const PlannedRun& b) {
  std::vector<FieldDifference> out;
  for (const BasisDifference& d : basis_differences(a, b)) out.push_back({d.field, d.a, d.b});
  std::map<std::string, std::string> right;
  for (const Decision& d : decisions(b.plan)) right[d.key] = d.value;
  for (const Decision& d : decisions(a.plan)) {
    const auto other = right.find(d.key);
    const std::string value = other == right.end() ? "\u2013" : other->second;
    if (value != d.value) out.push_back({d.key, d.value, value});
    if (other != right.end()) right.erase(other);
  }
  for (const auto& [key, value] : right) out.push_back({key, "\u2013", value});
  return out;
}

namespace {

PlanComparison beside_profile(const ComparisonSource& a, const ComparisonSource& b,
                              const std::atomic<bool>& cancelled) {
  const ProfiledStep step = read_step(b, cancelled);
  PlanComparison out{side_of(a, false, cancelled), {}, {}, {}, {}, {}};
  const Program& program = *out.a.prediction->program;
  out.figures = compare(out.a.trace, program, step);
  if (!out.figures.same_plan) {
    throw Error(fmt::format("This profile does not belong to the plan {}: {}.", out.a.prediction->run.plan.name,
                            out.figures.mismatches.front()));
  }
  out.b = {b.name, true, out.a.prediction, {}, make_timeline(program, step)};
  // The prediction keeps those classes of ranks that were profiled.
  std::erase_if(out.a.timeline.ranks, [&](const TimelineRank& r) {
    return std::none_of(step.ranks.begin(), step.ranks.end(),
                        [&](const StepOfRank& m) { return class_of(program, m.rank) == class_of(program, r.rank); });
  });
  out.terms = waterfall(out.a.timeline, out.b.timeline);
  out.notes = step.notes;
  out.notes.emplace_back(
      "a collective's kernel waits inside for its partners; the prediction counts from the last of them");
  return out;
}

}  // namespace

bool is_profile(const QString& file) {
  QFile in(file);
  return in.open(QIODevice::ReadOnly) && looks_like_profile(in.read(4096).toStdString());
}

PlanComparison compare_sources(const ComparisonSource& a, const ComparisonSource& b,
                               const std::atomic<bool>& cancelled) {
  const bool measured = !b.trace_file.isEmpty();
  ORRERY_ASSERT(measured || a.trace_file.isEmpty());
  if (measured && is_profile(b.trace_file)) return beside_profile(a, b, cancelled);
  if (!b.more_files.isEmpty()) {
    throw Error(
        fmt::format("{} is not a profile of PyTorch. Only of those may several files be chosen, one of each rank.",
                    b.trace_file.toStdString()));
  }
  PlanComparison out{side_of(a, measured, cancelled), side_of(b, measured, cancelled), {}, {}, {}, {}};
  const Prediction& pa = *out.a.prediction;
  const Prediction& pb = *out.b.prediction;
  if (measured && *pa.program == *pb.program) {
    out.figures = compare(out.a.trace, out.b.trace, pb.program.get());
    // One side has a rank of each class, the other all ranks, or the recorded ones. Both keep the same ranks.
    std::erase_if(out.a.timeline.ranks, [&](const TimelineRank& r) {
      return std::none_of(out.b.timeline.ranks.begin(), out.b.timeline.ranks.end(),
                          [&](const TimelineRank& m) { return m.rank == r.rank; });
    });
  } else if (measured) {
    throw Error("The measured step belongs to another plan than the prediction.");
  } else {
    out.figures = compare(pb.report, pa.report);
  }
  out.terms = waterfall(out.a.timeline, out.b.timeline);
  out.differences = field_differences(pa.run, pb.run);
  return out;
}

CompareService::CompareService(QObject* parent)
    : QObject(parent), worker_([this](const Request& request, const std::atomic<bool>& outdated) {
        const auto post = [this](auto&& what) { QMetaObject::invokeMethod(this, what, Qt::QueuedConnection); };
        try {
          auto done = std::make_shared<const PlanComparison>(compare_sources(request.a, request.b, outdated));
          post([this, done = ComparisonPointer(std::move(done))] { Q_EMIT compared(done); });
        } catch (const SimulationCancelled&) {
          // A newer request waits, so nothing is reported.
        } catch (const std::exception& e) {
          post([this, why = QString::fromStdString(e.what())] { Q_EMIT failed(why); });
        }
      }) {}

void CompareService::request(ComparisonSource a, ComparisonSource b) { worker_.submit({std::move(a), std::move(b)}); }

TableContent figures_table(const PlanComparison& c) {
  TableContent out;
  out.headers = {tr("Figure"), c.a.name, c.b.name, c.has_measurement() ? tr("Error") : tr("Change")};
  const auto add = [&](const QString& name, Cell a, Cell b, std::optional<double> error) {
    out.rows.push_back({out.rows.size(), {{name}, std::move(a), std::move(b), change_cell(c, error)}});
  };
  const auto bytes = [](std::uint64_t n) {
    return Cell{q(short_text(Bytes::of(static_cast<double>(n)))), static_cast<double>(n)};
  };
  const Comparison& f = c.figures;
  // With two plans `a` stands where a measurement would.
  const bool swapped = !c.has_measurement();
  const auto seconds = [&](const QString& name, Seconds predicted, Seconds measured) {
    const double a = (swapped ? measured : predicted).base(), b = (swapped ? predicted : measured).base();
    add(name, time(a), time(b), relative_error(predicted.base(), measured.base()));
  };
  seconds(tr("step time"), f.predicted_step, f.measured_step);
  for (const ComparedTime& part : f.parts) seconds(q(part.name), part.predicted, part.measured);
  const std::uint64_t a_peak = swapped ? f.measured_peak_bytes : f.predicted_peak_bytes;
  const std::uint64_t b_peak = swapped ? f.predicted_peak_bytes : f.measured_peak_bytes;
  const bool unknown = !f.judges_memory && b_peak == 0;
  add(tr("peak memory"), bytes(a_peak), unknown ? Cell{QStringLiteral("\u2013")} : bytes(b_peak),
      relative_error(static_cast<double>(f.predicted_peak_bytes), static_cast<double>(f.measured_peak_bytes)));
  if (swapped) {
    const Report &a = c.a.prediction->report, &b = c.b.prediction->report;
    const auto rate = [](double v) { return Cell{q(short_count(v, 4)), v}; };
    const auto percent = [](double v) { return Cell{q(fmt::format("{:.1f} %", 100.0 * v)), v}; };
    add(tr("tokens/s"), rate(a.tokens_per_s), rate(b.tokens_per_s), relative_error(b.tokens_per_s, a.tokens_per_s));
    add(tr("tokens/s per GPU"), rate(a.tokens_per_s_per_gpu), rate(b.tokens_per_s_per_gpu),
        relative_error(b.tokens_per_s_per_gpu, a.tokens_per_s_per_gpu));
    add(tr("MFU"), percent(a.model_flops_utilization), percent(b.model_flops_utilization),
        relative_error(b.model_flops_utilization, a.model_flops_utilization));
  } else {
    for (const ComparedRank& r : f.ranks) {
      add(tr("memory of rank %1").arg(index(r.rank)), bytes(r.predicted_peak_bytes), bytes(r.measured_peak_bytes),
          relative_error(static_cast<double>(r.predicted_peak_bytes), static_cast<double>(r.measured_peak_bytes)));
    }
  }
  return out;
}

TableContent waterfall_table(const PlanComparison& c) {
  TableContent out;
  out.headers = {tr("Compute lane, mean over ranks"), c.a.name, c.b.name, tr("Difference"), tr("Share of first step")};
  const double step = static_cast<double>(c.a.timeline.duration) * 1e-12;
  double a = 0.0, b = 0.0;
  const auto add = [&](const QString& name, double left, double right) {
    out.rows.push_back({out.rows.size(),
                        {{name},
                         time(left),
                         time(right),
                         signed_time(right - left),
                         change_cell(c, step > 0 ? std::optional((right - left) / step) : std::nullopt)}});
  };
  for (const WaterfallTerm& t : c.terms) {
    add(q(t.name), t.a, t.b);
    a += t.a;
    b += t.b;
  }
  add(tr("step"), a, b);
  return out;
}

TableContent operations_table(const PlanComparison& c) {
  TableContent out;
  const bool measured = c.has_measurement();
  out.headers = {tr("Operation"),          c.a.name, c.b.name, measured ? tr("Error") : tr("Change"), tr("Count"),
                 tr("Count of the second")};
  if (measured) out.headers.push_back(tr("Median error of one"));
  for (const ComparedTime& o : c.figures.operations) {
    const Seconds a = measured ? o.predicted : o.measured, b = measured ? o.measured : o.predicted;
    CellRow row{out.rows.size(),
                {{q(o.name)},
                 time(a.base()),
                 time(b.base()),
                 change_cell(c, o.error),
                 count(measured ? o.predicted_count : o.measured_count),
                 count(measured ? o.measured_count : o.predicted_count)}};
    if (measured) {
      row.cells.push_back(o.median_error ? Cell{q(fmt::format("{:.1f} %", 100.0 * *o.median_error)), *o.median_error}
                                         : Cell{QStringLiteral("\u2013")});
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

TableContent differences_table(const PlanComparison& c) {
  TableContent out;
  out.headers = {tr("Field"), c.a.name, c.b.name};
  for (const FieldDifference& d : c.differences) {
    out.rows.push_back({out.rows.size(), {{q(d.field)}, {q(d.a)}, {q(d.b)}}});
  }
  return out;
}

}  // namespace orrery::gui
