#include "gui/widgets/search_panel.hpp"

#include <fmt/format.h>

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "core/base/pareto_front.hpp"
#include "core/base/units_text.hpp"
#include "framework/framework.hpp"
#include "gui/model/basis.hpp"
#include "gui/model/tables.hpp"
#include "gui/widgets/chart.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

constexpr int refresh_milliseconds = 100;
/// The entries of the spaces; frameworks follow.
enum SpaceEntry { usual, every, within_limits };
/// The choices of a figure for the chart's horizontal axis.
enum class Across { step_time, cost };

QString q(const std::string& text) { return QString::fromStdString(text); }

double memory_of(const FoundPlan& p) { return Bytes::of(static_cast<double>(p.report.peak_memory_bytes)).in(gibibyte); }

}  // namespace

SearchPanel::SearchPanel(SearchService& service, Focus& focus, QWidget* parent)
    : QWidget(parent), service_(service), focus_(focus) {
  setObjectName(QStringLiteral("search"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  auto* controls = new QHBoxLayout;
  const auto add = [&](const QString& name, QWidget* field) {
    auto* label = new QLabel(name, this);
    label->setBuddy(field);
    controls->addWidget(label);
    controls->addWidget(field);
  };
  objective_ = new QComboBox(this);
  objective_->addItem(tr("least step time"));
  objective_->addItem(tr("least memory"));
  objective_->addItem(tr("least cost"));
  add(tr("&Find"), objective_);
  space_ = new QComboBox(this);
  space_->addItem(tr("usual launches"));
  space_->addItem(tr("every dimension"));
  space_->setItemData(every, QStringLiteral("any"));
  space_->addItem(tr("within limits"));
  for (const Framework& f : frameworks()) {
    const auto title = QString::fromUtf8(f.title.data(), static_cast<qsizetype>(f.title.size()));
    if (!f.abilities.empty()) space_->addItem(tr("%1's launches").arg(title), q(std::string(f.name)));
  }
  space_->setObjectName(QStringLiteral("search-space"));
  // A long title in the list does not widen the panel.
  space_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  space_->setMinimumContentsLength(12);
  add(tr("o&ver"), space_);
  limits_ = new QLineEdit(this);
  limits_->setObjectName(QStringLiteral("search-limits"));
  limits_->setAccessibleName(tr("Limits of the search"));
  limits_->setPlaceholderText(tr("tensor=1d zero=0,1 schedule=1f1b,zb-v"));
  limits_->setToolTip(
      tr("Keys and values as in plan files, separated by spaces, with several values for a key: tensor=4,8 zero=0,3 "
         "schedule=1f1b,zb-v chunks=2 context=off. What is not named stays free. As --only of the command line"));
  limits_->setClearButtonEnabled(true);
  limits_->setVisible(false);
  controls->addWidget(limits_, 1);
  top_ = new QSpinBox(this);
  top_->setObjectName(QStringLiteral("search-top"));
  top_->setRange(1, 1000);
  top_->setValue(20);
  add(tr("&plans"), top_);
  start_ = new QPushButton(tr("&Search"), this);
  start_->setDefault(true);
  start_->setObjectName(QStringLiteral("search-start"));
  cancel_ = new QPushButton(tr("Cancel"), this);
  cancel_->setObjectName(QStringLiteral("search-cancel"));
  cancel_->setEnabled(false);
  controls->addWidget(start_);
  controls->addWidget(cancel_);
  controls->addStretch();
  column->addLayout(controls);
  auto* progress = new QHBoxLayout;
  bar_ = new QProgressBar(this);
  bar_->setFixedWidth(110);
  bar_->setRange(0, 1000);
  bar_->setTextVisible(false);
  bar_->setAccessibleName(tr("How far the search is"));
  bar_->hide();  // of a search that runs
  progress->addWidget(bar_);
  status_ = new QLabel(tr("Searches for the best plans of this model, workload and cluster."), this);
  status_->setObjectName(QStringLiteral("search-status"));
  status_->setTextFormat(Qt::PlainText);
  status_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  filter_ = new QLineEdit(this);
  filter_->setPlaceholderText(tr("Filter, as \u201Cinterleaved\u201D"));
  filter_->setClearButtonEnabled(true);
  filter_->setFixedWidth(160);
  filter_->setAccessibleName(tr("Filter of the plans"));
  progress->addWidget(filter_);
  use_ = new QPushButton(tr("&Use plan"), this);
  use_->setObjectName(QStringLiteral("search-use"));
  use_->setEnabled(false);
  use_->setToolTip(tr("Make the selected plan the one that is edited; it can be undone"));
  progress->addStretch();
  across_ = new QComboBox(this);
  across_->setObjectName(QStringLiteral("search-across"));
  across_->setAccessibleName(tr("Figure across the chart"));
  across_->addItems({tr("step time"), tr("cost per million tokens")});  // as Across
  auto* across = new QLabel(tr("&Across"), this);
  across->setBuddy(across_);
  progress->addWidget(across);
  progress->addWidget(across_);
  progress->addWidget(use_);
  column->addLayout(progress);
  column->addWidget(status_);
  outdated_ = new QLabel(this);
  outdated_->setObjectName(QStringLiteral("search-outdated"));
  outdated_->setTextFormat(Qt::PlainText);
  outdated_->setWordWrap(true);
  outdated_->hide();
  column->addWidget(outdated_);

  auto* split = new QSplitter(Qt::Vertical, this);
  chart_ = new QCustomPlot(split);
  chart_->setObjectName(QStringLiteral("pareto"));
  chart_->setAccessibleName(tr("Step time and peak memory of the plans; the table below has the figures"));
  sorted_.setSourceModel(&table_);
  sorted_.setSortRole(order_role);
  sorted_.setFilterKeyColumn(-1);
  sorted_.setFilterCaseSensitivity(Qt::CaseInsensitive);
  view_ = new QTableView(split);
  view_->setObjectName(QStringLiteral("plans"));
  view_->setAccessibleName(tr("Plans found"));
  view_->setModel(&sorted_);
  view_->setSortingEnabled(true);
  view_->sortByColumn(0, Qt::AscendingOrder);
  view_->verticalHeader()->hide();
  view_->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 6);
  view_->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
  view_->horizontalHeader()->setResizeContentsPrecision(0);  // of the rows that are seen
  view_->horizontalHeader()->setHighlightSections(false);
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSelectionMode(QAbstractItemView::SingleSelection);
  view_->setAlternatingRowColors(true);
  view_->setShowGrid(false);
  split->setSizes({240, 260});
  column->addWidget(split, 1);

  others_ = chart_->addGraph();
  front_ = chart_->addGraph();
  selected_ = chart_->addGraph();
  for (QCPGraph* graph : {others_, selected_}) graph->setLineStyle(QCPGraph::lsNone);
  front_->setLineStyle(QCPGraph::lsStepLeft);
  others_->setName(tr("found"));
  front_->setName(tr("none better in both"));
  selected_->removeFromLegend();
  lift_legend(*chart_, 3);
  chart_->yAxis->setLabel(tr("peak memory, GiB"));
  chart_->xAxis->setSubTicks(false);
  chart_->yAxis->setSubTicks(false);
  dress_chart();

  connect(start_, &QPushButton::clicked, this, &SearchPanel::start_wished);
  connect(space_, &QComboBox::currentIndexChanged, this, [this](int at) {
    limits_->setVisible(at == within_limits);
    if (at == within_limits) limits_->setFocus();
  });
  connect(limits_, &QLineEdit::returnPressed, start_, &QPushButton::click);
  connect(across_, &QComboBox::currentIndexChanged, this, [this] { show_plans(); });
  connect(cancel_, &QPushButton::clicked, this, [this] {
    service_.cancel();
    status_->setText(tr("Stopping; what is known stays."));
  });
  connect(use_, &QPushButton::clicked, this, [this] { wish_for_selected(); });
  connect(view_, &QTableView::doubleClicked, this, [this] { wish_for_selected(); });
  connect(filter_, &QLineEdit::textChanged, &sorted_, &QSortFilterProxyModel::setFilterFixedString);
  connect(view_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& at) {
    if (!at.isValid()) return;
    focus_.set_found(table_.rows()[static_cast<std::size_t>(sorted_.mapToSource(at).row())].id);
  });
  connect(chart_, &QCustomPlot::mousePress, this, [this](QMouseEvent* event) {
    const FoundPlan* best = nullptr;
    double least = 14.0 * 14.0;  // no further from the pointer than this
    for (const FoundPlan& p : plans_) {
      const auto [x, y] = point_of(p);
      const double dx = chart_->xAxis->coordToPixel(x) - event->pos().x();
      const double dy = chart_->yAxis->coordToPixel(y) - event->pos().y();
      if (dx * dx + dy * dy < least) least = dx * dx + dy * dy, best = &p;
    }
    if (best != nullptr) focus_.set_found(best->id);
  });
  connect(&focus_, &Focus::found_changed, this, [this] { follow_selection(); });
  // Plans may come in by hundreds a second. A table and a chart for each would take the search's own time.
  shown_soon_.setSingleShot(true);
  shown_soon_.setInterval(refresh_milliseconds);
  connect(&shown_soon_, &QTimer::timeout, this, [this] { show_plans(); });
  connect(&service_, &SearchService::progressed, this, [this](const SearchProgress& p) { show_progress(p); });
  connect(&service_, &SearchService::found, this, [this](const FoundPlan& p) { take(p); });
  connect(&service_, &SearchService::finished, this, [this](const std::shared_ptr<const SearchEnd>& e) { finish(e); });
}

