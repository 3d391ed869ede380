#include "gui/widgets/graph_view.hpp"

#include <fmt/format.h>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

/// At most this many pixels to an inch: small graphs stay small.
constexpr double most_scale = 110.0;
constexpr double font_inches = 11.0 / 72.0;  ///< of the nodes' font, as plan_graph asks for it
constexpr double least_font = 7.5;           ///< pixels, that a graph is first shown with
constexpr double edge = 12.0;                ///< pixels around it

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
  zoom_ = 1.0;
  moved_ = {};
  at_start_ = true;
  update();
}

void GraphView::show_all() {
  at_start_ = false;
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
  for (const GraphLayout::Node& n : graph_.nodes) {
    if (n.name != node) continue;
    const QRectF box = box_of(n), room = QRectF(rect()).adjusted(edge, edge, -edge, -edge);
    if (room.contains(box)) continue;
    leave_start();
    const auto way = [](double low, double high, double first, double last) {
      return low < first ? first - low : std::max(first - low, std::min(0.0, last - high));
    };
    moved_ += {way(box.left(), box.right(), room.left(), room.right()),
               way(box.top(), box.bottom(), room.top(), room.bottom())};
  }
  update();
}

double GraphView::whole_scale() const {
  return std::min({(width() - 2 * edge) / std::max(graph_.width, 0.1),
                   (height() - 2 * edge) / std::max(graph_.height, 0.1), most_scale});
}

void GraphView::leave_start() {
  if (!at_start_) return;
  const QTransform now = transform();
  at_start_ = false;
  zoom_ = now.m11() / whole_scale();
  moved_ = {};
  const QTransform middle = transform();
  moved_ = {now.dx() - middle.dx(), now.dy() - middle.dy()};
}

QTransform GraphView::transform() const {
  const bool begins_readable = at_start_ && whole_scale() * font_inches < least_font;
  const double scale = begins_readable ? least_font / font_inches : whole_scale() * zoom_;
  QPointF corner((width() - scale * graph_.width) / 2 + moved_.x(),
                 (height() - scale * graph_.height) / 2 + moved_.y());
  // A graph that does not fit is shown from its beginning.
  if (begins_readable) corner = {std::max(edge, corner.x()), std::max(edge, corner.y())};
  QTransform out;
  out.translate(corner.x(), corner.y());
  out.scale(scale, scale);
  return out;
}

QRectF GraphView::box_of(const GraphLayout::Node& node) const {
  const QTransform to_widget = transform();
  QRectF box(0, 0, node.width * to_widget.m11(), node.height * to_widget.m11());
  box.moveCenter(to_widget.map(QPointF(node.x, node.y)));
  return box;
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
    if (messages) {
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
    const QRectF box = box_of(n);
    const bool stage = n.name.find('g') == std::string::npos;
    painter.setPen(n.name == marked_ ? QPen(bad_colour(is_dark(palette())), 2.5)
                                     : QPen(palette().color(QPalette::WindowText), stage ? 1.4 : 0.8));
    painter.setBrush(stage ? palette().color(QPalette::Button) : palette().color(QPalette::AlternateBase));
    painter.drawRoundedRect(box, 3, 3);
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
  leave_start();
  moved_ += event->position() - pressed_;
  pressed_ = event->position();
  update();
}

void GraphView::mouseDoubleClickEvent(QMouseEvent*) { show_all(); }

void GraphView::zoom(double factor, const QPointF& fixed) {
  leave_start();
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
  if (moves) leave_start();
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

}  // namespace orrery::gui
