#include "gui/widgets/fabric_view.hpp"

#include <fmt/format.h>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/units_text.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

constexpr std::uint32_t idle = std::numeric_limits<std::uint32_t>::max();
constexpr double margin = 12.0;
/// Lines nearer to the pointer than this, in pixels, count as under it.
constexpr double reach = 5.0;

double distance(const QPointF& p, const QLineF& line) {
  const QPointF along = line.p2() - line.p1();
  const double length = QPointF::dotProduct(along, along);
  const double share = length > 0 ? std::clamp(QPointF::dotProduct(p - line.p1(), along) / length, 0.0, 1.0) : 0.0;
  return QLineF(p, line.p1() + share * along).length();
}

}  // namespace

FabricView::FabricView(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("fabric"));
  setAccessibleName(tr("The fabric with the load of its links; the table below has the hottest"));
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
}

void FabricView::set_fabric(FabricShownPointer shown) {
  shown_ = std::move(shown);
  message_.clear();
  dragged_.reset();
  rank_of_device_.clear();
  const Plan& plan = shown_->prediction->run.plan;
  const auto ranks = static_cast<std::uint32_t>(plan.mesh.size());
  for (std::uint32_t r = 0; r < ranks; ++r) {
    const std::uint32_t device = plan.placement.empty() ? r : plan.placement[r];
    if (rank_of_device_.size() <= device) rank_of_device_.resize(device + 1, idle);
    rank_of_device_[device] = r;
  }
  update();
}

void FabricView::set_axis(Axis axis) {
  axis_ = axis;
  update();
}

void FabricView::set_message(const QString& message) {
  message_ = message;
  shown_.reset();
  update();
}

std::optional<Rank> FabricView::rank_on(std::uint32_t device) const {
  if (device >= rank_of_device_.size() || rank_of_device_[device] == idle) return std::nullopt;
  return Rank{rank_of_device_[device]};
}

double FabricView::names_width() const {
  double out = 0.0;
  for (std::uint32_t level = 0; level < shown_->picture.levels.size(); ++level) {
    out = std::max(out, fontMetrics().horizontalAdvance(level_name(level)) + 8.0);
  }
  return out;
}

QString FabricView::level_name(std::uint32_t level) const {
  std::uint32_t vertices = 0;
  for (const FabricCell& c : shown_->picture.levels[level]) vertices += c.vertices;
  return QStringLiteral("%1 %2").arg(vertices).arg(QString::fromStdString(shown_->picture.kinds[level]));
}

QRectF FabricView::cell_rect(std::uint32_t level, std::uint32_t cell) const {
  const auto& levels = shown_->picture.levels;
  const auto count = static_cast<double>(levels[level].size());
  const double step = (width() - 2 * margin - names_width()) / count;
  const double legend = fontMetrics().lineSpacing() + 8.0;
  const double room = height() - 2 * margin - legend;
  const double row = room / static_cast<double>(levels.size());
  const double w = std::max(2.0, std::min(step * 0.82, 150.0));
  const double h = std::clamp(row * 0.4, 6.0, 2.4 * fontMetrics().lineSpacing());
  const double x = margin + names_width() + (cell + 0.5) * step;
  const double y = legend + margin + (static_cast<double>(levels.size() - level) - 0.5) * row;
  return {x - w / 2, y - h / 2, w, h};
}

void FabricView::paint_cell(QPainter& painter, std::uint32_t level, std::uint32_t at) const {
  const FabricCell& cell = shown_->picture.levels[level][at];
  const QRectF rect = cell_rect(level, at);
  painter.setPen(QPen(palette().color(QPalette::WindowText), 0.8));
  painter.setBrush(palette().color(QPalette::Button));
  painter.drawRect(rect);
  if (level == 0) {
    // Each device is a strip, in the colour of its group.
    const auto count = static_cast<double>(cell.devices.size());
    painter.setPen(Qt::NoPen);
    for (std::size_t i = 0; i < cell.devices.size(); ++i) {
      const auto rank = rank_on(cell.devices[i]);
      if (!rank) continue;
      const double left = rect.left() + rect.width() * static_cast<double>(i) / count;
      painter.setBrush(group_colour(shown_->prediction->run.plan.mesh.coordinate(*rank, axis_)));
      painter.drawRect(QRectF(left, rect.top(), rect.width() / count, rect.height()));
    }
    const bool in_hand = hasFocus() && hand_ && cell.devices == std::vector{*hand_};
    const bool taken = dragged_ && cell.devices == std::vector{*dragged_};
    painter.setPen(in_hand || taken
                       ? QPen(palette().color(QPalette::Highlight), 3, taken ? Qt::DashLine : Qt::SolidLine)
                       : QPen(palette().color(QPalette::WindowText), 0.8));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(rect);
  }
  QString text;
  if (level == 0 && cell.devices.size() == 1) {
    const auto rank = rank_on(cell.devices.front());
    text = rank ? QString::number(index(*rank)) : QStringLiteral("-");
  } else if (cell.vertices == 1) {
    const auto colon = cell.name.rfind(": ");
    text = QString::fromStdString(colon == std::string::npos ? cell.name : cell.name.substr(colon + 2));
  } else {
    text = QStringLiteral("\u00d7%1").arg(cell.vertices);
  }
  if (fontMetrics().horizontalAdvance(text) > rect.width() - 2 || fontMetrics().height() > rect.height() + 2) return;
  painter.setPen(level == 0 ? QColor(20, 20, 20) : palette().color(QPalette::ButtonText));
  painter.drawText(rect, Qt::AlignCenter, text);
}