std::pair<double, double> SearchPanel::point_of(const FoundPlan& p) const {
  const Report& r = p.report;
  if (static_cast<Across>(across_->currentIndex()) == Across::step_time) return {r.step_time.base(), memory_of(p)};
  // The cost comes from the cluster's price, since a report has no cost before the search has ended.
  const double per_second = static_cast<double>(r.gpus) * on_.run.cluster->price_per_gpu_hour.value_or(0.0) / 3600.0;
  return {per_second / r.tokens_per_s * 1e6, memory_of(p)};
}

SearchWish SearchPanel::wish() const {
  SearchWish out;
  out.objective = static_cast<Objective>(objective_->currentIndex());
  out.space.framework = space_->currentData().toString().toStdString();
  if (space_->currentIndex() == within_limits) out.space.only = limits_->text().trimmed().toStdString();
  out.top = static_cast<std::uint32_t>(top_->value());
  return out;
}

void SearchPanel::begin(const PricedRun& on) {
  on_ = on;
  // Without a price there is only one figure to choose.
  const bool priced = on.run.cluster->price_per_gpu_hour.has_value();
  if (!priced) across_->setCurrentIndex(static_cast<int>(Across::step_time));
  across_->setEnabled(priced);
  across_->setToolTip(priced ? QString() : tr("%1 has no price").arg(q(on.run.cluster->name)));
  plans_.clear();
  focus_.set_found(std::nullopt);
  show_plans();
  bar_->setValue(0);
  bar_->show();
  start_->setEnabled(false);
  cancel_->setEnabled(true);
  status_->setText(tr("Searching."));
  mark_outdated();
}

