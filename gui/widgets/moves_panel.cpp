#include "gui/widgets/moves_panel.hpp"

#include <fmt/format.h>

#include <QComboBox>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPainter>
#include <QSignalBlocker>
#include <QSlider>
#include <QSplitter>
#include <QTableView>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>

#include "core/base/units_text.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {
namespace {

constexpr int frame_milliseconds = 40;
constexpr double frames_of_move = 22.0;

using Motion = RankMove::Motion;

QString motion_name(Motion m) {
  switch (m) {
    case Motion::product: return MovesPanel::tr("product");
    case Motion::attend: return MovesPanel::tr("attention");
    case Motion::broadcast: return MovesPanel::tr("broadcast");
    case Motion::reduce: return MovesPanel::tr("reduce");
    case Motion::all_gather: return MovesPanel::tr("all-gather");
    case Motion::reduce_scatter: return MovesPanel::tr("reduce-scatter");
    case Motion::all_reduce: return MovesPanel::tr("all-reduce");
    case Motion::all_to_all: return MovesPanel::tr("all-to-all");
    case Motion::permute: return MovesPanel::tr("to the next in the ring");
  }
  return {};
}

bool computes(const RankMove& m) { return m.motion == Motion::product || m.motion == Motion::attend; }

QString q(const std::string& text) { return QString::fromStdString(text); }

/// The first operand; a comma stands between several.
std::string first_operand(const std::string& what) { return what.substr(0, what.find(',')); }

}  // namespace

MovesView::MovesView(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("moves"));
  setAccessibleName(tr("Ranks and the blocks that move between them; the table below has every step"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
}

void MovesView::set_moves(RankMoves moves) {
  moves_ = std::move(moves);
  at_ = 0;
  update();
}

void MovesView::set_place(std::size_t move, double share) {
  at_ = move;
  share_ = share;
  update();
}

QRectF MovesView::cell_rect(std::size_t cell) const {
  const std::size_t of_layer = std::size_t{moves_.rows} * moves_.columns;
  const std::size_t layer = cell / of_layer, row = cell % of_layer / moves_.columns, column = cell % moves_.columns;
  const double line = fontMetrics().lineSpacing();
  const double room_x = (width() - 20.0) / moves_.layers, room_y = height() - 20.0 - 2 * line;
  const double side = std::min({room_x * 0.92 / moves_.columns, room_y / moves_.rows, 190.0});
  const double left = 10 + room_x * static_cast<double>(layer) + (room_x - side * moves_.columns) / 2;
  const double top = 10 + 2 * line + (room_y - side * moves_.rows) / 2;
  return QRectF(left + side * static_cast<double>(column), top + side * static_cast<double>(row), side, side)
      .adjusted(side * 0.12, side * 0.12, -side * 0.12, -side * 0.12);
}

void MovesView::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  painter.setPen(palette().color(QPalette::Text));
  if (moves_.moves.empty()) {
    painter.drawText(rect().adjusted(20, 20, -20, -20), Qt::AlignCenter | Qt::TextWordWrap,
                     tr("In this block no rank multiplies or communicates."));
    return;
  }
  painter.setRenderHint(QPainter::Antialiasing);
  const RankMove& move = moves_.moves[std::min(at_, moves_.moves.size() - 1)];
  const bool busy = computes(move);
  for (std::size_t c = 0; c < moves_.ranks.size(); ++c) {
    const QRectF cell = cell_rect(c);
    const std::size_t of_layer = std::size_t{moves_.rows} * moves_.columns;
    const auto row = c % of_layer / moves_.columns, column = c % moves_.columns;
    painter.setPen(QPen(palette().color(QPalette::WindowText), busy ? 2.0 : 1.0));
    painter.setBrush(busy ? slice_colour(0, is_dark(palette())) : palette().color(QPalette::Button));
    painter.drawRoundedRect(cell, 5, 5);
    painter.setPen(busy ? QColor(20, 20, 20) : palette().color(QPalette::ButtonText));
    QString text = tr("rank %1").arg(index(moves_.ranks[c]));
    if (!moves_.row_axis.empty()) text += QStringLiteral("\n(%1, %2)").arg(row).arg(column);
    if (busy && !move.shape.empty()) text += QStringLiteral("\n") + q(move.shape);
    const QRect needed = fontMetrics().boundingRect(QRect(0, 0, 1000, 1000), Qt::AlignCenter, text);
    const bool room = needed.width() < cell.width() && needed.height() < cell.height();
    painter.drawText(cell, Qt::AlignCenter, room ? text : QString::number(index(moves_.ranks[c])));
  }
  // Draws the blocks on their way, in the colour of their sender.
  const double size = cell_rect(0).width();
  for (const RankMove::Arrow& a : move.arrows) {
    const QPointF from = cell_rect(a.from).center(), to = cell_rect(a.to).center();
    const QColor colour = group_colour(a.from);
    QPen line(colour, 2.0, Qt::DashLine);
    painter.setPen(line);
    painter.drawLine(from, to);
    const QPointF at = from + share_ * (to - from);
    const double side = std::clamp(size * 0.22, 8.0, 30.0);
    painter.setPen(QPen(palette().color(QPalette::WindowText), 1));
    painter.setBrush(colour);
    painter.drawRect(QRectF(at.x() - side / 2, at.y() - side / 2, side, side));
    painter.setPen(QColor(20, 20, 20));
    const QString sender = QString::number(index(moves_.ranks[a.from]));
    if (side > 12) painter.drawText(QRectF(at.x() - side / 2, at.y() - side / 2, side, side), Qt::AlignCenter, sender);
  }
  painter.setPen(palette().color(QPalette::Text));
  const int line = fontMetrics().lineSpacing();
  QString axes;
  if (!moves_.column_axis.empty()) axes = tr("across: %1").arg(q(moves_.column_axis));
  if (!moves_.row_axis.empty()) axes += tr("   down: %1").arg(q(moves_.row_axis));
  if (!moves_.layer_axis.empty()) axes += tr("   grids side by side: %1").arg(q(moves_.layer_axis));
  painter.drawText(QRectF(10, 6, width() - 20, line), Qt::AlignLeft, axes);
  if (!move.arrows.empty()) {
    painter.drawText(QRectF(10, 6 + line, width() - 20, line), Qt::AlignLeft,
                     tr("a block has the number of the rank it comes from"));
  }
}

