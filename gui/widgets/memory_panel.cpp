#include "gui/widgets/memory_panel.hpp"

#include <QHeaderView>
#include <QLabel>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "core/base/units.hpp"
#include "core/base/units_text.hpp"
#include "gui/model/tables.hpp"
#include "gui/model/verdict.hpp"
#include "gui/widgets/chart.hpp"
#include "gui/widgets/memory_time_chart.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

double gib(std::uint64_t bytes) { return Bytes::of(static_cast<double>(bytes)).in(gibibyte); }

}  // namespace

MemoryPanel::MemoryPanel(Focus& focus, QWidget* parent) : QWidget(parent), focus_(focus) {
  setObjectName(QStringLiteral("memory"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  auto* tabs = tabs_ = new QTabWidget(this);
  tabs->setObjectName(QStringLiteral("memory-pages"));
  tabs->setDocumentMode(true);
  chart_ = new QCustomPlot(tabs);
  chart_->setAccessibleName(tr("Memory of the stages, as bars; the table beside it has the figures"));
  view_ = new QTableView(tabs);
  view_->setModel(&table_);
  view_->setAccessibleName(tr("Memory of the stages"));
  view_->verticalHeader()->hide();
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSelectionMode(QAbstractItemView::SingleSelection);
  view_->setAlternatingRowColors(true);
  view_->setShowGrid(false);
  over_time_ = new MemoryTimeChart(focus_, tabs);
  tabs->addTab(chart_, tr("Peak"));  // in the order of Page
  tabs->addTab(over_time_, tr("Over time"));
  tabs->addTab(tensors_page(), tr("Tensors"));
  tabs->addTab(view_, tr("Table"));
  column->addWidget(tabs);

  // The selected stage is a pale bar behind the others.
  marked_ = new QCPBars(chart_->xAxis, chart_->yAxis);
  marked_->setPen(Qt::NoPen);
  marked_->removeFromLegend();
  for (std::size_t part = 0; part < memory_part_count; ++part) {
    auto* bars = new QCPBars(chart_->xAxis, chart_->yAxis);
    bars->setName(memory_part_name(part));
    bars->setBrush(role_colour(part));
    bars->setPen(Qt::NoPen);
    if (!bars_.empty()) bars->moveAbove(bars_.back());
    bars_.push_back(bars);
  }
  capacity_ = new QCPItemStraightLine(chart_);
  capacity_text_ = new QCPItemText(chart_);
  capacity_text_->setPositionAlignment(Qt::AlignRight | Qt::AlignBottom);
  capacity_text_->position->setTypeX(QCPItemPosition::ptAxisRectRatio);
  lift_legend(*chart_, 3);
  chart_->xAxis->setLabel(tr("stage"));
  chart_->yAxis->setLabel(tr("GiB"));
  chart_->xAxis->grid()->setVisible(false);
  chart_->xAxis->setSubTicks(false);
  chart_->yAxis->setSubTicks(false);
  dress_chart();

  connect(chart_, &QCustomPlot::mousePress, this, [this](QMouseEvent* event) {
    const auto stage = std::lround(chart_->xAxis->pixelToCoord(event->pos().x()));
    if (stage >= 0 && stage < table_.rowCount()) focus_.set_stage(static_cast<std::uint32_t>(stage));
  });
  connect(view_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& at) {
    if (at.isValid())
      focus_.set_stage(static_cast<std::uint32_t>(table_.rows()[static_cast<std::size_t>(at.row())].id));
  });
  connect(&focus_, &Focus::stage_changed, this, [this] { follow_stage(); });
}

QWidget* MemoryPanel::tensors_page() {
  auto* page = new QWidget(tabs_);
  auto* column = new QVBoxLayout(page);
  column->setContentsMargins(0, 4, 0, 0);
  tensors_title_ = new QLabel(page);
  tensors_title_->setMargin(4);
  tensors_title_->setTextFormat(Qt::PlainText);
  column->addWidget(tensors_title_);
  sorted_tensors_.setSourceModel(&tensors_);
  sorted_tensors_.setSortRole(order_role);
  tensors_view_ = new QTableView(page);
  tensors_view_->setModel(&sorted_tensors_);
  tensors_view_->setObjectName(QStringLiteral("memory-tensors"));
  tensors_view_->setAccessibleName(tr("Tensors that a stage holds at its peak"));
  tensors_view_->setSortingEnabled(true);
  tensors_view_->sortByColumn(-1, Qt::AscendingOrder);  // as they come: largest first
  tensors_view_->verticalHeader()->hide();
  tensors_view_->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  tensors_view_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  tensors_view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  tensors_view_->setAlternatingRowColors(true);
  tensors_view_->setFrameShape(QFrame::NoFrame);
  tensors_view_->setShowGrid(false);
  tensors_view_->setMinimumHeight(1);
  column->addWidget(tensors_view_, 1);
  return page;
}

void MemoryPanel::show_page(Page page) { tabs_->setCurrentIndex(static_cast<int>(page)); }

void MemoryPanel::set_step(const SimulatedPointer& step) { over_time_->set_step(step); }

void MemoryPanel::show_prediction(const PredictionPointer& p) {
  prediction_ = p;
  show_report(p->report);
}

void MemoryPanel::show_tensors() {
  const PeakTensors* shown = nullptr;
  if (prediction_) {
    // Shows the selected stage, or the fullest one.
    for (const PeakTensors& t : prediction_->tensors) {
      if (focus_.stage() && t.stage != *focus_.stage()) continue;
      if (shown == nullptr || t.bytes > shown->bytes) shown = &t;
    }
  }
  if (shown == nullptr) {
    // Tensors come after the figures; until then those of the plan before must not be shown.
    tensors_.set({}, {});
    tensors_title_->setText(tr("Counting\u2026"));
    return;
  }
  TableContent content = tensors_table(*shown);
  tensors_.set(std::move(content.headers), std::move(content.rows));
  tensors_title_->setText(tr("Stage %1 at its peak, %2; equal tensors together")
                              .arg(shown->stage)
                              .arg(QString::fromStdString(short_text(Bytes::of(static_cast<double>(shown->bytes))))));
}

void MemoryPanel::show_report(const Report& r) {
  TableContent content = memory_table(r);
  table_.set(std::move(content.headers), std::move(content.rows));
  view_->resizeColumnsToContents();
  QVector<double> stages;
  double most = 0.0;
  for (const StageMemory& m : r.memory_by_stage) {
    stages.push_back(m.stage);
    most = std::max(most, gib(process_of(r, m)));
  }
  for (std::size_t part = 0; part < memory_part_count; ++part) {
    QVector<double> held;
    for (const StageMemory& m : r.memory_by_stage) held.push_back(gib(memory_in_part(r, m, part)));
    bars_[part]->setData(stages, held, true);
    bars_[part]->setWidth(0.72);
  }
  const bool known = r.memory_capacity_bytes.has_value();
  capacity_->setVisible(known);
  capacity_text_->setVisible(known);
  if (known) {
    const double room = gib(*r.memory_capacity_bytes);
    most = std::max(most, room);
    capacity_->point1->setCoords(0, room);
    capacity_->point2->setCoords(1, room);
    capacity_text_->position->setCoords(0.99, room);
    capacity_text_->setText(
        tr("device %1")
            .arg(QString::fromStdString(short_text(Bytes::of(static_cast<double>(*r.memory_capacity_bytes))))));
  }
  const auto count = static_cast<double>(r.memory_by_stage.size());
  chart_->xAxis->setRange(-0.6, count - 0.4);
  chart_->yAxis->setRange(0, std::max(most * 1.12, 1e-3));
  const auto ticker = QSharedPointer<QCPAxisTickerFixed>::create();
  ticker->setTickStep(std::max(1.0, std::ceil(count / 12.0)));
  chart_->xAxis->setTicker(ticker);
  chart_->xAxis->setNumberFormat(QStringLiteral("f"));
  chart_->xAxis->setNumberPrecision(0);
  follow_stage();
}

double MemoryPanel::bar_height(std::uint32_t stage) const {
  double out = 0.0;
  for (const QCPBars* bars : bars_) {
    const auto at = bars->data()->findBegin(stage, false);
    if (at != bars->data()->constEnd() && at->key == stage) out += at->value;
  }
  return out;
}

double MemoryPanel::capacity() const { return capacity_->visible() ? capacity_->point1->coords().y() : 0.0; }

void MemoryPanel::follow_stage() {
  QVector<double> at, height;
  if (const auto stage = focus_.stage()) {
    at.push_back(*stage);
    height.push_back(chart_->yAxis->range().upper);
    if (const auto row = table_.row_of(*stage)) {
      if (view_->currentIndex().row() != *row) view_->setCurrentIndex(table_.index(*row, 0));
    }
  }
  show_tensors();
  marked_->setData(at, height, true);
  marked_->setWidth(1.0);
  chart_->replot(QCustomPlot::rpQueuedReplot);
}

void MemoryPanel::dress_chart() {
  dress(*chart_, palette());
  const QColor limit = bad_colour(is_dark(palette()));
  capacity_->setPen(QPen(limit, 1.5, Qt::DashLine));
  capacity_text_->setColor(limit);
  capacity_text_->setFont(font());
  QColor pale = palette().color(QPalette::Highlight);
  pale.setAlpha(50);
  marked_->setBrush(pale);
  chart_->replot(QCustomPlot::rpQueuedReplot);
}

void MemoryPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) dress_chart();
}

}  // namespace orrery::gui
