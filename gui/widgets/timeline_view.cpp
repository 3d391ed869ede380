#include "gui/widgets/timeline_view.hpp"

#include <fmt/format.h>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
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
constexpr int memory_height = 15;
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
  setAccessibleName(tr("Timeline of the step"));
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(QFrame::NoFrame);
  viewport()->setMouseTracking(true);
  viewport()->setAutoFillBackground(false);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  connect(&focus_, &Focus::visible_changed, this, [this] { lay_out(); });
  connect(&focus_, &Focus::selection_changed, viewport(), qOverload<>(&QWidget::update));
  connect(&focus_, &Focus::cursor_changed, viewport(), qOverload<>(&QWidget::update));
  connect(&focus_, &Focus::op_changed, viewport(), qOverload<>(&QWidget::update));
  connect(&focus_, &Focus::stage_changed, this, [this] { repaint_rows(); });
  // The bar counts in thousandths of the step, which is as fine as a person can grasp it.
  connect(horizontalScrollBar(), &QScrollBar::valueChanged, this, [this](int at) {
    const TimeRange now = focus_.visible();
    const std::int64_t start = focus_.duration() / 1000 * at;
    if (focus_.duration() > 0) focus_.set_visible({start, start + now.length()});
  });
  connect(verticalScrollBar(), &QScrollBar::valueChanged, this, [this] { repaint_rows(); });
}

void TimelineView::set_timeline(TimelinePointer timeline) {
  timeline_ = std::move(timeline);
  message_.clear();
  outdated_ = false;
  path_.clear();
  arrows_.clear();
  rows_.clear();
  int y = ruler_height;
  for (std::uint32_t r = 0; timeline_ && r < timeline_->ranks.size(); ++r) {
    const TimelineRank& rank = timeline_->ranks[r];
    const auto add = [&](RowKind kind, std::uint32_t lane, int height) {
      rows_.push_back({kind, r, lane, y, height});
      y += height + 1;
    };
    for (std::uint32_t l = 0; l < rank.lanes.size(); ++l) {
      l == 0 ? add(RowKind::compute, l, compute_height) : add(RowKind::lane, l, other_height);
    }
    add(RowKind::memory, 0, memory_height);
    y += rank_gap;
  }
  content_height_ = y;
  lay_out();
}

void TimelineView::set_colour(SliceColour colour) {
  colour_ = colour;
  repaint_rows();
}

void TimelineView::set_path(std::vector<PathMark> path) {
  path_ = std::move(path);
  repaint_rows();
}

void TimelineView::set_arrows(std::vector<Dependency> arrows) {
  arrows_ = std::move(arrows);
  viewport()->update();
}

void TimelineView::set_message(const QString& message) {
  message_ = message;
  viewport()->update();
}

void TimelineView::set_outdated(bool on) {
  if (on == outdated_) return;
  outdated_ = on;
  viewport()->update();
}

void TimelineView::set_title(const QString& title) {
  title_ = title;
  viewport()->update();
}

void TimelineView::repaint_rows() {
  picture_ = {};
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
  repaint_rows();
}

void TimelineView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  if (!timeline_ || !message_.isEmpty()) {
    painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
    painter.setPen(faint(palette()));
    painter.drawText(viewport()->rect().adjusted(40, 40, -40, -40), Qt::AlignCenter | Qt::TextWordWrap,
                     message_.isEmpty() ? tr("The step is being simulated.") : message_);
    return;
  }
  const qreal ratio = viewport()->devicePixelRatioF();
  if (picture_.isNull() || picture_.size() != viewport()->size() * ratio) {
    picture_ = QPixmap(viewport()->size() * ratio);
    picture_.setDevicePixelRatio(ratio);
    QPainter rows(&picture_);
    rows.setFont(font());
    paint_rows(rows);
  }
  painter.drawPixmap(0, 0, picture_);
  const TimeAxis scale = axis();
  painter.save();
  painter.setClipRect(label_width, ruler_height, scale.width, viewport()->height());
  if (const auto selected = focus_.selected()) {
    const double left = std::clamp(scale.x_of(selected->start), 0.0, double(scale.width));
    const double right = std::clamp(scale.x_of(selected->end), 0.0, double(scale.width));
    QColor over = palette().color(QPalette::Highlight);
    painter.setPen(over);
    over.setAlpha(45);
    painter.setBrush(over);
    painter.drawRect(QRectF(label_width + left, ruler_height, right - left, viewport()->height()));
  }
  paint_arrows(painter);
  paint_cursor(painter, scale);
  painter.restore();
  paint_ruler(painter, scale);
  if (!outdated_) return;
  QColor veil = palette().color(QPalette::Base);
  veil.setAlpha(150);
  painter.fillRect(viewport()->rect(), veil);
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(viewport()->rect().adjusted(label_width, ruler_height + 8, -8, -8),
                   Qt::AlignHCenter | Qt::AlignTop | Qt::TextWordWrap, tr("For the previous plan."));
}

