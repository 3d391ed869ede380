#include "gui/widgets/timeline_panel.hpp"

#include <fmt/format.h>

#include <QComboBox>
#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QSplitter>
#include <QTabWidget>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <array>

#include "core/base/units_text.hpp"
#include "gui/model/tables.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

/// Shows the visible range, or, where there is no room for its ends, its length.
class RangeLabel : public QLabel {
 public:
  using QLabel::QLabel;
  void tell(const QString& whole, const QString& length) {
    whole_ = whole;
    length_ = length;
    choose();
  }

 protected:
  void resizeEvent(QResizeEvent* event) override {
    QLabel::resizeEvent(event);
    choose();
  }

 private:
  void choose() { setText(fontMetrics().horizontalAdvance(whole_) <= width() ? whole_ : length_); }

  QString whole_, length_;
};

/// The tabs below the timeline; the first one is for the range.
constexpr int operation_tab = 1, path_tab = 2;
constexpr int frame = 33;  ///< milliseconds between two pictures while playing
/// The durations, in seconds, in which the whole step can be played.
constexpr std::array<int, 4> playing_times = {10, 30, 120, 600};

QString time_text(std::int64_t t) {
  return QString::fromStdString(short_text(Seconds::of(static_cast<double>(t) * 1e-12), 4));
}

}  // namespace

TimelinePanel::TimelinePanel(Focus& focus, QWidget* parent) : QWidget(parent), focus_(focus) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  column->setSpacing(4);
  auto* split = new QSplitter(Qt::Vertical, this);
  view_ = new TimelineView(focus, split);
  tables_ = new QTabWidget(split);
  tables_->setDocumentMode(true);
  add_table(statistics_, tr("Range"), tr("What the range holds"))->setObjectName(QStringLiteral("statistics"));
  add_table(dependencies_, tr("Operation"), tr("What the selected operation waits for, and what waits for it"))
      ->setObjectName(QStringLiteral("dependencies"));
  add_table(path_, tr("Critical path"), tr("The critical path by kind of operation"))
      ->setObjectName(QStringLiteral("critical-path"));
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 1);
  split->setSizes({400, 170});

  for (auto make : {&TimelinePanel::make_viewing_row, &TimelinePanel::make_finding_row}) {
    auto* row = new QHBoxLayout;
    row->setContentsMargins(6, 0, 6, 0);
    (this->*make)(row);
    column->addLayout(row);
  }
  column->addWidget(split, 1);

  player_.setInterval(frame);
  connect(&player_, &QTimer::timeout, this, [this] { advance(); });
  connect(&focus_, &Focus::selection_changed, this, [this] { count(); });
  connect(&focus_, &Focus::visible_changed, this, [this] {
    if (!focus_.selected()) count();
  });
  connect(&focus_, &Focus::op_changed, this, [this] { show_op(); });
  connect(&focus_, &Focus::cursor_changed, this, [this] { follow_cursor(); });
  show_path();
  show_op();
}

QToolButton* TimelinePanel::button(QHBoxLayout* row, const QString& text, const QString& tip) {
  auto* b = new QToolButton(this);
  b->setText(text);
  b->setToolTip(tip);
  b->setAccessibleName(tip);
  row->addWidget(b);
  return b;
}

QTableView* TimelinePanel::add_table(CellTable& model, const QString& title, const QString& what) {
  auto* table = new QTableView(tables_);
  table->setModel(&model);
  table->setAccessibleName(what);
  table->verticalHeader()->hide();
  table->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  table->horizontalHeader()->setSectionResizeMode(QHeaderView::Stretch);
  table->horizontalHeader()->setTextElideMode(Qt::ElideRight);
  table->setSelectionBehavior(QAbstractItemView::SelectRows);
  table->setAlternatingRowColors(true);
  table->setFrameShape(QFrame::NoFrame);
  table->setShowGrid(false);
  tables_->addTab(table, title);
  // Columns show the names in full.
  connect(&model, &QAbstractItemModel::modelReset, table,
          [table] { table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::ResizeToContents); });
  if (&model == &dependencies_) {  // there operations are in the second column, and reasons in the last
    connect(&model, &QAbstractItemModel::modelReset, table, [table] {
      for (const int column : {1, 7}) {
        if (column >= table->horizontalHeader()->count()) break;
        table->horizontalHeader()->setSectionResizeMode(column, QHeaderView::ResizeToContents);
      }
    });
  }
  return table;
}

