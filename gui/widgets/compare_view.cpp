#include "gui/widgets/compare_view.hpp"

#include <QHeaderView>
#include <QLabel>
#include <QSplitter>
#include <QTabWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "core/base/units_text.hpp"
#include "gui/widgets/theme.hpp"
#include "gui/widgets/timeline_view.hpp"
#include "gui/widgets/waterfall_chart.hpp"

namespace orrery::gui {

CompareView::CompareView(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  for (QLabel** label : {&outdated_, &notes_}) {
    *label = new QLabel(this);
    (*label)->setWordWrap(true);
    (*label)->setTextFormat(Qt::PlainText);
    (*label)->setMargin(6);
    (*label)->hide();
    column->addWidget(*label);
  }
  outdated_->setObjectName(QStringLiteral("compare-outdated"));
  notes_->setObjectName(QStringLiteral("compare-notes"));
  // Charts without figures are not shown.
  empty_ = new QLabel(this);
  empty_->setObjectName(QStringLiteral("compare-message"));
  empty_->setAlignment(Qt::AlignCenter);
  empty_->setWordWrap(true);
  empty_->setTextFormat(Qt::PlainText);
  empty_->setMargin(40);
  column->addWidget(empty_, 1);
  auto* split = split_ = new QSplitter(Qt::Vertical, this);
  split_->hide();
  first_ = new TimelineView(focus_, split);
  second_ = new TimelineView(focus_, split);
  first_->setAccessibleName(tr("Timeline of the first"));
  second_->setAccessibleName(tr("Timeline of the second"));
  first_->setObjectName(QStringLiteral("timeline-first"));
  second_->setObjectName(QStringLiteral("timeline-second"));
  tabs_ = new QTabWidget(split);
  tabs_->setDocumentMode(true);
  chart_ = new WaterfallChart(tabs_);
  tabs_->addTab(chart_, tr("Waterfall"));
  add_table(waterfall_, tr("Where the time went"), "waterfall", tr("Where the time of both went"));
  add_table(figures_, tr("Figures"), "compared-figures", tr("Figures of both"));
  add_table(operations_, tr("Operations"), "compared-operations", tr("Kinds of operations of both"));
  add_table(differences_, tr("Plans"), "plan-differences", tr("What the plans decide differently"));
  for (int i = 0; i < 3; ++i) split->setStretchFactor(i, 1);
  split->setSizes({165, 165, 260});
  column->addWidget(split, 1);
  set_message(tr("Nothing is compared yet."));
}

void CompareView::add_table(CellTable& model, const QString& title, const char* name, const QString& what) {
  auto* table = new QTableView(tabs_);
  table->setModel(&model);
  table->setObjectName(QLatin1String(name));
  table->setAccessibleName(what);
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  table->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setAlternatingRowColors(true);
  table->setFrameShape(QFrame::NoFrame);
  table->setShowGrid(false);
  connect(&model, &QAbstractItemModel::modelReset, table,
          [table] { table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents); });
  tabs_->addTab(table, title);
}

void CompareView::show_comparison(const ComparisonPointer& comparison) {
  comparison_ = comparison;
  set_outdated({});
  empty_->hide();
  split_->show();
  const PlanComparison& c = *comparison;
  focus_.set_duration(std::max(c.a.timeline.duration, c.b.timeline.duration));
  const auto show = [](TimelineView& view, const ComparedSide& side, const Timeline& timeline, const auto& owner) {
    view.set_timeline(TimelinePointer(owner, &timeline));
    view.set_title(QStringLiteral("%1: %2").arg(
        side.name, QString::fromStdString(short_text(Seconds::of(static_cast<double>(timeline.duration) * 1e-12), 4))));
  };
  show(*first_, c.a, c.a.timeline, comparison);
  show(*second_, c.b, c.b.timeline, comparison);
  const auto fill = [](CellTable& model, TableContent content) {
    model.set(std::move(content.headers), std::move(content.rows));
  };
  fill(figures_, figures_table(c));
  fill(waterfall_, waterfall_table(c));
  fill(operations_, operations_table(c));
  fill(differences_, differences_table(c));
  chart_->show_comparison(comparison);
  QStringList notes;
  if (!c.are_comparable()) {
    notes +=
        tr("The second has %1: changes are not told as percentages.").arg(QString::fromStdString(text_of(c.basis())));
  }
  // The figures of two plans may be for different things on purpose; with a measurement that is a warning.
  if (c.has_measurement()) {
    for (const std::string& m : c.figures.mismatches) notes += QString::fromStdString(m);
    for (const std::string& n : c.notes) notes += QString::fromStdString(n);
  }
  notes_->setText(notes.join(QStringLiteral("\n")));
  notes_->setVisible(!notes.isEmpty());
}

void CompareView::set_message(const QString& message) {
  comparison_.reset();
  set_outdated({});
  for (CellTable* table : {&figures_, &waterfall_, &operations_, &differences_}) table->set({}, {});
  empty_->setText(message);
  empty_->show();
  split_->hide();
  notes_->hide();
}

bool CompareView::is_outdated() const { return !outdated_->text().isEmpty(); }

void CompareView::set_outdated(const QString& why) {
  const QString shown = comparison_ ? why : QString();
  outdated_->setText(shown);
  outdated_->setVisible(!shown.isEmpty());
  for (TimelineView* view : {first_, second_}) view->set_outdated(!shown.isEmpty());
  set_greyed(*tabs_, !shown.isEmpty());
}

}  // namespace orrery::gui