void TimelineView::paint_rows(QPainter& painter) const {
  painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
  const TimeAxis scale = axis();
  const int scroll = verticalScrollBar()->value();
  painter.translate(0, -scroll);
  for (const Row& row : rows_) {
    if (row.top + row.height < scroll + ruler_height || row.top > scroll + viewport()->height()) continue;
    painter.save();
    painter.setClipRect(label_width, row.top, scale.width, row.height);
    painter.translate(label_width, 0);
    row.kind == RowKind::memory ? paint_memory(painter, row, scale) : paint_row(painter, row, scale);
    painter.restore();
    paint_labels(painter, row);
  }
  painter.save();
  painter.setClipRect(label_width, scroll, scale.width, viewport()->height());
  painter.translate(label_width, 0);
  paint_path(painter, scale);
  painter.restore();
}

void TimelineView::paint_ruler(QPainter& painter, const TimeAxis& scale) const {
  painter.fillRect(0, 0, viewport()->width(), ruler_height, palette().color(QPalette::Window));
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(QRect(6, 0, label_width - 6, ruler_height), Qt::AlignVCenter,
                   title_.isEmpty() ? q(duration_text(timeline_->duration)) : title_);
  for (const Tick& tick : ticks(scale, 110)) {
    const int x = label_width + static_cast<int>(scale.x_of(tick.time));
    painter.setPen(faint(palette()));
    painter.drawLine(x, ruler_height - 6, x, ruler_height);
    const QString text = q(tick.label);
    if (x + 4 + fontMetrics().horizontalAdvance(text) > viewport()->width()) continue;
    painter.drawText(QRect(x + 4, 0, 110, ruler_height), Qt::AlignVCenter, text);
  }
}

void TimelineView::paint_idle(QPainter& painter, const Row& row, const TimeAxis& scale) const {
  const std::vector<IdleRange>& idle = rank_of(row).idle;
  QColor hatch = faint(palette());
  hatch.setAlpha(120);
  QColor waiting = slice_colour(static_cast<std::uint8_t>(SliceKind::collective), is_dark(palette()));
  waiting.setAlpha(60);
  const std::int64_t pixel = scale.range.length() / scale.width;
  auto i = std::partition_point(idle.begin(), idle.end(),
                                [&](const IdleRange& x) { return x.range.end <= scale.range.start; });
  for (; i != idle.end() && i->range.start < scale.range.end; ++i) {
    if (i->range.length() < pixel) continue;
    const double left = std::max(-1.0, scale.x_of(i->range.start));
    const double right = std::min(scale.width + 1.0, scale.x_of(i->range.end));
    const QRectF box(left, row.top, right - left, row.height);
    if (i->cause == IdlePart::Cause::bubble) {
      painter.fillRect(box, QBrush(hatch, Qt::BDiagPattern));
    } else {
      painter.fillRect(box, waiting);
    }
  }
}

/// Draws live bytes as an area, in the scale of the fullest rank.
void TimelineView::paint_memory(QPainter& painter, const Row& row, const TimeAxis& scale) const {
  const QRectF whole(0, row.top, scale.width, row.height);
  painter.fillRect(whole, palette().color(QPalette::AlternateBase));
  const std::vector<MemoryPoint>& points = rank_of(row).memory;
  if (timeline_->most_memory == 0 || points.empty()) return;
  const std::vector<std::uint64_t> peaks = memory_strip(points, scale);
  // The area is a picture of its own: a rectangle for each pixel would take as long as all slices.
  QImage area(scale.width, row.height, QImage::Format_ARGB32_Premultiplied);
  area.fill(Qt::transparent);
  const QRgb fill = role_colour(3).rgb();
  for (int y = 0; y < row.height; ++y) {
    // The point is in the middle of the line.
    const double level = (row.height - y - 0.5) / row.height * static_cast<double>(timeline_->most_memory);
    auto* line = reinterpret_cast<QRgb*>(area.scanLine(y));
    for (std::size_t x = 0; x < peaks.size(); ++x) {
      if (static_cast<double>(peaks[x]) >= level) line[x] = fill;
    }
  }
  painter.drawImage(whole.topLeft(), area);
}