MovesPanel::MovesPanel(QWidget* parent) : QWidget(parent) {
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  auto* controls = new QHBoxLayout;
  controls->setContentsMargins(6, 0, 6, 0);
  block_ = new QComboBox(this);
  block_->setObjectName(QStringLiteral("moves-block"));
  block_->setAccessibleName(tr("Block of operations"));
  block_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  controls->addWidget(block_);
  const auto button = [&](const QString& text, const QString& tip) {
    auto* b = new QToolButton(this);
    b->setText(text);
    b->setToolTip(tip);
    b->setAccessibleName(tip);
    controls->addWidget(b);
    return b;
  };
  auto* back = button(QStringLiteral("\u25c0"), tr("The operation before"));
  back->setObjectName(QStringLiteral("moves-back"));
  play_ = button(tr("Play"), tr("Play the operations one after another"));
  play_->setObjectName(QStringLiteral("moves-play"));
  play_->setCheckable(true);
  auto* on = button(QStringLiteral("\u25b6"), tr("The next operation"));
  on->setObjectName(QStringLiteral("moves-on"));
  slider_ = new QSlider(Qt::Horizontal, this);
  slider_->setAccessibleName(tr("Operation"));
  controls->addWidget(slider_, 1);
  column->addLayout(controls);
  text_ = new QLabel(this);
  text_->setObjectName(QStringLiteral("moves-text"));
  text_->setTextFormat(Qt::PlainText);
  text_->setWordWrap(true);
  text_->setMargin(4);
  text_->setMinimumHeight(fontMetrics().lineSpacing() * 2 + 10);
  column->addWidget(text_);
  auto* split = new QSplitter(Qt::Vertical, this);
  view_ = new MovesView(split);
  list_ = new QTableView(split);
  list_->setModel(&table_);
  list_->setObjectName(QStringLiteral("moves-table"));
  list_->setAccessibleName(tr("Operations of the block, in order"));
  list_->verticalHeader()->hide();
  list_->verticalHeader()->setDefaultSectionSize(fontMetrics().lineSpacing() + 5);
  list_->setSelectionBehavior(QAbstractItemView::SelectRows);
  list_->setSelectionMode(QAbstractItemView::SingleSelection);
  list_->setAlternatingRowColors(true);
  list_->setFrameShape(QFrame::NoFrame);
  list_->setShowGrid(false);
  split->setStretchFactor(0, 3);
  split->setStretchFactor(1, 1);
  split->setSizes({400, 130});
  column->addWidget(split, 1);

  clock_.setInterval(frame_milliseconds);
  connect(&clock_, &QTimer::timeout, this, [this] {
    share_ += 1.0 / frames_of_move;
    if (share_ > 1.0) {
      if (at_ + 1 >= table_.rowCount()) return play(false);
      go(at_ + 1);
      share_ = 0.0;
    }
    view_->set_place(static_cast<std::size_t>(at_), share_);
  });
  connect(back, &QToolButton::clicked, this, [this] { go(at_ - 1); });
  connect(on, &QToolButton::clicked, this, [this] { go(at_ + 1); });
  connect(play_, &QToolButton::toggled, this, [this](bool on_now) { play(on_now); });
  connect(slider_, &QSlider::valueChanged, this, [this](int at) { go(at); });
  connect(block_, &QComboBox::activated, this, [this] {
    block_wish_ = block_->currentText();
    fill();
  });
  connect(list_->selectionModel(), &QItemSelectionModel::currentRowChanged, this, [this](const QModelIndex& at) {
    if (at.isValid()) go(at.row());
  });
}

