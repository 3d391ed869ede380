#include "gui/widgets/timeline_view.hpp"

#include <fmt/format.h>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/units_text.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

constexpr int label_width = 138;
constexpr int ruler_height = 24;
constexpr int compute_height = 22;
constexpr int other_height = 9;
constexpr int rank_gap = 7;
constexpr int least_box = 3;  ///< pixels from which on a slice is a box
constexpr int least_named_box = 26;

QString q(const std::string& text) { return QString::fromStdString(text); }
std::string duration_text(std::int64_t picoseconds) {
  return short_text(Seconds::of(static_cast<double>(picoseconds) * 1e-12), 4);
}

}  // namespace

TimelineView::TimelineView(Focus& focus, QWidget* parent) : QAbstractScrollArea(parent), focus_(focus) {
  setObjectName(QStringLiteral("timeline"));
  setAccessibleName(tr("Timeline of the simulated step"));
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(QFrame::NoFrame);
  viewport()->setMouseTracking(true);
  viewport()->setAutoFillBackground(false);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  connect(&focus_, &Focus::visible_changed, this, [this] { lay_out(); });
  connect(&focus_, &Focus::selection_changed, viewport(), qOverload<>(&QWidget::update));
  connect(&focus_, &Focus::stage_changed, viewport(), qOverload<>(&QWidget::update));
  // The bar counts in thousandths of the step, which is as fine as it can be grasped.
  connect(horizontalScrollBar(), &QScrollBar::valueChanged, this, [this](int at) {
    const TimeRange now = focus_.visible();
    const std::int64_t start = focus_.duration() / 1000 * at;
    if (focus_.duration() > 0) focus_.set_visible({start, start + now.length()});
  });
  connect(verticalScrollBar(), &QScrollBar::valueChanged, viewport(), qOverload<>(&QWidget::update));
}

void TimelineView::set_step(SimulatedPointer step) {
  step_ = std::move(step);
  message_.clear();
  rows_.clear();
  int y = ruler_height;
  for (const TimelineRank& rank : step_->timeline.ranks) {
    bool first = true;
    for (const TimelineLane& lane : rank.lanes) {
      const int height = first ? compute_height : other_height;
      rows_.push_back({&rank, &lane, y, height, first});
      y += height + 1;
      first = false;
    }
    y += rank_gap;
  }
  content_height_ = y;
  focus_.set_duration(step_->timeline.duration);
  lay_out();
}

void TimelineView::set_colour(SliceColour colour) {
  colour_ = colour;
  viewport()->update();
}

void TimelineView::set_message(const QString& message) {
  message_ = message;
  viewport()->update();
}

TimeAxis TimelineView::axis() const { return {focus_.visible(), std::max(1, viewport()->width() - label_width)}; }

void TimelineView::lay_out() {
  verticalScrollBar()->setRange(0, std::max(0, content_height_ - viewport()->height()));
  verticalScrollBar()->setPageStep(viewport()->height());
  verticalScrollBar()->setSingleStep(compute_height);
  const QSignalBlocker quiet(horizontalScrollBar());
  const std::int64_t thousandth = std::max<std::int64_t>(1, focus_.duration() / 1000);
  const int page = static_cast<int>(focus_.visible().length() / thousandth);
  horizontalScrollBar()->setRange(0, std::max(0, 1000 - page));
  horizontalScrollBar()->setPageStep(std::max(1, page));
  horizontalScrollBar()->setValue(static_cast<int>(focus_.visible().start / thousandth));
  viewport()->update();
}

void TimelineView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
  if (!step_ || !message_.isEmpty()) {
    painter.setPen(faint(palette()));
    painter.drawText(viewport()->rect().adjusted(40, 40, -40, -40), Qt::AlignCenter | Qt::TextWordWrap,
                     message_.isEmpty() ? tr("The step is being simulated.") : message_);
    return;
  }
  const TimeAxis scale = axis();
  const int scroll = verticalScrollBar()->value();
  painter.save();
  painter.translate(0, -scroll);
  for (const Row& row : rows_) {
    if (row.top + row.height < scroll + ruler_height || row.top > scroll + viewport()->height()) continue;
    painter.save();
    painter.setClipRect(label_width, row.top, scale.width, row.height);
    painter.translate(label_width, 0);
    paint_row(painter, row, scale);
    painter.restore();
    paint_labels(painter, row);
  }
  painter.restore();
  if (const auto selected = focus_.selected()) {
    const double left = std::clamp(scale.x_of(selected->start), 0.0, double(scale.width));
    const double right = std::clamp(scale.x_of(selected->end), 0.0, double(scale.width));
    QColor over = palette().color(QPalette::Highlight);
    painter.setPen(over);
    over.setAlpha(45);
    painter.setBrush(over);
    painter.drawRect(QRectF(label_width + left, ruler_height, right - left, viewport()->height()));
  }
  paint_ruler(painter, scale);
}