void TimelineView::paint_path(QPainter& painter, const TimeAxis& scale) const {
  if (path_.empty()) return;
  const QColor colour = is_dark(palette()) ? QColor(255, 255, 255) : QColor(20, 20, 24);
  QPen pen(colour, 2.0);
  pen.setCapStyle(Qt::FlatCap);
  painter.setPen(pen);
  auto mark =
      std::partition_point(path_.begin(), path_.end(), [&](const PathMark& m) { return m.end <= scale.range.start; });
  const PathMark* before = mark == path_.begin() ? nullptr : &*std::prev(mark);
  double drawn_to = -1.0;
  for (; mark != path_.end() && mark->start < scale.range.end; ++mark) {
    const Row* row = row_of(mark->place.rank, mark->place.lane);
    const double left = scale.x_of(mark->start), right = std::min(scale.width + 2.0, scale.x_of(mark->end));
    const double y = row->top + row->height - 1.0;
    const bool same =
        before != nullptr && before->place.rank == mark->place.rank && before->place.lane == mark->place.lane;
    if (before != nullptr && before->place.rank != mark->place.rank) {  // from rank to rank
      const Row* from = row_of(before->place.rank, before->place.lane);
      painter.setPen(QPen(colour, 1.0));
      painter.drawLine(QPointF(left, from->top + from->height - 1.0), QPointF(left, y));
      painter.setPen(pen);
    }
    // Among ops of one row that share a pixel the first is drawn.
    if (!same || right - drawn_to >= 1.0) {
      painter.drawLine(QPointF(std::max(-2.0, left), y), QPointF(std::max(right, left + 1.0), y));
      drawn_to = right;
    }
    before = &*mark;
  }
}

void TimelineView::paint_arrows(QPainter& painter) const {
  const auto op = focus_.op();
  const auto here = op ? place_of(*timeline_, *op) : std::nullopt;
  if (!here) return;
  painter.setRenderHint(QPainter::Antialiasing);
  const QColor strong = palette().color(QPalette::WindowText);
  const QColor into = bad_colour(is_dark(palette())), out = palette().color(QPalette::Link);
  for (const Dependency& d : arrows_) {
    const auto from = place_of(*timeline_, d.from), to = place_of(*timeline_, d.to);
    if (!from || !to) continue;
    const QRectF a = rect_of(*from), b = rect_of(*to);
    // Members of a collective begin together; other arrows go from an end to a start.
    const bool together = d.kind == Dependency::Kind::collective;
    const QPointF start(together ? a.left() : a.right(), a.center().y()), end(b.left(), b.center().y());
    const double bend = std::max(12.0, std::min(60.0, std::abs(end.x() - start.x()) / 2));
    QPainterPath path(start);
    if (std::abs(end.y() - start.y()) < 1.0) {
      path.lineTo(end);
    } else {
      path.cubicTo(start + QPointF(bend, 0), end - QPointF(bend, 0), end);
    }
    const QColor colour = d.to == *op ? into : out;
    painter.setPen(QPen(colour, d.last ? 2.6 : 1.3, together ? Qt::DashLine : Qt::SolidLine));
    painter.setBrush(Qt::NoBrush);
    painter.drawPath(path);
    painter.setPen(Qt::NoPen);
    painter.setBrush(colour);
    painter.drawPolygon(QPolygonF{end, end + QPointF(-7, -4), end + QPointF(-7, 4)});
  }
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setBrush(Qt::NoBrush);
  painter.setPen(QPen(strong, 2.0));
  const QRectF box = rect_of(*here);
  painter.drawRect(box.adjusted(0, 0, std::max(0.0, 3.0 - box.width()), 0));
}

void TimelineView::paint_cursor(QPainter& painter, const TimeAxis& scale) const {
  const auto cursor = focus_.cursor();
  if (!cursor) return;
  const QColor colour = bad_colour(is_dark(palette()));
  painter.setPen(QPen(colour, 1.5));
  const double x = label_width + scale.x_of(*cursor);
  painter.drawLine(QPointF(x, ruler_height), QPointF(x, viewport()->height()));
  // Marks the operations at that instant.
  painter.setBrush(Qt::NoBrush);
  for (const Row& row : rows_) {
    if (row.kind == RowKind::memory) continue;
    const Slice* s = slice_at(lane_of(row), *cursor);
    if (s == nullptr) continue;
    const auto at = static_cast<std::uint32_t>(s - lane_of(row).slices.data());
    painter.drawRect(rect_of({row.rank, row.lane, at}));
  }
}

