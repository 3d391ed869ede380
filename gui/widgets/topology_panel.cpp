#include "gui/widgets/topology_panel.hpp"

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QListWidget>
#include <QSignalBlocker>
#include <QSlider>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/widgets/fabric_view.hpp"

namespace orrery::gui {
namespace {

/// The window around the cursor is one of this many parts of the step.
constexpr std::int64_t windows = 100;
constexpr int instants = 400;

QString name_of_axis(Axis axis) { return QString::fromStdString(std::string(name_of(axis))); }

}  // namespace

TopologyPanel::TopologyPanel(Library library, Focus& focus, QWidget* parent)
    : QWidget(parent), library_(library), focus_(focus), service_(std::move(library)) {
  setObjectName(QStringLiteral("topology"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  const auto labelled = [&](QHBoxLayout* row, const QString& text, QWidget* field) {
    auto* label = new QLabel(text, this);
    label->setBuddy(field);
    row->addWidget(label);
    row->addWidget(field);
  };
  const auto box = [&](const char* name, const QString& what) {
    auto* out = new QComboBox(this);
    out->setObjectName(QLatin1String(name));
    out->setAccessibleName(what);
    out->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    return out;
  };
  auto* first = new QHBoxLayout;
  first->setContentsMargins(6, 0, 6, 0);
  fabric_ = box("topology-fabric", tr("Fabric"));
  labelled(first, tr("Fa&bric"), fabric_);
  axis_ = box("topology-axis", tr("Axis that colours devices"));
  labelled(first, tr("Colo&ur by"), axis_);
  first->addStretch();
  column->addLayout(first);
  auto* second = new QHBoxLayout;
  second->setContentsMargins(6, 0, 6, 0);
  order_ = new QListWidget(this);
  order_->setObjectName(QStringLiteral("topology-order"));
  order_->setAccessibleName(tr("Order of axes, outermost first; drag to change it"));
  order_->setToolTip(tr(
      "Neighbours along the innermost axis sit on neighbouring devices. Drag an axis, or press Alt and an arrow key."));
  order_->setFlow(QListView::LeftToRight);
  order_->setDragDropMode(QAbstractItemView::InternalMove);
  order_->setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  order_->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  order_->setSpacing(2);
  order_->setFixedHeight(fontMetrics().lineSpacing() + 16);
  labelled(second, tr("Or&der"), order_);
  load_ = box("topology-load", tr("When links are loaded"));
  load_->addItems({tr("over the whole step"), tr("in the selected range"), tr("at the cursor")});  // as LoadOf
  labelled(second, tr("&Load"), load_);
  time_ = new QSlider(Qt::Horizontal, this);
  time_->setObjectName(QStringLiteral("topology-time"));
  time_->setAccessibleName(tr("Instant of the step; moves the cursor of the timeline and shows loads around it"));
  time_->setToolTip(time_->accessibleName());
  time_->setRange(0, instants);
  second->addWidget(time_, 1);
  second->setStretchFactor(order_, 2);
  column->addLayout(second);

  auto* split = new QSplitter(Qt::Vertical, this);
  view_ = new FabricView(split);
  list_ = new QTableView(split);
  list_->setModel(&table_);
  list_->setObjectName(QStringLiteral("hot-links"));
  list_->setAccessibleName(tr("The hottest links"));
  list_->verticalHeader()->hide();
  list_->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  list_->setSelectionBehavior(QAbstractItemView::SelectRows);
  list_->setAlternatingRowColors(true);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setShowGrid(false);
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 1);
  split->setSizes({420, 130});
  column->addWidget(split, 1);

  connect(&service_, &FabricService::shown, this, [this](const FabricShownPointer& shown) { take(shown); });
  connect(&service_, &FabricService::failed, this, [this](const QString& why) {
    asked_ = false;
    view_->set_message(why);
    table_.set({}, {});
  });
  connect(fabric_, &QComboBox::activated, this, [this] { ask(); });
  connect(load_, &QComboBox::activated, this, [this] { ask(); });
  connect(axis_, &QComboBox::activated, this,
          [this] { view_->set_axis(static_cast<Axis>(axis_->currentData().toInt())); });
  connect(time_, &QSlider::valueChanged, this, [this](int at) {
    load_->setCurrentIndex(static_cast<int>(LoadOf::cursor));
    focus_.set_cursor(static_cast<std::int64_t>(static_cast<double>(focus_.duration()) * at / instants));
  });
  connect(&focus_, &Focus::selection_changed, this, [this] {
    if (load_of() == LoadOf::range) ask();
  });
  connect(&focus_, &Focus::cursor_changed, this, [this] {
    if (const auto at = focus_.cursor(); at && focus_.duration() > 0) {
      const QSignalBlocker quiet(time_);
      time_->setValue(qRound(static_cast<double>(*at) * instants / static_cast<double>(focus_.duration())));
    }
    if (load_of() == LoadOf::cursor) ask();
  });
  connect(order_->model(), &QAbstractItemModel::rowsMoved, this, [this] {
    std::vector<Axis> order;
    for (int i = 0; i < order_->count(); ++i) {
      order.push_back(static_cast<Axis>(order_->item(i)->data(Qt::UserRole).toInt()));
    }
    Q_EMIT order_wished(order);
  });
  for (const int by : {-1, 1}) {
    auto* shift = new QAction(by < 0 ? tr("Move the axis outwards") : tr("Move the axis inwards"), order_);
    shift->setShortcut(QKeySequence(Qt::ALT | (by < 0 ? Qt::Key_Left : Qt::Key_Right)));
    shift->setShortcutContext(Qt::WidgetShortcut);
    order_->addAction(shift);
    connect(shift, &QAction::triggered, this, [this, by] {
      const int from = order_->currentRow(), to = from + by;
      if (from < 0 || to < 0 || to >= order_->count()) return;
      // Item models count the place behind the row that it moves to.
      order_->model()->moveRow({}, from, {}, by > 0 ? to + 1 : to);
    });
  }
  connect(view_, &FabricView::swap_wished, this, &TopologyPanel::swap_wished);
  connect(view_, &FabricView::device_chosen, this, [this](std::uint32_t device) {
    if (!prediction_) return;
    const Plan& plan = prediction_->run.plan;
    const auto at = std::find(plan.placement.begin(), plan.placement.end(), device);
    const auto rank = plan.placement.empty() ? device : static_cast<std::uint32_t>(at - plan.placement.begin());
    if (rank < plan.mesh.size()) focus_.set_stage(plan.mesh.coordinate(Rank{rank}, Axis::pipeline));
  });
}

void TopologyPanel::set_prediction(PredictionPointer prediction) {
  const bool other = !prediction_ || *prediction_->run.cluster != *prediction->run.cluster;
  prediction_ = std::move(prediction);
  if (other) {
    const QString now = fabric_->currentData().toString();
    const QSignalBlocker quiet(fabric_);
    fabric_->clear();
    fabric_->addItem(tr("the cluster's levels"), QString());
    for (const std::string& name : fabrics_for(library_, *prediction_->run.cluster)) {
      fabric_->addItem(QString::fromStdString(name), QString::fromStdString(name));
    }
    fabric_->setCurrentIndex(std::max(0, fabric_->findData(now)));
  }
  show_axes();
  if (!range()) ask();
}

void TopologyPanel::set_step(SimulatedPointer step) {
  step_ = std::move(step);
  if (load_of() != LoadOf::step) ask();
}

void TopologyPanel::show_axes() {
  const QSignalBlocker quiet_axis(axis_);
  const QVariant now = axis_->currentData();
  order_->clear();
  axis_->clear();
  for (const MeshAxis& a : prediction_->run.plan.mesh.axes) {
    if (a.size == 1) continue;
    auto* item = new QListWidgetItem(QStringLiteral("%1 %2").arg(name_of_axis(a.axis)).arg(a.size), order_);
    item->setData(Qt::UserRole, static_cast<int>(a.axis));
    item->setFlags(item->flags() & ~Qt::ItemIsDropEnabled);
    axis_->addItem(name_of_axis(a.axis), static_cast<int>(a.axis));
  }
  order_->viewport()->update();
  axis_->setCurrentIndex(std::max(0, axis_->findData(now)));
  view_->set_axis(axis_->count() > 0 ? static_cast<Axis>(axis_->currentData().toInt()) : Axis::data);
}

TopologyPanel::LoadOf TopologyPanel::load_of() const { return static_cast<LoadOf>(load_->currentIndex()); }

std::optional<TimeRange> TopologyPanel::range() const {
  switch (load_of()) {
    case LoadOf::step: return std::nullopt;
    case LoadOf::range: return focus_.selected();
    case LoadOf::cursor: break;
  }
  const auto at = focus_.cursor();
  const std::int64_t step = focus_.duration(), wide = std::max<std::int64_t>(step / windows, 1);
  if (!at || step <= wide) return std::nullopt;
  const std::int64_t start = std::clamp<std::int64_t>(*at - wide / 2, 0, step - wide);
  return TimeRange{start, start + wide};
}

void TopologyPanel::ask() {
  if (!prediction_) return;
  outdated_ = !isVisible();
  asked_ = !outdated_;
  if (outdated_) return;
  FabricRequest request{prediction_, step_, {}, fabric_->currentData().toString().toStdString()};
  // A step of another prediction waits for its own.
  if (step_ && step_->prediction == prediction_) request.within = range();
  service_.request(std::move(request));
}

void TopologyPanel::take(const FabricShownPointer& shown) {
  if (shown->prediction != prediction_) return;
  asked_ = false;
  view_->set_fabric(shown);
  TableContent content = hot_links_table(shown->picture);
  table_.set(std::move(content.headers), std::move(content.rows));
  list_->resizeColumnsToContents();
}

void TopologyPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (outdated_) ask();
}

}  // namespace orrery::gui