void TimelineView::paint_ruler(QPainter& painter, const TimeAxis& scale) const {
  painter.fillRect(0, 0, viewport()->width(), ruler_height, palette().color(QPalette::Window));
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(QRect(6, 0, label_width - 6, ruler_height), Qt::AlignVCenter, q(duration_text(focus_.duration())));
  for (const Tick& tick : ticks(scale, 110)) {
    const int x = label_width + static_cast<int>(scale.x_of(tick.time));
    painter.setPen(faint(palette()));
    painter.drawLine(x, ruler_height - 6, x, ruler_height);
    const QString text = q(tick.label);
    if (x + 4 + fontMetrics().horizontalAdvance(text) > viewport()->width()) continue;
    painter.drawText(QRect(x + 4, 0, 110, ruler_height), Qt::AlignVCenter, text);
  }
}

void TimelineView::paint_row(QPainter& painter, const Row& row, const TimeAxis& scale) const {
  const bool dark = is_dark(palette());
  const QRect whole(0, row.top, scale.width, row.height);
  if (row.first) {
    QColor hatch = faint(palette());
    hatch.setAlpha(120);
    for (const TimeRange& gap : row.rank->idle) {
      if (gap.end <= scale.range.start || gap.start >= scale.range.end) continue;
      const double left = std::max(-1.0, scale.x_of(gap.start));
      const double right = std::min(scale.width + 1.0, scale.x_of(gap.end));
      if (right - left >= 1.0) {
        painter.fillRect(QRectF(left, row.top, right - left, row.height), QBrush(hatch, Qt::BDiagPattern));
      }
    }
  } else {
    painter.fillRect(whole, palette().color(QPalette::AlternateBase));
  }
  // What is narrow, pixel by pixel: as strong as the lane is busy there.
  const std::vector<StripPixel> pixels = strip(*row.lane, scale, colour_);
  QImage line(scale.width, 1, QImage::Format_ARGB32_Premultiplied);
  auto* out = reinterpret_cast<QRgb*>(line.scanLine(0));
  std::array<QRgb, colour_key_count> colours{};
  for (std::size_t key = 0; key < colours.size(); ++key) {
    colours[key] = slice_colour(static_cast<std::uint8_t>(key), dark).rgb();
  }
  for (std::size_t x = 0; x < pixels.size(); ++x) {
    const QRgb c = colours[pixels[x].key];
    out[x] = qPremultiply(qRgba(qRed(c), qGreen(c), qBlue(c), static_cast<int>(255.0F * pixels[x].busy)));
  }
  painter.drawImage(whole, line);
  // What is wide has an edge and, where there is room, a name.
  const std::int64_t pixel = std::max<std::int64_t>(1, scale.range.length() / scale.width);
  const QColor edge = dark ? QColor(0, 0, 0, 150) : QColor(255, 255, 255, 190);
  for_each_wide(*row.lane, scale.range, least_box * pixel, [&](const Slice& s) {
    const double left = std::max(-2.0, scale.x_of(s.start)), right = std::min(scale.width + 2.0, scale.x_of(s.end));
    const QRectF box(left, row.top, right - left, row.height);
    const QColor fill = slice_colour(colour_key(s, colour_), dark);
    painter.fillRect(box, fill);
    painter.setPen(edge);
    painter.drawLine(QPointF(left, row.top), QPointF(left, row.top + row.height));
    if (!row.first || box.width() < least_named_box) return;
    painter.setPen(fill.lightness() > 130 ? QColor(20, 22, 25) : QColor(250, 250, 250));
    const QString name = colour_ == SliceColour::microbatch && s.kind < SliceKind::optimizer
                             ? QStringLiteral("%1 \u00B7 %2").arg(s.microbatch).arg(q(step_->timeline.names[s.name]))
                             : q(step_->timeline.names[s.name]);
    painter.drawText(box.adjusted(4, 0, -2, 0), Qt::AlignVCenter | Qt::AlignLeft,
                     fontMetrics().elidedText(name, Qt::ElideRight, static_cast<int>(box.width()) - 6));
  });
}

void TimelineView::paint_labels(QPainter& painter, const Row& row) const {
  if (row.first) {
    const bool current = focus_.stage() == row.rank->stage;
    QFont font = painter.font();
    font.setBold(current);
    painter.setFont(font);
    painter.setPen(palette().color(current ? QPalette::Link : QPalette::WindowText));
    painter.drawText(QRect(6, row.top, label_width - 10, row.height), Qt::AlignVCenter,
                     tr("stage %1, rank %2").arg(row.rank->stage).arg(index(row.rank->rank)));
    font.setBold(false);
    painter.setFont(font);
    return;
  }
  QFont tiny = painter.font();
  const QFont usual = tiny;
  tiny.setPixelSize(other_height);
  painter.setFont(tiny);
  painter.setPen(faint(palette()));
  painter.drawText(QRect(6, row.top - 2, label_width - 14, row.height + 4), Qt::AlignVCenter | Qt::AlignRight,
                   q(row.lane->name));
  painter.setFont(usual);
}