void TimelineView::paint_row(QPainter& painter, const Row& row, const TimeAxis& scale) const {
  const bool dark = is_dark(palette());
  const bool compute = row.kind == RowKind::compute;
  const TimelineLane& lane = lane_of(row);
  const QRect whole(0, row.top, scale.width, row.height);
  if (compute) {
    paint_idle(painter, row, scale);
  } else {
    painter.fillRect(whole, palette().color(QPalette::AlternateBase));
  }
  // Narrow slices are drawn pixel by pixel: as strong as the lane is busy there.
  const std::vector<StripPixel> pixels = strip(lane, scale, colour_);
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
  // Wide slices have an edge and, where there is room, a name.
  const std::int64_t pixel = std::max<std::int64_t>(1, scale.range.length() / scale.width);
  const QColor edge = dark ? QColor(0, 0, 0, 150) : QColor(255, 255, 255, 190);
  for_each_wide(lane, scale.range, least_box * pixel, [&](const Slice& s) {
    const double left = std::max(-2.0, scale.x_of(s.start)), right = std::min(scale.width + 2.0, scale.x_of(s.end));
    const QRectF box(left, row.top, right - left, row.height);
    const QColor fill = slice_colour(colour_key(s, colour_), dark);
    painter.fillRect(box, fill);
    painter.setPen(edge);
    painter.drawLine(QPointF(left, row.top), QPointF(left, row.top + row.height));
    if (!compute || box.width() < least_named_box) return;
    painter.setPen(fill.lightness() > 130 ? QColor(20, 22, 25) : QColor(250, 250, 250));
    const QString name = colour_ == SliceColour::microbatch && s.kind < SliceKind::optimizer
                             ? QStringLiteral("%1 \u00B7 %2").arg(s.microbatch).arg(q(timeline_->names[s.name]))
                             : q(timeline_->names[s.name]);
    painter.drawText(box.adjusted(4, 0, -2, 0), Qt::AlignVCenter | Qt::AlignLeft,
                     fontMetrics().elidedText(name, Qt::ElideRight, static_cast<int>(box.width()) - 6));
  });
}

void TimelineView::paint_labels(QPainter& painter, const Row& row) const {
  const TimelineRank& rank = rank_of(row);
  if (row.kind == RowKind::compute) {
    const bool current = focus_.stage() == rank.stage;
    QFont font = painter.font();
    font.setBold(current);
    painter.setFont(font);
    painter.setPen(palette().color(current ? QPalette::Link : QPalette::WindowText));
    painter.drawText(QRect(6, row.top, label_width - 10, row.height), Qt::AlignVCenter,
                     tr("stage %1, rank %2").arg(rank.stage).arg(index(rank.rank)));
    font.setBold(false);
    painter.setFont(font);
    return;
  }
  QFont tiny = painter.font();
  const QFont usual = tiny;
  tiny.setPixelSize(other_height);
  painter.setFont(tiny);
  painter.setPen(faint(palette()));
  QString text;
  if (row.kind == RowKind::memory) {
    std::uint64_t peak = 0;
    for (const MemoryPoint& p : rank.memory) peak = std::max(peak, p.peak);
    text = tr("memory, to %1").arg(q(short_text(Bytes::of(static_cast<double>(peak)))));
  } else {
    text = q(lane_of(row).name);
  }
  painter.drawText(QRect(6, row.top - 2, label_width - 14, row.height + 4), Qt::AlignVCenter | Qt::AlignRight, text);
  painter.setFont(usual);
}

const TimelineView::Row* TimelineView::row_at(int y) const {
  if (y < ruler_height) return nullptr;
  const int at = y + verticalScrollBar()->value();
  const auto row =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return at >= r.top && at < r.top + r.height; });
  return row == rows_.end() ? nullptr : &*row;
}

const TimelineView::Row* TimelineView::row_of(std::uint32_t rank, std::uint32_t lane) const {
  const auto row = std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) {
    return r.rank == rank && r.lane == lane && r.kind != RowKind::memory;
  });
  return row == rows_.end() ? nullptr : &*row;
}

QRectF TimelineView::rect_of(const SlicePlace& place) const {
  const Row* row = row_of(place.rank, place.lane);
  if (row == nullptr) return {};
  const TimeAxis scale = axis();
  const Slice& s = slice_of(*timeline_, place);
  const double far = 1e5;  // painters know no numbers without end
  const double left = std::clamp(scale.x_of(s.start), -far, far), right = std::clamp(scale.x_of(s.end), -far, far);
  return {label_width + left, static_cast<double>(row->top - verticalScrollBar()->value()), right - left,
          static_cast<double>(row->height)};
}