void FabricView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  painter.setPen(palette().color(QPalette::Text));
  if (!shown_) {
    painter.drawText(rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap, message_);
    return;
  }
  painter.setRenderHint(QPainter::Antialiasing);
  const FabricPicture& picture = shown_->picture;
  // Busy links are drawn on top.
  std::vector<const FabricEdge*> edges;
  for (const FabricEdge& e : picture.edges) {
    if (e.low_level != e.high_level || e.low != e.high) edges.push_back(&e);
  }
  std::stable_sort(edges.begin(), edges.end(), [](const auto* a, const auto* b) { return a->load < b->load; });
  const double most = picture.hottest.empty() ? 0.0 : picture.hottest.front().load;
  for (const FabricEdge* e : edges) {
    const QRectF low = cell_rect(e->low_level, e->low), high = cell_rect(e->high_level, e->high);
    const double share = most > 0.0 ? e->load / most : 0.0;
    painter.setPen(QPen(load_colour(share, palette()), 0.8 + 4.2 * share));
    if (e->low_level == e->high_level) {  // an arc below the level
      QPainterPath arc(low.center());
      const double bend = low.height() * (0.8 + 0.1 * std::abs(static_cast<double>(e->high) - e->low));
      arc.quadTo((low.center() + high.center()) / 2 + QPointF(0, bend), high.center());
      painter.setBrush(Qt::NoBrush);
      painter.drawPath(arc);
    } else {
      painter.drawLine(QPointF(low.center().x(), low.top()), QPointF(high.center().x(), high.bottom()));
    }
  }
  for (std::uint32_t level = 0; level < picture.levels.size(); ++level) {
    for (std::uint32_t c = 0; c < picture.levels[level].size(); ++c) paint_cell(painter, level, c);
    const QRectF row = cell_rect(level, 0);
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(QRectF(margin, row.center().y() - 20, names_width(), 40), Qt::AlignLeft | Qt::AlignVCenter,
                     level_name(level));
  }
  // The scale of loads.
  const int line = fontMetrics().lineSpacing();
  const QString zero = tr("load 0"), full = QStringLiteral("%1 %").arg(100.0 * most, 0, 'f', 1);
  double x = margin;
  painter.setPen(palette().color(QPalette::Text));
  painter.drawText(QPointF(x, margin + line - 4), zero);
  x += fontMetrics().horizontalAdvance(zero) + 6;
  for (int i = 0; i < 40; ++i)
    painter.fillRect(QRectF(x + 3 * i, margin + 2, 3.2, line - 4), load_colour(i / 39.0, palette()));
  painter.drawText(QPointF(x + 126, margin + line - 4), full);
  if (!shown_->prediction->run.plan.mesh.axes.empty()) {
    const std::uint32_t groups = shown_->prediction->run.plan.mesh.size(axis_);
    double right = width() - margin;
    const QString name = tr("%1 (%2)").arg(QString::fromStdString(std::string(name_of(axis_)))).arg(groups);
    right -= fontMetrics().horizontalAdvance(name);
    painter.drawText(QPointF(right, margin + line - 4), name);
    const std::uint32_t told = std::min(groups, 8U);
    for (std::uint32_t g = told; g-- > 0;) {
      right -= 14;
      painter.fillRect(QRectF(right, margin + 3, 11, line - 6), group_colour(g));
    }
  }
  if (dragged_ && !drag_at_.isNull()) {
    painter.setPen(QPen(palette().color(QPalette::Highlight), 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(drag_at_, 10, 10);
  }
}

std::optional<std::uint32_t> FabricView::device_at(const QPointF& p) const {
  if (!shown_) return std::nullopt;
  const auto& devices = shown_->picture.levels.front();
  for (std::uint32_t c = 0; c < devices.size(); ++c) {
    if (devices[c].devices.size() == 1 && cell_rect(0, c).contains(p)) return devices[c].devices.front();
  }
  return std::nullopt;
}

std::vector<std::uint32_t> FabricView::single_devices() const {
  std::vector<std::uint32_t> out;
  if (!shown_) return out;
  for (const FabricCell& c : shown_->picture.levels.front()) {
    if (c.devices.size() == 1) out.push_back(c.devices.front());
  }
  return out;
}

void FabricView::keyPressEvent(QKeyEvent* event) {
  const std::vector<std::uint32_t> devices = single_devices();
  const auto at = hand_ ? std::find(devices.begin(), devices.end(), *hand_) : devices.end();
  if (at == devices.end()) return QWidget::keyPressEvent(event);  // too many devices to be drawn one by one
  switch (event->key()) {
    case Qt::Key_Left:
    case Qt::Key_Right:
      if (event->key() == Qt::Key_Left ? at == devices.begin() : std::next(at) == devices.end()) return;
      hand_ = event->key() == Qt::Key_Left ? *std::prev(at) : *std::next(at);
      if (!dragged_) Q_EMIT device_chosen(*hand_);
      break;
    case Qt::Key_Space:
    case Qt::Key_Return:
      if (const auto from = std::exchange(dragged_, std::nullopt)) {
        if (*from != *hand_) Q_EMIT swap_wished(*from, *hand_);
      } else if (rank_on(*hand_)) {
        dragged_ = hand_;
        drag_at_ = {};
      }
      break;
    case Qt::Key_Escape: dragged_.reset(); break;
    default: return QWidget::keyPressEvent(event);
  }
  const auto rank = rank_on(*hand_);
  setAccessibleDescription(rank ? tr("device %1, rank %2").arg(*hand_).arg(index(*rank))
                                : tr("device %1, idle").arg(*hand_));
  update();
}

void FabricView::focusInEvent(QFocusEvent* event) {
  const std::vector<std::uint32_t> devices = single_devices();
  const bool drawn = hand_ && std::find(devices.begin(), devices.end(), *hand_) != devices.end();
  if (!drawn) hand_ = devices.empty() ? std::nullopt : std::optional(devices.front());
  QWidget::focusInEvent(event);
}

void FabricView::focusOutEvent(QFocusEvent* event) {
  dragged_.reset();
  QWidget::focusOutEvent(event);
}

void FabricView::mousePressEvent(QMouseEvent* event) {
  const auto device = device_at(event->position());
  if (!device || event->button() != Qt::LeftButton) return;
  Q_EMIT device_chosen(*device);
  hand_ = device;
  if (rank_on(*device)) dragged_ = device;
  drag_at_ = event->position();
}

void FabricView::mouseMoveEvent(QMouseEvent* event) {
  if (!dragged_) return;
  drag_at_ = event->position();
  update();
}

void FabricView::mouseReleaseEvent(QMouseEvent* event) {
  const auto from = std::exchange(dragged_, std::nullopt);
  update();
  const auto to = device_at(event->position());
  if (from && to && *from != *to) Q_EMIT swap_wished(*from, *to);
}

QString FabricView::describe(const QPointF& p) const {
  if (!shown_) return {};
  const FabricPicture& picture = shown_->picture;
  for (std::uint32_t level = 0; level < picture.levels.size(); ++level) {
    for (std::uint32_t c = 0; c < picture.levels[level].size(); ++c) {
      if (!cell_rect(level, c).contains(p)) continue;
      const FabricCell& cell = picture.levels[level][c];
      QString text = QString::fromStdString(cell.name);
      if (cell.vertices > 1) text = tr("%1 of them: %2").arg(cell.vertices).arg(text);
      const Mesh& mesh = shown_->prediction->run.plan.mesh;
      if (const auto rank = cell.devices.size() == 1 ? rank_on(cell.devices.front()) : std::nullopt) {
        text += QStringLiteral("\n") + tr("rank %1").arg(index(*rank));
        for (const MeshAxis& a : mesh.axes) {
          text += QStringLiteral("\n%1 %2")
                      .arg(QString::fromStdString(std::string(name_of(a.axis))))
                      .arg(mesh.coordinate(*rank, a.axis));
        }
      }
      return text;
    }
  }
  const FabricEdge* nearest = nullptr;
  double least = reach;
  for (const FabricEdge& e : picture.edges) {
    const QRectF low = cell_rect(e.low_level, e.low), high = cell_rect(e.high_level, e.high);
    const double d = distance(p, {QPointF(low.center().x(), low.top()), QPointF(high.center().x(), high.bottom())});
    if (d < least) {
      least = d;
      nearest = &e;
    }
  }
  if (nearest == nullptr) return {};
  return tr("%1 links; the busiest is full for %2 % of the time")
      .arg(nearest->links)
      .arg(100.0 * nearest->load, 0, 'f', 1);
}

bool FabricView::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const QString text = describe(help->pos());
    text.isEmpty() ? QToolTip::hideText() : QToolTip::showText(help->globalPos(), text, this);
    return true;
  }
  return QWidget::event(event);
}

}  // namespace orrery::gui
