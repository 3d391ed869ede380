#include "gui/model/tables.hpp"

#include <fmt/format.h>

#include <QCoreApplication>

#include "core/base/units_text.hpp"
#include "core/plan/plan_names.hpp"
#include "planner/space.hpp"

namespace orrery::gui {
namespace {

QString q(const std::string& text) { return QString::fromStdString(text); }
QString tr(const char* text) { return QCoreApplication::translate("tables", text); }

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
      row.cells[3] = {q(change(metric, now, *baseline).text), b.value == 0.0 ? 0.0 : r.value / b.value};
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

TableContent memory_table(const Report& r) {
  TableContent out;
  out.headers = {tr("Stage"), tr("Peak"), tr("Of device")};
  for (std::size_t role = 0; role < memory_role_count; ++role) out.headers.push_back(memory_role_name(role));
  for (const StageMemory& m : r.memory_by_stage) {
    CellRow row{m.stage, {count(m.stage), bytes(m.peak), {QStringLiteral("-")}}};
    if (r.memory_capacity_bytes) {
      row.cells[2] = percent(static_cast<double>(m.peak) / static_cast<double>(*r.memory_capacity_bytes));
    }
    for (std::size_t role = 0; role < memory_role_count; ++role) row.cells.push_back(bytes(memory_in_role(m, role)));
    out.rows.push_back(std::move(row));
  }
  return out;
}

TableContent statistics_table(const std::vector<KindStatistics>& kinds, TimeRange range, std::size_t ranks) {
  TableContent out;
  out.headers = {tr("Operation"), tr("Time"), tr("Of the range"), tr("Count"), tr("Mean")};
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

TableContent found_table(const std::vector<FoundPlan>& plans) {
  TableContent out;
  out.headers = {tr("#"),      tr("Step"),     tr("Tokens/s"), tr("MFU"),     tr("Memory"),    tr("Bubble"), tr("Data"),
                 tr("Tensor"), tr("Pipeline"), tr("Schedule"), tr("Microb."), tr("Recompute"), tr("ZeRO")};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const FoundPlan& f = plans[i];
    const Report& r = f.report;
    const Mesh& mesh = f.plan.mesh;
    CellRow row{f.number,
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
