#include "gui/widgets/plan_graph_panel.hpp"

#include <fmt/format.h>

#include <QHeaderView>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>
#include <QWheelEvent>
#include <algorithm>
#include <charconv>
#include <cmath>

#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

/// At most this many pixels to an inch: small graphs stay small.
constexpr double most_scale = 110.0;
constexpr double font_inches = 11.0 / 72.0;  ///< of the nodes' font, as plan_graph asks for it

/// "s3" is node 3; nothing for a group of it.
std::optional<std::size_t> stage_node(const std::string& name) {
  if (!name.starts_with('s') || name.find('g') != std::string::npos) return std::nullopt;
  std::size_t out = 0;
  const auto [end, failure] = std::from_chars(name.data() + 1, name.data() + name.size(), out);
  return failure == std::errc{} ? std::optional(out) : std::nullopt;
}

void draw_arrow(QPainter& painter, const QPointF& from, const QPointF& to, double size) {
  const double angle = std::atan2(to.y() - from.y(), to.x() - from.x());
  const auto side = [&](double turn) { return to - size * QPointF(std::cos(angle + turn), std::sin(angle + turn)); };
  painter.drawPolygon(QPolygonF({to, side(0.4), side(-0.4)}));
}

}  // namespace

GraphView::GraphView(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("plan-graph"));
  setAccessibleName(tr("Stages and groups of the plan, and what they send; the table below has the same"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
  setFocusPolicy(Qt::StrongFocus);
  setToolTip(tr("Wheel: zoom. Drag: move. Double click: the whole graph. Click on a stage: select it everywhere."));
}

void GraphView::set_layout(GraphLayout graph) {
  graph_ = std::move(graph);
  message_.clear();
  show_all();
}

void GraphView::show_all() {
  zoom_ = 1.0;
  moved_ = {};
  update();
}

void GraphView::set_message(const QString& message) {
  message_ = message;
  graph_ = {};
  update();
}

void GraphView::mark(const std::string& node) {
  marked_ = node;
  update();
}

QTransform GraphView::transform() const {
  const double fit = std::min(
      {(width() - 24) / std::max(graph_.width, 0.1), (height() - 24) / std::max(graph_.height, 0.1), most_scale});
  const double scale = fit * zoom_;
  QTransform out;
  out.translate((width() - scale * graph_.width) / 2 + moved_.x(), (height() - scale * graph_.height) / 2 + moved_.y());
  out.scale(scale, scale);
  return out;
}

void GraphView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  painter.setPen(palette().color(QPalette::Text));
  if (!message_.isEmpty()) {
    painter.drawText(rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, message_);
    return;
  }
  painter.setRenderHint(QPainter::Antialiasing);
  const QTransform to_widget = transform();
  const double scale = to_widget.m11();
  QFont small = font();
  small.setPixelSize(std::max(1, static_cast<int>(font_inches * scale)));
  painter.setFont(small);
  const bool readable = font_inches * scale >= 5.0;
  for (const GraphLayout::Edge& e : graph_.edges) {
    std::vector<QPointF> points;
    for (const auto& [x, y] : e.curve) points.push_back(to_widget.map(QPointF(x, y)));
    if (points.size() < 2) continue;
    QPainterPath path(points.front());
    for (std::size_t i = 1; i + 2 < points.size(); i += 3) path.cubicTo(points[i], points[i + 1], points[i + 2]);
    const bool messages = !e.label.empty();
    painter.setPen(QPen(messages ? palette().color(QPalette::Highlight) : faint(palette()), messages ? 1.6 : 1.0));
    painter.setBrush(Qt::NoBrush);
    painter.drawPath(path);
    if (messages) {
      painter.setBrush(palette().color(QPalette::Highlight));
      draw_arrow(painter, points[points.size() - 2], points.back(), std::clamp(0.1 * scale, 4.0, 10.0));
    }
    if (messages && readable) {
      const QPointF at = to_widget.map(QPointF(e.label_x, e.label_y));
      const QString text = QString::fromStdString(e.label);
      QRectF room = QFontMetricsF(small).boundingRect(text).adjusted(-2, -1, 2, 1);
      room.moveCenter(at);
      painter.fillRect(room, palette().color(QPalette::Base));
      painter.setPen(palette().color(QPalette::Text));
      painter.drawText(room, Qt::AlignCenter, text);
    }
  }
  for (const GraphLayout::Node& n : graph_.nodes) {
    QRectF box(0, 0, n.width * scale, n.height * scale);
    box.moveCenter(to_widget.map(QPointF(n.x, n.y)));
    const bool stage = n.name.find('g') == std::string::npos;
    painter.setPen(n.name == marked_ ? QPen(bad_colour(is_dark(palette())), 2.5)
                                     : QPen(palette().color(QPalette::WindowText), stage ? 1.4 : 0.8));
    painter.setBrush(stage ? palette().color(QPalette::Button) : palette().color(QPalette::AlternateBase));
    painter.drawRoundedRect(box, 3, 3);
    if (!readable) continue;
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(box, Qt::AlignCenter, QString::fromStdString(n.label));
  }
  if (hasFocus()) {  // whose keys are taken
    painter.setPen(QPen(palette().color(QPalette::Highlight), 1));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

void GraphView::mousePressEvent(QMouseEvent* event) {
  pressed_ = event->position();
  bool invertible = false;
  const QPointF at = transform().inverted(&invertible).map(event->position());
  for (const GraphLayout::Node& n : graph_.nodes) {
    if (invertible && std::abs(at.x() - n.x) <= n.width / 2 && std::abs(at.y() - n.y) <= n.height / 2) {
      Q_EMIT node_chosen(QString::fromStdString(n.name));
    }
  }
}

void GraphView::mouseMoveEvent(QMouseEvent* event) {
  moved_ += event->position() - pressed_;
  pressed_ = event->position();
  update();
}

void GraphView::mouseDoubleClickEvent(QMouseEvent*) { show_all(); }

void GraphView::zoom(double factor, const QPointF& fixed) {
  const double before = zoom_;
  zoom_ = std::clamp(zoom_ * factor, 0.2, 30.0);
  const QPointF middle(width() / 2.0, height() / 2.0);
  moved_ = (fixed - middle) - (zoom_ / before) * (fixed - middle - moved_);
  update();
}

void GraphView::wheelEvent(QWheelEvent* event) {
  zoom(std::pow(1.0015, event->angleDelta().y()), event->position());
  event->accept();
}

void GraphView::choose_next(int by) {
  std::vector<std::size_t> stages;
  for (const GraphLayout::Node& n : graph_.nodes) {
    if (const auto stage = stage_node(n.name)) stages.push_back(*stage);
  }
  if (stages.empty()) return;
  std::sort(stages.begin(), stages.end());
  const auto marked = stage_node(marked_);
  const auto at = marked ? std::find(stages.begin(), stages.end(), *marked) : stages.end();
  auto place = at == stages.end() ? std::ptrdiff_t{0} : at - stages.begin() + by;
  place = std::clamp<std::ptrdiff_t>(place, 0, std::ssize(stages) - 1);
  Q_EMIT node_chosen(QString::fromStdString(fmt::format("s{}", stages[static_cast<std::size_t>(place)])));
}

void GraphView::keyPressEvent(QKeyEvent* event) {
  constexpr double stride = 40.0;  // pixels
  const QPointF middle(width() / 2.0, height() / 2.0);
  const bool moves = event->modifiers() & Qt::ShiftModifier;
  switch (event->key()) {
    case Qt::Key_Plus:
    case Qt::Key_Equal: return zoom(1.25, middle);
    case Qt::Key_Minus: return zoom(0.8, middle);
    case Qt::Key_0: return show_all();
    case Qt::Key_Left:
      if (!moves) return choose_next(-1);
      moved_ += QPointF(stride, 0);
      return update();
    case Qt::Key_Right:
      if (!moves) return choose_next(1);
      moved_ -= QPointF(stride, 0);
      return update();
    case Qt::Key_Up:
    case Qt::Key_Down:
      if (!moves) break;
      moved_ += QPointF(0, event->key() == Qt::Key_Up ? stride : -stride);
      return update();
    default: break;
  }
  QWidget::keyPressEvent(event);
}

void GraphView::focusInEvent(QFocusEvent* event) {
  update();
  QWidget::focusInEvent(event);
}

void GraphView::focusOutEvent(QFocusEvent* event) {
  update();
  QWidget::focusOutEvent(event);
}

PlanGraphPanel::PlanGraphPanel(Focus& focus, QWidget* parent) : QWidget(parent), focus_(focus) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  auto* split = new QSplitter(Qt::Vertical, this);
  view_ = new GraphView(split);
  list_ = new QTableView(split);
  list_->setModel(&table_);
  list_->setObjectName(QStringLiteral("plan-graph-table"));
  list_->setAccessibleName(tr("What the groups of each stage send"));
  list_->verticalHeader()->hide();
  list_->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  list_->setSelectionBehavior(QAbstractItemView::SelectRows);
  list_->setAlternatingRowColors(true);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setShowGrid(false);
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 1);
  split->setSizes({440, 150});
  column->addWidget(split);
  connect(&service_, &GraphService::laid_out, this, [this](const GraphLayout& layout) {
    asked_ = false;
    view_->set_layout(layout);
  });
  connect(&service_, &GraphService::failed, this, [this](const QString& why) {
    asked_ = false;
    view_->set_message(why);
  });
  connect(view_, &GraphView::node_chosen, this, [this](const QString& name) {
    const auto node = stage_node(name.toStdString());
    if (node && *node < graph_.stages.size()) focus_.set_stage(graph_.stages[*node].first);
  });
  connect(&focus_, &Focus::stage_changed, this, [this] { follow_stage(); });
}

void PlanGraphPanel::set_prediction(PredictionPointer prediction) {
  prediction_ = std::move(prediction);
  ask();
}

void PlanGraphPanel::ask() {
  outdated_ = !isVisible();
  if (outdated_ || !prediction_) return;
  graph_ = make_plan_graph(*prediction_);
  TableContent content = plan_graph_table(graph_);
  table_.set(std::move(content.headers), std::move(content.rows));
  list_->resizeColumnsToContents();
  follow_stage();
  asked_ = true;
  service_.request(dot_of(graph_));
}

void PlanGraphPanel::follow_stage() {
  std::string name;
  for (std::size_t n = 0; focus_.stage() && n < graph_.stages.size(); ++n) {
    if (graph_.stages[n].first <= *focus_.stage() && *focus_.stage() <= graph_.stages[n].last)
      name = fmt::format("s{}", n);
  }
  view_->mark(name);
}

void PlanGraphPanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (outdated_) ask();
}

}  // namespace orrery::gui
