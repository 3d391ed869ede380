#include "gui/model/tables.hpp"

#include <fmt/format.h>

#include <QCoreApplication>
#include <algorithm>

#include "core/base/units_text.hpp"
#include "core/plan/plan_names.hpp"
#include "gui/model/verdict.hpp"
#include "planner/describe.hpp"

namespace orrery::gui {
namespace {

QString q(const std::string& text) { return QString::fromStdString(text); }
QString tr(const char* text) { return QCoreApplication::translate("orrery::gui", text); }

Cell bytes(std::uint64_t n) { return {q(short_text(Bytes::of(static_cast<double>(n)))), static_cast<double>(n)}; }
Cell time(Seconds t) { return {q(short_text(t, 4)), t.base()}; }
Cell percent(double share) { return {q(fmt::format("{:.1f} %", 100.0 * share)), share}; }
Cell count(std::uint64_t n) { return {q(fmt::to_string(n)), static_cast<double>(n)}; }

}  // namespace

QString memory_role_name(std::size_t role) {
  const char* names[memory_role_count] = {QT_TR_NOOP("weights"), QT_TR_NOOP("gradients"), QT_TR_NOOP("optimizer"),
                                          QT_TR_NOOP("activations"), QT_TR_NOOP("workspace")};
  return tr(names[role]);
}

std::uint64_t memory_in_role(const StageMemory& m, std::size_t role) {
  const std::uint64_t held[memory_role_count] = {m.weights, m.gradients, m.optimizer, m.activations, m.workspace};
  return held[role];
}

QString memory_part_name(std::size_t part) {
  if (part < memory_role_count) return memory_role_name(part);
  return part == memory_role_count ? tr("allocator") : tr("context");
}

std::uint64_t memory_in_part(const Report& r, const StageMemory& m, std::size_t part) {
  if (part < memory_role_count) return memory_in_role(m, part);
  std::uint64_t tensors = 0;
  for (std::size_t role = 0; role < memory_role_count; ++role) tensors += memory_in_role(m, role);
  const std::uint64_t reserved = std::max(tensors, m.reserved.value_or(0));
  if (part == memory_role_count) return reserved - tensors;
  return process_of(r, m) - std::min(process_of(r, m), reserved);
}

TableContent results_table(const Prediction& now, const Prediction* baseline) {
  TableContent out;
  out.headers = {tr("Figure"), tr("Value"), tr("Baseline"), tr("Change")};
  for (std::size_t i = 0; i < metric_count; ++i) {
    const auto metric = static_cast<Metric>(i);
    const Reading r = reading(metric, now);
    CellRow row{i, {{q(label_of(metric))}, {q(r.text), r.value, q(r.note)}, {QString()}, {QString()}}};
    if (baseline != nullptr) {
      const Reading b = reading(metric, *baseline);
      row.cells[2] = {q(b.text), b.value};
      const MetricChange c = change(metric, now, *baseline);
      row.cells[3] = {q(c.text), b.value == 0.0 || !c.judged ? 0.0 : r.value / b.value};
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

TableContent memory_table(const Report& r) {
  TableContent out;
  out.headers = {tr("Stage"), tr("Process"), tr("Share of device"), tr("Tensors")};
  for (std::size_t part = 0; part < memory_part_count; ++part) out.headers.push_back(memory_part_name(part));
  const Cell unknown{QStringLiteral("-")};
  for (const StageMemory& m : r.memory_by_stage) {
    const std::uint64_t process = process_of(r, m);
    CellRow row{m.stage, {count(m.stage), m.reserved ? bytes(process) : unknown, unknown, bytes(m.peak)}};
    if (r.memory_capacity_bytes) {
      row.cells[2] = percent(static_cast<double>(process) / static_cast<double>(*r.memory_capacity_bytes));
    }
    for (std::size_t part = 0; part < memory_part_count; ++part) {
      row.cells.push_back(part < memory_role_count || m.reserved ? bytes(memory_in_part(r, m, part)) : unknown);
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

TableContent tensors_table(const PeakTensors& stage) {
  TableContent out;
  out.headers = {tr("Tensor"), tr("Together"), tr("Share of peak"), tr("Count"),
                 tr("Role"),   tr("Whose"),    tr("Shape"),         tr("Type")};
  const auto share = [&](std::uint64_t n) {
    return percent(stage.bytes == 0 ? 0.0 : static_cast<double>(n) / static_cast<double>(stage.bytes));
  };
  std::uint64_t tensors = 0;
  for (const LiveTensor& t : stage.tensors) {
    tensors += t.count;
    CellRow row{out.rows.size(),
                {{q(t.name)},
                 bytes(t.bytes),
                 share(t.bytes),
                 count(t.count),
                 {q(t.role)},
                 {q(t.where)},
                 {q(t.shape)},
                 {q(t.dtype)}}};
    for (Cell& cell : row.cells) cell.tip = q(fmt::format("{}: {}", t.name, with_commas(t.bytes) + " bytes"));
    out.rows.push_back(std::move(row));
  }
  out.rows.push_back(
      {out.rows.size(), {{tr("all")}, bytes(stage.bytes), share(stage.bytes), count(tensors), {}, {}, {}, {}}});
  return out;
}

TableContent statistics_table(const std::vector<KindStatistics>& kinds, TimeRange range, std::size_t ranks) {
  TableContent out;
  out.headers = {tr("Operation"), tr("Time"), tr("Share of range"), tr("Count"), tr("Mean")};
  const double whole = static_cast<double>(range.length()) * static_cast<double>(ranks);
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const KindStatistics& k = kinds[i];
    const auto t = static_cast<double>(k.time) * 1e-12;
    out.rows.push_back({i,
                        {{q(k.name)},
                         time(Seconds::of(t)),
                         percent(whole > 0 ? static_cast<double>(k.time) / whole : 0.0),
                         count(k.count),
                         time(Seconds::of(k.count == 0 ? 0.0 : t / static_cast<double>(k.count)))}});
  }
  return out;
}

TableContent dependency_table(const Timeline& timeline, const std::optional<OpPlace>& op,
                              const std::vector<Dependency>& dependencies) {
  TableContent out;
  out.headers = {tr("Relation"), tr("Operation"), tr("Rank"),    tr("Op"),
                 tr("From"),     tr("To"),        tr("Microb."), tr("Because")};
  const auto add = [&](const QString& relation, const OpPlace& at, const QString& because) {
    const auto place = place_of(timeline, at);
    if (!place) return;
    const Slice& s = slice_of(timeline, *place);
    const auto seconds_of = [](std::int64_t t) { return Seconds::of(static_cast<double>(t) * 1e-12); };
    out.rows.push_back({out.rows.size(),
                        {{relation},
                         {q(timeline.names[s.name])},
                         count(index(timeline.ranks[at.rank].rank)),
                         count(index(s.op)),
                         time(seconds_of(s.start)),
                         time(seconds_of(s.end)),
                         count(s.microbatch),
                         {because}}});
  };
  if (!op) return out;
  add(tr("this"), *op, {});
  for (const Dependency& d : dependencies) {
    if (d.kind == Dependency::Kind::collective && d.from == *op) continue;  // it stands there the other way round
    const bool into = d.to == *op;
    const QString relation = d.kind == Dependency::Kind::collective ? tr("together with")
                             : into ? (d.last ? tr("waited last for") : tr("waited for"))
                                    : tr("is waited for by");
    add(relation, into ? d.from : d.to, tr(name_of(d.kind)));
  }
  return out;
}

TableContent path_table(const StepAnalysis& analysis) {
  TableContent out;
  out.headers = {tr("On the critical path"), tr("Time"), tr("Share of step"), tr("-10 % saves"), tr("Share of step")};
  const std::int64_t step = analysis.path.steps.empty() ? 0 : analysis.path.steps.back().end;
  const auto seconds_of = [](std::int64_t t) { return Seconds::of(static_cast<double>(t) * 1e-12); };
  const auto share = [&](std::int64_t t) {
    return percent(step > 0 ? static_cast<double>(t) / static_cast<double>(step) : 0);
  };
  const auto add = [&](const QString& name, std::int64_t on_path, const Gain* gain) {
    CellRow row{out.rows.size(), {{name}, time(seconds_of(on_path)), share(on_path), {}, {}}};
    if (gain != nullptr) {
      row.cells[3] = time(seconds_of(gain->saved));
      row.cells[4] = share(gain->saved);
    }
    out.rows.push_back(std::move(row));
  };
  if (analysis.complete) {
    for (const Gain& g : analysis.gains) {
      if (g.links) continue;
      add(g.all_compute ? tr("all kernels together") : q(name_of(g.operation)), g.on_path, &g);
    }
  } else {
    const std::vector<std::int64_t> sums = analysis.path.by_operation();
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] > 0) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sums[a] > sums[b]; });
    for (const std::size_t i : order) add(q(name_of(Operation{static_cast<std::uint8_t>(i)})), sums[i], nullptr);
  }
  if (analysis.path.waiting > 0) add(tr("waiting for a core"), analysis.path.waiting, nullptr);
  return out;
}

TableContent found_table(const std::vector<FoundPlan>& plans) {
  TableContent out;
  out.headers = {tr("#"),      tr("Step"),     tr("Tokens/s"), tr("MFU"),     tr("Memory"),    tr("Bubble"), tr("Data"),
                 tr("Tensor"), tr("Pipeline"), tr("Schedule"), tr("Microb."), tr("Recompute"), tr("ZeRO")};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const FoundPlan& f = plans[i];
    const Report& r = f.report;
    const Mesh& mesh = f.plan.mesh;
    CellRow row{f.id,
                {count(i + 1),
                 time(r.step_time),
                 {q(short_count(r.tokens_per_s, 4)), r.tokens_per_s},
                 percent(r.model_flops_utilization),
                 bytes(r.peak_memory_bytes),
                 percent(r.bubble_fraction),
                 count(mesh.size(Axis::data)),
                 count(size(mesh, AxisList{Axis::tensor, Axis::depth, Axis::row, Axis::column})),
                 count(mesh.size(Axis::pipeline)),
                 {q(std::string(name_of(f.plan.schedule)))},
                 count(f.plan.microbatch_size),
                 {q(std::string(name_of(f.plan.recompute)))},
                 count(f.plan.zero_stage)}};
    for (Cell& cell : row.cells) cell.tip = q(describe(f.plan));
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace orrery::gui