void SearchPanel::refuse(const QString& why) { status_->setText(why); }

void SearchPanel::follow(const std::shared_ptr<const PricedRun>& now) {
  now_ = now;
  mark_outdated();
}

void SearchPanel::mark_outdated() {
  QString why;
  if (now_ && on_.prices) {  // something was searched
    const std::vector<BasisDifference> basis = basis_differences(on_, *now_);
    if (!basis.empty()) {
      why = tr("These plans are for the previous settings: now %1. Search finds the plans for them.")
                .arg(q(text_of(basis)));
    }
  }
  outdated_->setText(why);
  outdated_->setVisible(!why.isEmpty());
  for (QWidget* part : {static_cast<QWidget*>(view_), static_cast<QWidget*>(status_)})
    set_greyed(*part, !why.isEmpty());
  dress_chart();
  follow_selection();
}

void SearchPanel::show_progress(const SearchProgress& p) {
  if (!service_.is_running()) return;
  bar_->setValue(p.total == 0 ? 0
                              : static_cast<int>(1000.0 * static_cast<double>(p.done) / static_cast<double>(p.total)));
  std::string text = fmt::format("{}: {} of {} plans settled", p.phase, with_commas(p.done), with_commas(p.total));
  if (p.best) text += fmt::format("; best so far {}", short_text(*p.best, 4));
  status_->setText(q(text));
}

void SearchPanel::take(const FoundPlan& found) {
  const auto slower = [](const FoundPlan& a, const FoundPlan& b) { return a.report.step_time < b.report.step_time; };
  plans_.insert(std::upper_bound(plans_.begin(), plans_.end(), found, slower), found);
  if (!shown_soon_.isActive()) shown_soon_.start();
}