const TimelineView::Row* TimelineView::row_at(int y) const {
  if (y < ruler_height) return nullptr;
  const int at = y + verticalScrollBar()->value();
  const auto row =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return at >= r.top && at < r.top + r.height; });
  return row == rows_.end() ? nullptr : &*row;
}

QString TimelineView::describe(const Row& row, const Slice& s) const {
  std::string text =
      fmt::format("{} ({})\n{} long, from {} to {}\nop {} of rank {}, {} lane", step_->timeline.names[s.name],
                  name_of(s.kind), duration_text(s.end - s.start), duration_text(s.start), duration_text(s.end),
                  index(s.op), index(row.rank->rank), row.lane->name);
  if (s.kind < SliceKind::optimizer) text += fmt::format("\nmicrobatch {}, layer {}", s.microbatch, s.layer);
  return q(text);
}

bool TimelineView::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip && step_) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const Row* row = row_at(help->y());
    QString text;
    if (row != nullptr && help->x() >= label_width) {
      const TimeAxis scale = axis();
      const std::int64_t time = scale.time_of(help->x() - label_width);
      if (const Slice* s = slice_at(*row->lane, time)) {
        text = describe(*row, *s);
      } else if (row->first) {
        for (const TimeRange& gap : row->rank->idle) {
          if (gap.start <= time && time < gap.end) {
            text = q(fmt::format("idle for {}", duration_text(gap.length())));
          }
        }
      }
    }
    text.isEmpty() ? QToolTip::hideText() : QToolTip::showText(help->globalPos(), text, viewport());
    return true;
  }
  return QAbstractScrollArea::viewportEvent(event);
}

void TimelineView::zoom(double factor, double x) {
  const TimeAxis scale = axis();
  focus_.set_visible(zoomed(scale.range, scale.time_of(x), factor, focus_.duration()));
}

void TimelineView::resizeEvent(QResizeEvent*) { lay_out(); }

void TimelineView::wheelEvent(QWheelEvent* event) {
  const double turns = event->angleDelta().y() / 120.0;
  if (event->modifiers() & Qt::ControlModifier) {
    zoom(std::pow(0.8, turns), std::max(0.0, event->position().x() - label_width));
  } else if (event->modifiers() & Qt::ShiftModifier || event->angleDelta().x() != 0) {
    const double along = event->angleDelta().x() != 0 ? event->angleDelta().x() / 120.0 : turns;
    focus_.set_visible(panned(focus_.visible(), -0.1 * along, focus_.duration()));
  } else {
    verticalScrollBar()->setValue(verticalScrollBar()->value() - static_cast<int>(turns * 3 * compute_height));
  }
  event->accept();
}

void TimelineView::keyPressEvent(QKeyEvent* event) {
  const double middle = axis().width / 2.0;
  switch (event->key()) {
    case Qt::Key_W: return zoom(0.7, middle);
    case Qt::Key_S: return zoom(1.0 / 0.7, middle);
    case Qt::Key_A: return focus_.set_visible(panned(focus_.visible(), -0.15, focus_.duration()));
    case Qt::Key_D: return focus_.set_visible(panned(focus_.visible(), 0.15, focus_.duration()));
    case Qt::Key_0: return focus_.show_all();
    case Qt::Key_Escape: return focus_.select(std::nullopt);
    case Qt::Key_F:
      if (const auto selected = focus_.selected()) focus_.set_visible(*selected);
      return;
    default: QAbstractScrollArea::keyPressEvent(event);
  }
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
  if (!step_ || event->button() != Qt::LeftButton) return;
  const int x = static_cast<int>(event->position().x()) - label_width;
  if (const Row* row = row_at(static_cast<int>(event->position().y())); row != nullptr && x < 0) {
    focus_.set_stage(row->rank->stage);
    return;
  }
  pressed_x_ = x;
  pressed_range_ = focus_.visible();
  panning_ = event->modifiers() & Qt::ShiftModifier;
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  if (!pressed_x_) return;
  const int x = static_cast<int>(event->position().x()) - label_width;
  const TimeAxis before{pressed_range_, axis().width};
  if (panning_) {
    const double share = static_cast<double>(*pressed_x_ - x) / before.width;
    focus_.set_visible(panned(pressed_range_, share, focus_.duration()));
    return;
  }
  const auto time = [&](int at) { return std::clamp<std::int64_t>(before.time_of(at), 0, focus_.duration()); };
  if (x != *pressed_x_) focus_.select(TimeRange{time(std::min(x, *pressed_x_)), time(std::max(x, *pressed_x_))});
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
  if (pressed_x_ && !panning_ && static_cast<int>(event->position().x()) - label_width == *pressed_x_) {
    focus_.select(std::nullopt);
  }
  pressed_x_.reset();
}

}  // namespace orrery::gui