void TimelineView::reveal(const SlicePlace& place) {
  const Row* row = row_of(place.rank, place.lane);
  if (row == nullptr) return;
  QScrollBar& bar = *verticalScrollBar();
  if (row->top < bar.value() + ruler_height) bar.setValue(row->top - ruler_height);
  if (row->top + row->height > bar.value() + viewport()->height()) {
    bar.setValue(row->top + row->height - viewport()->height());
  }
  const Slice& s = slice_of(*timeline_, place);
  const TimeRange now = focus_.visible();
  // Zooms in as far as needed to see it as a box, and centres it where it was out of sight.
  const std::int64_t length = std::min(now.length(), std::max<std::int64_t>(40 * (s.end - s.start), least_range));
  const bool seen = s.start >= now.start && s.end <= now.end && (s.end - s.start) * axis().width >= 2 * now.length();
  if (seen) return;
  const std::int64_t middle = s.start + (s.end - s.start) / 2;
  focus_.set_visible({middle - length / 2, middle - length / 2 + length});
}

QString TimelineView::describe(const Row& row, const Slice& s) const {
  // An operation that a profiler recorded has no number in the plan's Program.
  const std::string op = rank_of(row).kernels.empty() ? fmt::format("op {} of ", index(s.op)) : "";
  std::string text = fmt::format("{} ({})\n{} long, from {} to {}\n{}rank {}, {} lane", timeline_->names[s.name],
                                 name_of(s.kind), duration_text(s.end - s.start), duration_text(s.start),
                                 duration_text(s.end), op, index(rank_of(row).rank), lane_of(row).name);
  if (index(s.op) < rank_of(row).kernels.size()) text += "\n" + timeline_->kernels[rank_of(row).kernels[index(s.op)]];
  if (s.kind < SliceKind::optimizer) text += fmt::format("\nmicrobatch {}, layer {}", s.microbatch, s.layer);
  return q(text);
}

QString TimelineView::tip_at(const QPoint& at) const {
  const Row* row = row_at(at.y());
  if (row == nullptr || at.x() < label_width) return {};
  const std::int64_t time = axis().time_of(at.x() - label_width);
  if (row->kind == RowKind::memory) {
    return q(fmt::format("{} live on rank {} at {}",
                         short_text(Bytes::of(static_cast<double>(memory_at(rank_of(*row), time)))),
                         index(rank_of(*row).rank), duration_text(time)));
  }
  if (const Slice* s = slice_at(lane_of(*row), time)) return describe(*row, *s);
  if (row->kind != RowKind::compute) return {};
  const std::vector<IdleRange>& idle = rank_of(*row).idle;
  const auto i =
      std::partition_point(idle.begin(), idle.end(), [&](const IdleRange& x) { return x.range.end <= time; });
  if (i == idle.end() || i->range.start > time) return {};
  switch (i->cause) {
    case IdlePart::Cause::bubble: return tr("bubble, %1").arg(q(duration_text(i->range.length())));
    case IdlePart::Cause::message: return tr("bubble: a message moves, %1").arg(q(duration_text(i->range.length())));
    case IdlePart::Cause::collective:
      return tr("waiting for %1, %2").arg(q(timeline_->names[i->name]), q(duration_text(i->range.length())));
  }
  return {};
}

bool TimelineView::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip && timeline_) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const QString text = tip_at(help->pos());
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

void TimelineView::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) repaint_rows();
}

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
    case Qt::Key_Escape:
      focus_.select(std::nullopt);
      focus_.set_op(std::nullopt);
      return focus_.set_cursor(std::nullopt);
    case Qt::Key_F:
      if (const auto selected = focus_.selected()) focus_.set_visible(*selected);
      return;
    default: QAbstractScrollArea::keyPressEvent(event);
  }
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
  if (!timeline_ || event->button() != Qt::LeftButton) return;
  const int x = static_cast<int>(event->position().x()) - label_width;
  if (const Row* row = row_at(static_cast<int>(event->position().y())); row != nullptr && x < 0) {
    focus_.set_stage(rank_of(*row).stage);
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
    click(event->pos());
  }
  pressed_x_.reset();
}

void TimelineView::click(const QPoint& at) {
  focus_.select(std::nullopt);
  const Row* row = row_at(at.y());
  const std::int64_t time = axis().time_of(at.x() - label_width);
  const Slice* s = row == nullptr || row->kind == RowKind::memory ? nullptr : slice_at(lane_of(*row), time);
  focus_.set_op(s == nullptr ? std::nullopt : std::optional(OpPlace{row->rank, s->op}));
}

}  // namespace orrery::gui