void SearchPanel::finish(const std::shared_ptr<const SearchEnd>& end) {
  start_->setEnabled(true);
  cancel_->setEnabled(false);
  bar_->hide();
  if (!end->failure.empty()) {
    status_->setText(q(end->failure));
    return;
  }
  shown_soon_.stop();
  const SearchResult& r = end->result;
  plans_ = r.plans;
  show_plans();
  std::string text;
  if (!r.complete) {
    text = fmt::format("Stopped after {} plans were estimated; the best of those are shown.", with_commas(r.estimated));
  } else if (r.plans.empty()) {
    text = fmt::format("No plan fits in memory; {} were estimated.", with_commas(r.estimated));
  } else {
    text = fmt::format("{} plans estimated in {}; none of {} changes of the best is better.", with_commas(r.estimated),
                       short_text(Seconds::of(r.wall_s), 2), with_commas(r.changes));
  }
  status_->setText(q(text));
  status_->setToolTip(q(r.claim));
  if (!plans_.empty() && !focus_.found()) focus_.set_found(plans_.front().id);
  follow_selection();
}

void SearchPanel::show_plans() {
  TableContent content = found_table(plans_);
  table_.set(std::move(content.headers), std::move(content.rows));
  std::vector<std::pair<double, double>> points;
  std::vector<std::vector<double>> figures;
  for (const FoundPlan& p : plans_) {
    points.push_back(point_of(p));
    figures.push_back({points.back().first, points.back().second});
  }
  const std::vector<std::size_t> best = pareto_front(figures);
  QVector<double> x, y, front_x, front_y;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool on_front = std::binary_search(best.begin(), best.end(), i);
    (on_front ? front_x : x).push_back(points[i].first);
    (on_front ? front_y : y).push_back(points[i].second);
  }
  others_->setData(x, y);
  front_->setData(front_x, front_y);
  chart_->xAxis->setLabel(static_cast<Across>(across_->currentIndex()) == Across::cost
                              ? tr("cost of a million tokens, in the currency of the cluster's price")
                              : tr("step time, s"));
  if (!points.empty()) {
    const auto [left, right] = std::minmax_element(points.begin(), points.end());
    const auto by_memory = [](const auto& a, const auto& b) { return a.second < b.second; };
    const auto [low, high] = std::minmax_element(points.begin(), points.end(), by_memory);
    const auto padded = [](double from, double to) {
      const double pad = std::max(0.08 * (to - from), 0.01 * std::abs(to));
      return QCPRange(from - pad, to + pad);
    };
    chart_->xAxis->setRange(padded(left->first, right->first));
    chart_->yAxis->setRange(padded(low->second, high->second));
  }
  follow_selection();
}

void SearchPanel::follow_selection() {
  QVector<double> x, y;
  const auto found = focus_.found();
  const auto row = found ? table_.row_of(*found) : std::nullopt;
  if (row) {
    const auto [time, memory] = point_of(plans_[static_cast<std::size_t>(*row)]);
    x.push_back(time);
    y.push_back(memory);
    const QModelIndex at = sorted_.mapFromSource(table_.index(*row, 0));
    if (at.isValid() && at.row() != view_->currentIndex().row()) view_->setCurrentIndex(at);
  }
  use_->setEnabled(row.has_value() && !is_outdated());
  selected_->setData(x, y);
  chart_->replot(QCustomPlot::rpQueuedReplot);
}

void SearchPanel::wish_for_selected() {
  const auto found = focus_.found();
  const auto row = found ? table_.row_of(*found) : std::nullopt;
  if (row && !is_outdated()) Q_EMIT plan_wished(plans_[static_cast<std::size_t>(*row)], on_);
}

void SearchPanel::dress_chart() {
  dress(*chart_, palette());
  const bool dark = is_dark(palette());
  const QColor good = is_outdated() ? faint(palette()) : good_colour(dark);
  others_->setPen(QPen(faint(palette())));
  others_->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, faint(palette()), Qt::transparent, 6));
  front_->setPen(QPen(good, 1.2));
  front_->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, good, good, 7));
  selected_->setPen(QPen(palette().color(QPalette::Highlight), 2));
  selected_->setScatterStyle(
      QCPScatterStyle(QCPScatterStyle::ssSquare, QPen(palette().color(QPalette::Highlight), 2), Qt::NoBrush, 13));
  chart_->replot(QCustomPlot::rpQueuedReplot);
}

void SearchPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) dress_chart();
}

}  // namespace orrery::gui
