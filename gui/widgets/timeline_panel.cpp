#include "gui/widgets/timeline_panel.hpp"

#include <fmt/format.h>

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>

#include "core/base/units_text.hpp"
#include "gui/model/tables.hpp"

namespace orrery::gui {

TimelinePanel::TimelinePanel(Focus& focus, QWidget* parent) : QWidget(parent), focus_(focus) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  auto* controls = new QHBoxLayout;
  controls->setContentsMargins(6, 0, 6, 0);
  auto* colour = new QComboBox(this);
  colour->addItem(tr("Colour by microbatch"));
  colour->addItem(tr("Colour by kind of work"));
  colour->setAccessibleName(tr("Colour of slices"));
  controls->addWidget(colour);
  const auto button = [&](const QString& text, const QString& tip, auto action) {
    auto* b = new QToolButton(this);
    b->setText(text);
    b->setToolTip(tip);
    b->setAccessibleName(tip);
    controls->addWidget(b);
    connect(b, &QToolButton::clicked, this, action);
  };
  const auto zoom = [this](double factor) {
    const TimeRange now = focus_.visible();
    focus_.set_visible(zoomed(now, now.start + now.length() / 2, factor, focus_.duration()));
  };
  button(QStringLiteral("+"), tr("Zoom in (W)"), [zoom] { zoom(0.5); });
  button(QStringLiteral("\u2212"), tr("Zoom out (S)"), [zoom] { zoom(2.0); });
  button(tr("Whole step"), tr("Show the whole step (0)"), [this] { focus_.show_all(); });
  button(tr("Selection"), tr("Zoom to the selected range (F)"), [this] {
    if (const auto selected = focus_.selected()) focus_.set_visible(*selected);
  });
  range_ = new QLabel(this);
  range_->setTextFormat(Qt::PlainText);
  range_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  range_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  controls->addWidget(range_, 1);
  column->addLayout(controls);

  auto* split = new QSplitter(Qt::Vertical, this);
  view_ = new TimelineView(focus, split);
  table_ = new QTableView(split);
  table_->setModel(&statistics_);
  table_->setObjectName(QStringLiteral("statistics"));
  table_->setAccessibleName(tr("What the range holds"));
  table_->verticalHeader()->hide();
  table_->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  table_->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  table_->setSelectionBehavior(QAbstractItemView::SelectRows);
  table_->setAlternatingRowColors(true);
  table_->setFrameShape(QFrame::NoFrame);
  table_->setShowGrid(false);
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 1);
  split->setSizes({420, 150});
  column->addWidget(split, 1);

  connect(colour, &QComboBox::activated, this,
          [this](int at) { view_->set_colour(at == 0 ? SliceColour::microbatch : SliceColour::kind); });
  connect(&focus_, &Focus::selection_changed, this, [this] { count(); });
  connect(&focus_, &Focus::visible_changed, this, [this] {
    if (!focus_.selected()) count();
  });
}

void TimelinePanel::set_step(SimulatedPointer step) {
  step_ = std::move(step);
  view_->set_step(step_);
  count();
}

void TimelinePanel::count() {
  if (!step_) return;
  const TimeRange range = focus_.selected().value_or(focus_.visible());
  TableContent content =
      statistics_table(orrery::gui::statistics(step_->timeline, range), range, step_->timeline.ranks.size());
  statistics_.set(std::move(content.headers), std::move(content.rows));
  table_->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents);  // the names in full
  const auto text = [](std::int64_t t) { return short_text(Seconds::of(static_cast<double>(t) * 1e-12), 4); };
  const std::string span = fmt::format("{} to {} ({})", text(range.start), text(range.end), text(range.length()));
  range_->setText(focus_.selected() ? tr("selected %1").arg(QString::fromStdString(span))
                                    : QString::fromStdString(span));
  range_->setToolTip(tr("%1 slices on %2 ranks")
                         .arg(QString::fromStdString(with_commas(step_->timeline.slices)))
                         .arg(step_->timeline.ranks.size()));
}

}  // namespace orrery::gui
