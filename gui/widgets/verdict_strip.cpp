#include "gui/widgets/verdict_strip.hpp"

#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "core/base/units_text.hpp"
#include "gui/widgets/message_label.hpp"

namespace orrery::gui {
namespace {

QString q(const std::string& text) { return QString::fromStdString(text); }

}  // namespace

VerdictStrip::VerdictStrip(QWidget* parent) : QWidget(parent) {
  setObjectName(QStringLiteral("verdict-strip"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(8, 4, 8, 4);
  column->setSpacing(3);
  auto* line = new QHBoxLayout;
  verdict_ = new MessageLabel(this);
  verdict_->setObjectName(QStringLiteral("verdict"));
  verdict_->setWordWrap(false);
  QFont bold = font();
  bold.setBold(true);
  verdict_->setFont(bold);
  detail_ = new QLabel(this);
  detail_->setObjectName(QStringLiteral("verdict-detail"));
  detail_->setTextFormat(Qt::PlainText);
  detail_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  line->addWidget(verdict_);
  line->addWidget(detail_, 1);
  column->addLayout(line);
  row_ = new QWidget(this);
  buttons_ = new QHBoxLayout(row_);
  buttons_->setContentsMargins(0, 0, 0, 0);
  about_fixes_ = new QLabel(row_);
  about_fixes_->setObjectName(QStringLiteral("verdict-fixes"));
  about_fixes_->setTextFormat(Qt::PlainText);
  buttons_->addWidget(about_fixes_);
  buttons_->addStretch(1);
  column->addWidget(row_);
  row_->hide();
  connect(&service_, &FixService::found, this, [this](const FixesPointer& found) { show_fixes(found); });
}

void VerdictStrip::show_verdict() {
  const FitVerdict v = fit_verdict(prediction_->report);
  // Tensors that fit do not suffice: their process may not fit.
  const bool known = prediction_->complete || !v.fits;
  const QString text = q(v.text), begun = text.left(1).toUpper() + text.mid(1);
  const auto tone = v.fits ? MessageLabel::Tone::good : MessageLabel::Tone::bad;
  verdict_->tell(outdated_ ? tr("For the previous plan: %1").arg(text)
                 : known   ? begun
                           : tr("Counting what its processes hold\u2026"),
                 known && !outdated_ ? tone : MessageLabel::Tone::plain);
  detail_->setText(known ? q(v.detail) : QString());
  detail_->setToolTip(detail_->text());
}

void VerdictStrip::set_outdated(bool on) {
  if (on == outdated_ || !prediction_) return;
  outdated_ = on;
  if (on) clear_fixes();
  show_verdict();
}

void VerdictStrip::show_prediction(const PredictionPointer& p) {
  if (prediction_ == nullptr || prediction_->of != p->of) clear_fixes();
  prediction_ = p;
  outdated_ = false;
  show_verdict();
  settled_ = p->complete && p->report.fits;
  if (!p->complete) return;
  clear_fixes();
  if (p->report.fits) return;
  about_fixes_->setText(tr("Looking for the smallest change that makes it fit\u2026"));
  row_->show();
  service_.request(p);
}

void VerdictStrip::clear_fixes() {
  service_.cancel();
  for (QPushButton* button : row_->findChildren<QPushButton*>()) {
    buttons_->removeWidget(button);
    button->hide();
    button->setObjectName({});
    button->deleteLater();  // it may be the one that was clicked
  }
  row_->hide();
}

void VerdictStrip::show_fixes(const FixesPointer& found) {
  if (found->of != prediction_ || outdated_) return;
  clear_fixes();
  row_->show();
  settled_ = true;
  const std::vector<Fix>& list = found->list;
  const bool any = !list.empty() && list.front().report.fits;
  about_fixes_->setText(any            ? tr("Fits with:")
                        : list.empty() ? tr("No single change makes it fit, and none needs less memory.")
                                       : tr("No single change makes it fit. Nearest:"));
  int number = 0;
  for (const Fix& fix : list) {
    const FitVerdict v = fit_verdict(fix.report);
    auto* button = new QPushButton(q(fix.change), row_);
    button->setObjectName(QStringLiteral("fix-%1").arg(number++));
    button->setToolTip(tr("%1; %2 a step. It can be undone.").arg(q(v.text), q(short_text(fix.report.step_time, 4))));
    buttons_->insertWidget(buttons_->count() - 1, button);
    connect(button, &QPushButton::clicked, this, [this, fix] { Q_EMIT wished(fix); });
  }
}

}  // namespace orrery::gui
