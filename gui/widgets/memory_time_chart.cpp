#include "gui/widgets/memory_time_chart.hpp"

#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "core/base/units.hpp"
#include "core/base/units_text.hpp"
#include "gui/widgets/chart.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

/// Rows of the table, whatever the range.
constexpr std::size_t table_parts = 32;

double gib(std::uint64_t bytes) { return Bytes::of(static_cast<double>(bytes)).in(gibibyte); }

}  // namespace

MemoryTimeChart::MemoryTimeChart(Focus& focus, QWidget* parent) : QWidget(parent), focus_(focus) {
  setObjectName(QStringLiteral("memory-over-time"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  title_ = new QLabel(tr("There is no simulated step."), this);
  title_->setMargin(4);
  title_->setTextFormat(Qt::PlainText);
  column->addWidget(title_);
  auto* split = new QSplitter(Qt::Vertical, this);
  chart_ = new QCustomPlot(split);
  chart_->setAccessibleName(tr("Memory of a rank over the step, by role; the table below has the figures"));
  auto* view = new QTableView(split);
  view->setModel(&table_);
  view->setObjectName(QStringLiteral("memory-course"));
  view->setAccessibleName(tr("Memory of a rank over the step"));
  view->verticalHeader()->hide();
  view->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  view->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  view->setSelectionBehavior(QAbstractItemView::SelectRows);
  view->setAlternatingRowColors(true);
  view->setFrameShape(QFrame::NoFrame);
  view->setShowGrid(false);
  view->setMinimumHeight(1);  // so that a low window has room for the chart at least
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 1);
  split->setSizes({240, 80});
  column->addWidget(split, 1);

  for (std::size_t role = 0; role < memory_role_count; ++role) {
    QCPGraph* graph = chart_->addGraph();
    graph->setName(memory_role_name(role));
    graph->setLineStyle(QCPGraph::lsStepLeft);
    graph->setPen(Qt::NoPen);
    graph->setBrush(role_colour(role));
    graph->setAntialiasedFill(false);
    if (!graphs_.empty()) graph->setChannelFillGraph(graphs_.back());
    graphs_.push_back(graph);
  }
  capacity_ = new QCPItemStraightLine(chart_);
  cursor_ = new QCPItemStraightLine(chart_);
  lift_legend(*chart_, 3);
  chart_->yAxis->setLabel(tr("GiB"));
  chart_->xAxis->setLabel(tr("time, s"));
  chart_->xAxis->grid()->setVisible(false);
  for (QCPAxis* axis : {chart_->xAxis, chart_->yAxis}) axis->setSubTicks(false);
  dress_chart();

  connect(&focus_, &Focus::stage_changed, this, [this] { choose_rank(); });
  connect(&focus_, &Focus::visible_changed, this, [this] { draw(); });
  connect(&focus_, &Focus::cursor_changed, this, [this] { draw_cursor(); });
}

void MemoryTimeChart::set_step(SimulatedPointer step) {
  step_ = std::move(step);
  choose_rank();
}

void MemoryTimeChart::clear() {
  course_.clear();
  for (QCPGraph* graph : graphs_) graph->data()->clear();
  table_.set({}, {});
  capacity_->setVisible(false);
  cursor_->setVisible(false);
  title_->setText(tr("There is no simulated step."));
  chart_->replot(QCustomPlot::rpQueuedReplot);
}

void MemoryTimeChart::choose_rank() {
  outdated_ = !isVisible();
  if (!step_) clear();
  if (outdated_ || !step_) return;
  const Timeline& timeline = step_->timeline;
  const auto peak_of = [](const TimelineRank& rank) {
    std::uint64_t out = 0;
    for (const MemoryPoint& p : rank.memory) out = std::max(out, p.peak);
    return out;
  };
  std::size_t chosen = timeline.ranks.size();
  std::uint64_t most = 0;
  for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
    if (focus_.stage() && timeline.ranks[r].stage != *focus_.stage()) continue;
    const std::uint64_t peak = peak_of(timeline.ranks[r]);
    if (chosen < timeline.ranks.size() && peak <= most) continue;
    chosen = r;
    most = peak;
  }
  course_.clear();
  if (chosen < timeline.ranks.size()) {
    course_ = memory_course(*step_->prediction->program, step_->simulation.trace.ranks[chosen]);
    title_->setText(tr("Stage %1, rank %2: up to %3")
                        .arg(timeline.ranks[chosen].stage)
                        .arg(index(timeline.ranks[chosen].rank))
                        .arg(QString::fromStdString(short_text(Bytes::of(static_cast<double>(most))))));
  }
  double highest = gib(most);
  const auto capacity = step_->prediction->report.memory_capacity_bytes;
  capacity_->setVisible(capacity.has_value());
  if (capacity) {
    highest = std::max(highest, gib(*capacity));
    capacity_->point1->setCoords(0, gib(*capacity));
    capacity_->point2->setCoords(1, gib(*capacity));
  }
  chart_->yAxis->setRange(0, std::max(1.08 * highest, 1e-3));
  draw();
}