void TimelinePanel::make_viewing_row(QHBoxLayout* row) {
  auto* colour = new QComboBox(this);
  colour->addItem(tr("Colour by microbatch"));
  colour->addItem(tr("Colour by kind of work"));
  colour->setAccessibleName(tr("Colour of slices"));
  row->addWidget(colour);
  connect(colour, &QComboBox::activated, this,
          [this](int at) { view_->set_colour(at == 0 ? SliceColour::microbatch : SliceColour::kind); });
  const auto zoom = [this](double factor) {
    const TimeRange now = focus_.visible();
    focus_.set_visible(zoomed(now, now.start + now.length() / 2, factor, focus_.duration()));
  };
  connect(button(row, QStringLiteral("+"), tr("Zoom in (W)")), &QToolButton::clicked, this, [zoom] { zoom(0.5); });
  connect(button(row, QStringLiteral("\u2212"), tr("Zoom out (S)")), &QToolButton::clicked, this,
          [zoom] { zoom(2.0); });
  connect(button(row, tr("Whole step"), tr("Show the whole step (0)")), &QToolButton::clicked, this,
          [this] { focus_.show_all(); });
  connect(button(row, tr("Selection"), tr("Zoom to the selected range (F)")), &QToolButton::clicked, this, [this] {
    if (const auto selected = focus_.selected()) focus_.set_visible(*selected);
  });
  path_button_ = button(row, tr("Critical path"), tr("Show the operations that decide how long the step takes (C)"));
  path_button_->setObjectName(QStringLiteral("show-path"));
  path_button_->setCheckable(true);
  connect(path_button_, &QToolButton::toggled, this, [this](bool on) {
    show_path();
    if (on) tables_->setCurrentIndex(path_tab);
  });
  range_ = new RangeLabel(this);
  range_->setTextFormat(Qt::PlainText);
  range_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  range_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  row->addWidget(range_, 1);
}

void TimelinePanel::make_finding_row(QHBoxLayout* row) {
  search_ = new QLineEdit(this);
  search_->setObjectName(QStringLiteral("find"));
  search_->setClearButtonEnabled(true);
  search_->setPlaceholderText(tr("Find: gemm rank 8"));
  search_->setAccessibleName(tr("Find operations"));
  search_->setToolTip(
      tr("Words of an operation's name, and: rank 8, stage 1, microbatch 2 (mb 2), layer 7, op 118.\n"
         "Enter: the next; Shift and Enter: the one before."));
  row->addWidget(search_, 2);
  connect(search_, &QLineEdit::textChanged, this, [this](const QString& text) { look_for(text); });
  connect(search_, &QLineEdit::returnPressed, this,
          [this] { find_next(!(QGuiApplication::keyboardModifiers() & Qt::ShiftModifier)); });
  connect(button(row, QStringLiteral("\u2191"), tr("The match before")), &QToolButton::clicked, this,
          [this] { find_next(false); });
  connect(button(row, QStringLiteral("\u2193"), tr("The next match")), &QToolButton::clicked, this,
          [this] { find_next(true); });
  found_ = new QLabel(this);
  found_->setObjectName(QStringLiteral("found-count"));
  found_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  row->addWidget(found_, 1);
  connect(button(row, QStringLiteral("|\u25C0"), tr("To the event before (,)")), &QToolButton::clicked, this,
          [this] { step_by(false); });
  play_button_ = button(row, QStringLiteral("\u25B6"), tr("Play and pause (Space)"));
  play_button_->setObjectName(QStringLiteral("play"));
  play_button_->setCheckable(true);
  connect(play_button_, &QToolButton::toggled, this, [this](bool on) { play(on); });
  connect(button(row, QStringLiteral("\u25B6|"), tr("To the next event (.)")), &QToolButton::clicked, this,
          [this] { step_by(true); });
  speed_ = new QComboBox(this);
  speed_->setAccessibleName(tr("How long the whole step plays"));
  speed_->setToolTip(speed_->accessibleName());
  for (const int seconds : playing_times) {
    speed_->addItem(seconds < 60 ? tr("in %1 s").arg(seconds) : tr("in %1 min").arg(seconds / 60));
  }
  speed_->setCurrentIndex(1);
  row->addWidget(speed_);
  now_ = new QLabel(this);
  now_->setMinimumWidth(fontMetrics().horizontalAdvance(QStringLiteral("000.00 ms")));
  now_->setAlignment(Qt::AlignRight | Qt::AlignVCenter);
  row->addWidget(now_);
}