void MovesPanel::set_prediction(PredictionPointer prediction) {
  const bool same = prediction_ && *prediction_->program == *prediction->program;
  prediction_ = std::move(prediction);
  if (!same) fill();
}

void MovesPanel::show_block(const QString& name) {
  block_wish_ = name;
  if (prediction_) fill();
}

void MovesPanel::fill() {
  play(false);
  const Program& program = *prediction_->program;
  const std::vector<std::string> blocks = blocks_with_moves(program);
  std::string wish = block_wish_.toStdString();
  if (std::find(blocks.begin(), blocks.end(), wish) == blocks.end()) wish.clear();
  RankMoves moves = moves_of(program, wish);
  {
    const QSignalBlocker quiet(block_);
    block_->clear();
    for (const std::string& name : blocks) block_->addItem(q(name));
    block_->setCurrentText(q(moves.block));
  }
  std::vector<CellRow> rows;
  for (std::size_t i = 0; i < moves.moves.size(); ++i) {
    const RankMove& m = moves.moves[i];
    const auto bytes = static_cast<double>(m.bytes);
    rows.push_back({i,
                    {{QString::number(i + 1), static_cast<double>(i)},
                     {motion_name(m.motion)},
                     {q(m.along)},
                     {q(m.what)},
                     {m.bytes == 0 ? QString() : q(short_text(Bytes::of(bytes))), bytes},
                     {q(m.shape)}}});
  }
  view_->set_moves(std::move(moves));
  {
    const QSignalBlocker quiet(slider_);
    slider_->setRange(0, std::max(0, static_cast<int>(rows.size()) - 1));
  }
  table_.set({tr("#"), tr("Operation"), tr("Along"), tr("Buffers"), tr("Bytes"), tr("Shape")}, std::move(rows));
  list_->resizeColumnsToContents();
  go(0);
}

void MovesPanel::go(int move) {
  const auto& moves = view_->moves().moves;
  if (moves.empty()) {
    text_->clear();
    return view_->set_place(0, 0.5);
  }
  at_ = std::clamp(move, 0, static_cast<int>(moves.size()) - 1);
  share_ = 0.5;
  const RankMove& m = moves[static_cast<std::size_t>(at_)];
  QString text = tr("%1 of %2: %3").arg(at_ + 1).arg(moves.size()).arg(motion_name(m.motion));
  if (!m.along.empty()) {
    text += tr(" of %1 along %2, %3")
                .arg(q(first_operand(m.what)), q(m.along), q(short_text(Bytes::of(static_cast<double>(m.bytes)))));
  } else {
    text += tr(" of %1").arg(q(m.what));
    if (!m.shape.empty()) text += QStringLiteral(", ") + q(m.shape);
  }
  text_->setText(text);
  view_->set_place(static_cast<std::size_t>(at_), share_);
  const QSignalBlocker quiet(slider_);
  slider_->setValue(at_);
  if (list_->currentIndex().row() != at_) list_->selectRow(at_);
}

void MovesPanel::play(bool on) {
  on ? clock_.start() : clock_.stop();
  const QSignalBlocker quiet(play_);
  play_->setChecked(on);
}

void MovesPanel::hideEvent(QHideEvent* event) {
  QWidget::hideEvent(event);
  play(false);
}

}  // namespace orrery::gui