void MemoryTimeChart::draw() {
  if (!isVisible()) outdated_ = true;
  if (outdated_ || !step_) return;
  const TimeRange range = focus_.visible();
  const auto pixels = static_cast<std::size_t>(std::clamp(chart_->width(), 64, 4096));
  const std::vector<HeldMemory> seen = course_in(course_, range, pixels);
  const double step = static_cast<double>(focus_.duration()) * 1e-12;
  const double unit = step < 1e-3 ? 1e6 : step < 1.0 ? 1e3 : 1.0;
  const auto place_of = [&](std::int64_t time) { return static_cast<double>(time) * 1e-12 * unit; };
  chart_->xAxis->setLabel(unit == 1e6 ? tr("time, \u00B5s") : unit == 1e3 ? tr("time, ms") : tr("time, s"));
  chart_->xAxis->setRange(place_of(range.start), place_of(std::max(range.end, range.start + 1)));
  QVector<double> at;
  std::vector<double> below(seen.size() + 1, 0.0);
  for (const HeldMemory& m : seen) at.push_back(place_of(m.time));
  if (!seen.empty()) at.push_back(place_of(range.end));  // the last part has an end too
  for (std::size_t role = 0; role < memory_role_count; ++role) {
    QVector<double> top;
    for (qsizetype i = 0; i < at.size(); ++i) {
      const auto part = std::min(static_cast<std::size_t>(i), seen.size() - 1);
      top.push_back(below[static_cast<std::size_t>(i)] += gib(seen[part].held[role]));
    }
    graphs_[role]->setData(at, top, true);
  }
  TableContent content = course_table(course_in(course_, range, table_parts));
  table_.set(std::move(content.headers), std::move(content.rows));
  draw_cursor();
}

void MemoryTimeChart::draw_cursor() {
  const auto time = focus_.cursor();
  cursor_->setVisible(time.has_value());
  if (time && focus_.duration() > 0) {
    const TimeRange range = focus_.visible();
    const double share =
        static_cast<double>(*time - range.start) / static_cast<double>(std::max<std::int64_t>(1, range.length()));
    const double x = chart_->xAxis->range().lower + share * chart_->xAxis->range().size();
    cursor_->point1->setCoords(x, 0);
    cursor_->point2->setCoords(x, 1);
  }
  chart_->replot(QCustomPlot::rpQueuedReplot);
}

void MemoryTimeChart::dress_chart() {
  dress(*chart_, palette());
  capacity_->setPen(QPen(bad_colour(is_dark(palette())), 1.5, Qt::DashLine));
  cursor_->setPen(QPen(palette().color(QPalette::WindowText), 1.0));
  chart_->replot(QCustomPlot::rpQueuedReplot);
}

void MemoryTimeChart::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) dress_chart();
}

void MemoryTimeChart::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (outdated_) choose_rank();
}

void MemoryTimeChart::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  draw();
}

}  // namespace orrery::gui
