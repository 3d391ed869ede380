#include "gui/widgets/results_strip.hpp"

#include <QButtonGroup>
#include <QHBoxLayout>
#include <QPainter>
#include <QStyleOptionFocusRect>

#include "gui/model/basis.hpp"
#include "gui/widgets/theme.hpp"

namespace orrery::gui {

MetricCard::MetricCard(Metric metric, QWidget* parent) : QAbstractButton(parent), metric_(metric) {
  setObjectName(QStringLiteral("metric-%1").arg(static_cast<int>(metric)));
  setCheckable(true);
  setFocusPolicy(Qt::StrongFocus);
  setCursor(Qt::PointingHandCursor);
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setToolTip(tr("Explain this figure"));
  setAccessibleName(tr(label_of(metric)));
  reading_.text = "-";
}

void MetricCard::show_prediction(const Prediction& now, const Prediction* baseline) {
  reading_ = orrery::gui::reading(metric_, now);
  change_ = baseline == nullptr ? MetricChange{} : change(metric_, now, *baseline);
  setAccessibleDescription(QString::fromStdString(reading_.text + ", " + reading_.note));
  setToolTip(change_.judged ? tr("Explain this figure")
                            : tr("This cannot be compared with the baseline: here %1")
                                  .arg(QString::fromStdString(text_of(basis_differences(*baseline->of, *now.of)))));
  update();
}

void MetricCard::set_outdated(bool on) {
  outdated_ = on;
  update();
}

QSize MetricCard::sizeHint() const { return {96, fontMetrics().lineSpacing() * 5 + 4}; }

void MetricCard::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const bool dark = is_dark(palette());
  const QRectF card = QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5);
  painter.setPen(isChecked() ? QPen(palette().color(QPalette::Highlight), 2) : QPen(palette().color(QPalette::Mid)));
  painter.setBrush(palette().color(underMouse() ? QPalette::AlternateBase : QPalette::Base));
  painter.drawRoundedRect(card, 4, 4);

  const QRect inside = rect().adjusted(8, 5, -6, -5);
  const int line = fontMetrics().lineSpacing();
  const auto elided = [&](const QFont& font, const std::string& text) {
    return QFontMetrics(font).elidedText(QString::fromStdString(text), Qt::ElideRight, inside.width());
  };
  painter.setPen(faint(palette()));
  painter.drawText(QRect(inside.x(), inside.y(), inside.width(), line), Qt::AlignLeft,
                   elided(font(), label_of(metric_)));
  QFont large = font();
  large.setPointSizeF(font().pointSizeF() * 1.45);
  large.setBold(true);
  painter.setFont(large);
  painter.setPen(outdated_      ? faint(palette())
                 : reading_.bad ? bad_colour(dark)
                                : palette().color(QPalette::WindowText));
  painter.drawText(QRect(inside.x(), inside.y() + line, inside.width(), 2 * line), Qt::AlignLeft | Qt::AlignVCenter,
                   elided(large, reading_.text));
  painter.setFont(font());
  painter.setPen(faint(palette()));
  QFont small = font();
  small.setPointSizeF(font().pointSizeF() * 0.85);
  painter.setFont(small);
  painter.drawText(QRect(inside.x(), inside.y() + 3 * line - 2, inside.width(), line), Qt::AlignLeft | Qt::AlignVCenter,
                   elided(small, !outdated_ ? reading_.note : tr("for the previous plan").toStdString()));
  if (!change_.text.empty() && !outdated_) {
    if (change_.judged) painter.setPen(change_.better ? good_colour(dark) : bad_colour(dark));
    // A sign tells better from worse, because colour alone is not enough.
    const QString judged = !change_.judged ? QString() : change_.better ? tr(" better") : tr(" worse");
    const std::string text = change_.text + judged.toStdString();
    painter.drawText(QRect(inside.x(), inside.y() + 4 * line - 4, inside.width(), line),
                     Qt::AlignLeft | Qt::AlignVCenter, elided(small, text));
  }
  if (hasFocus()) {
    QStyleOptionFocusRect focus;
    focus.initFrom(this);
    focus.rect = rect().adjusted(3, 3, -3, -3);
    style()->drawPrimitive(QStyle::PE_FrameFocusRect, &focus, &painter, this);
  }
}

ResultsStrip::ResultsStrip(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("results"));
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(6, 6, 6, 6);
  row->setSpacing(6);
  auto* group = new QButtonGroup(this);
  for (std::size_t i = 0; i < metric_count; ++i) {
    const auto metric = static_cast<Metric>(i);
    cards_[i] = new MetricCard(metric, this);
    group->addButton(cards_[i]);
    row->addWidget(cards_[i]);
    connect(cards_[i], &QAbstractButton::clicked, this, [this, metric] { Q_EMIT explanation_wished(metric); });
  }
  cards_[0]->setChecked(true);
}

void ResultsStrip::set_outdated(bool on) {
  for (MetricCard* card : cards_) card->set_outdated(on);
}

void ResultsStrip::show_prediction(const PredictionPointer& now, const PredictionPointer& baseline) {
  for (MetricCard* card : cards_) card->show_prediction(*now, baseline.get());
}

}  // namespace orrery::gui