void TimelinePanel::set_step(SimulatedPointer step) {
  play(false);
  focus_.set_op(std::nullopt);
  step_ = std::move(step);
  analysis_.reset();
  set_greyed(*tables_, false);
  focus_.set_duration(step_->timeline.duration);
  view_->set_timeline(timeline_of(step_));
  tell_limit();
  look_for(search_->text());
  count();
  show_path();
  show_op();
}

void TimelinePanel::set_message(const QString& message) {
  play(false);
  focus_.set_op(std::nullopt);
  focus_.select(std::nullopt);
  focus_.set_cursor(std::nullopt);
  query_.reset();
  analysis_.reset();
  step_.reset();
  view_->set_timeline(nullptr);
  view_->set_message(message);
  statistics_.set({}, {});
  found_->clear();
  range_->clear();
  range_->setToolTip({});
  set_greyed(*tables_, false);
  show_path();
  show_op();
}

void TimelinePanel::set_outdated(bool on) {
  on = on && step_ != nullptr;
  view_->set_outdated(on);
  set_greyed(*tables_, on);
}

void TimelinePanel::tell_limit() {
  const std::uint64_t operations = traced_operations(*step_->prediction->program);
  const bool analysed = operations <= most_analysed_operations;
  const QString why = tr("The step has %1 operations on one rank of each stage; up to %2 are analysed")
                          .arg(QString::fromStdString(with_commas(operations)),
                               QString::fromStdString(with_commas(most_analysed_operations)));
  path_button_->setEnabled(analysed);
  path_button_->setToolTip(analysed ? path_button_->accessibleName() : why);
  tables_->setTabEnabled(path_tab, analysed);
  for (const int tab : {operation_tab, path_tab}) tables_->setTabToolTip(tab, analysed ? QString() : why);
}

void TimelinePanel::set_analysis(AnalysisPointer analysis) {
  if (analysis->step != step_) return;
  analysis_ = std::move(analysis);
  show_path();
  show_op();
}

void TimelinePanel::count() {
  if (!step_) return;
  const TimeRange range = focus_.selected().value_or(focus_.visible());
  TableContent content =
      statistics_table(orrery::gui::statistics(step_->timeline, range), range, step_->timeline.ranks.size());
  statistics_.set(std::move(content.headers), std::move(content.rows));
  const QString span = tr("%1 to %2 (%3)").arg(time_text(range.start), time_text(range.end), time_text(range.length()));
  const QString text = focus_.selected() ? tr("selected %1").arg(span) : span;
  static_cast<RangeLabel*>(range_)->tell(text, time_text(range.length()));
  range_->setToolTip(tr("%1; %2 slices on %3 ranks")
                         .arg(text)
                         .arg(QString::fromStdString(with_commas(step_->timeline.slices)))
                         .arg(step_->timeline.ranks.size()));
}

void TimelinePanel::show_op() {
  std::vector<Dependency> all;
  const auto op = focus_.op();
  if (op && analysis_) {
    all = analysis_->dependencies->waited_for(*op);
    const std::vector<Dependency> by = analysis_->dependencies->waited_by(*op);
    all.insert(all.end(), by.begin(), by.end());
  }
  static const Timeline nothing;
  TableContent content = dependency_table(step_ ? step_->timeline : nothing, op, all);
  dependencies_.set(std::move(content.headers), std::move(content.rows));
  view_->set_arrows(std::move(all));
  if (op) tables_->setCurrentIndex(operation_tab);
}

void TimelinePanel::show_path() {
  static const StepAnalysis nothing;
  TableContent content = path_table(analysis_ ? *analysis_ : nothing);
  path_.set(std::move(content.headers), std::move(content.rows));
  view_->set_path(analysis_ && path_button_->isChecked() ? analysis_->marks : std::vector<PathMark>());
}

void TimelinePanel::look_for(const QString& text) {
  query_.reset();
  found_->clear();
  if (!step_ || text.trimmed().isEmpty()) return;
  query_ = std::make_unique<SliceQuery>(step_->timeline, text.toStdString());
  const std::uint64_t matches = count_matches(step_->timeline, *query_);
  found_->setText(matches == 0 ? tr("nothing found")
                               : tr("%1 found").arg(QString::fromStdString(with_commas(matches))));
}

void TimelinePanel::find_next(bool forward) {
  if (!query_) return;
  const Timeline& timeline = step_->timeline;
  const auto op = focus_.op();
  const auto place = next_match(timeline, *query_, op ? place_of(timeline, *op) : std::nullopt, forward);
  if (!place) return;
  focus_.set_op(op_of(timeline, *place));
  view_->reveal(*place);
}

void TimelinePanel::step_by(bool forward) {
  if (!step_) return;
  play(false);
  const std::int64_t now = focus_.cursor().value_or(forward ? focus_.visible().start - 1 : focus_.visible().end);
  const auto to = forward ? next_event(step_->timeline, now) : previous_event(step_->timeline, now);
  if (to) focus_.set_cursor(*to);
}

void TimelinePanel::play(bool on) {
  on = on && step_ != nullptr;
  const QSignalBlocker quiet(play_button_);
  play_button_->setChecked(on);
  play_button_->setText(on ? QStringLiteral("\u275A\u275A") : QStringLiteral("\u25B6"));
  if (!on) return player_.stop();
  if (!focus_.cursor() || *focus_.cursor() >= focus_.duration()) focus_.set_cursor(0);
  player_.start();
}

void TimelinePanel::advance() {
  const int seconds = playing_times[static_cast<std::size_t>(std::max(0, speed_->currentIndex()))];
  const std::int64_t by = std::max<std::int64_t>(1, focus_.duration() / (std::int64_t{seconds} * 1000 / frame));
  focus_.set_cursor(focus_.cursor().value_or(0) + by);
  if (*focus_.cursor() >= focus_.duration()) play(false);
}

void TimelinePanel::follow_cursor() {
  const auto cursor = focus_.cursor();
  now_->setText(cursor ? time_text(*cursor) : QString());
  if (!cursor) return play(false);
  const TimeRange now = focus_.visible();
  if (*cursor < now.start || *cursor >= now.end) {
    focus_.set_visible({*cursor - now.length() / 10, *cursor - now.length() / 10 + now.length()});
  }
}

void TimelinePanel::keyPressEvent(QKeyEvent* event) {
  switch (event->key()) {
    case Qt::Key_Space: return play(!is_playing());
    case Qt::Key_Period: return step_by(true);
    case Qt::Key_Comma: return step_by(false);
    case Qt::Key_C: return path_button_->toggle();
    default: QWidget::keyPressEvent(event);
  }
}

}  // namespace orrery::gui
