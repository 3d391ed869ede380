#include "gui/widgets/compare_panel.hpp"

#include <QComboBox>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QVBoxLayout>
#include <thread>

#include "gui/widgets/compare_view.hpp"

namespace orrery::gui {

ComparePanel::ComparePanel(PlanDocument& document, std::function<QString(QWidget*)> ask, QWidget* parent)
    : QWidget(parent), document_(document), ask_(std::move(ask)) {
  setObjectName(QStringLiteral("compare"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(6, 0, 6, 0);
  const auto add = [&](const char* name, const QString& label) {
    auto* combo = new QComboBox(this);
    combo->setObjectName(QLatin1String(name));
    combo->addItem(tr("Open plan"));
    combo->addItem(tr("Baseline"));
    combo->addItem(tr("File\u2026"));
    auto* text = new QLabel(label, this);
    text->setBuddy(combo);
    row->addWidget(text);
    row->addWidget(combo, 1);
    return combo;
  };
  first_ = add("compare-first", tr("&First"));
  second_ = add("compare-second", tr("S&econd"));
  second_->setItemText(file, tr("Plan or measured trace\u2026"));
  first_->setCurrentIndex(baseline);
  second_->setCurrentIndex(plan_in_hand);
  row->addStretch(1);
  column->addLayout(row);
  view_ = new CompareView(this);
  column->addWidget(view_, 1);
  connect(first_, &QComboBox::activated, this, [this] { choose(*first_, first_file_); });
  connect(second_, &QComboBox::activated, this, [this] { choose(*second_, second_file_); });
  connect(&service_, &CompareService::compared, this, [this](const ComparisonPointer& done) {
    waiting_ = false;
    told_soon_.stop();
    view_->show_comparison(done);
  });
  connect(&service_, &CompareService::failed, this, [this](const QString& why) {
    waiting_ = false;
    told_soon_.stop();
    view_->set_message(why);
  });
  // Most comparisons come almost at once.
  told_soon_.setSingleShot(true);
  told_soon_.setInterval(300);
  connect(&told_soon_, &QTimer::timeout, this, [this] {
    view_->set_outdated(tr("These figures are for the previous sides; the present ones are being compared."));
  });
}

void ComparePanel::set_baseline(PredictionPointer p) {
  if (p == baseline_) return;
  baseline_ = std::move(p);
  outdated_ = true;
  if (isVisible()) compare();
}

void ComparePanel::set_plan(PredictionPointer p) {
  if (plan_ && p && plan_->of == p->of) return;
  plan_ = std::move(p);
  outdated_ = true;
  if (isVisible()) compare();
}

void ComparePanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (outdated_) compare();
}

void ComparePanel::choose(QComboBox& combo, ComparisonSource& from_file) {
  if (combo.currentIndex() == file) {
    const QString name = ask_(this);
    if (name.isEmpty() && !from_file.run) combo.setCurrentIndex(plan_in_hand);
    if (!name.isEmpty()) return take_into(combo, from_file, name);
  }
  outdated_ = true;
  compare();
}

void ComparePanel::take_file(const QString& name) { take_into(*second_, second_file_, name); }

void ComparePanel::take_into(QComboBox& combo, ComparisonSource& from_file, const QString& name) {
  combo.setCurrentIndex(file);
  from_file = {QFileInfo(name).completeBaseName(), nullptr, {}};
  if (name.endsWith(QStringLiteral(".json"))) {
    from_file.trace_file = name;
  } else {
    Diagnostics d;
    from_file.run = document_.read_priced(name.toStdString(), d);
    if (!from_file.run) return view_->set_message(QString::fromStdString(orrery::render(d)).trimmed());
  }
  outdated_ = true;
  compare();
}

ComparisonSource ComparePanel::source(const QComboBox& combo, const ComparisonSource& from_file) const {
  switch (combo.currentIndex()) {
    case baseline: return {tr("baseline"), baseline_ ? baseline_->of : nullptr, {}};
    case file: return from_file;
    default: return {tr("open plan"), plan_ ? plan_->of : nullptr, {}};
  }
}

void ComparePanel::compare() {
  ComparisonSource a = source(*first_, first_file_), b = source(*second_, second_file_);
  if (!a.trace_file.isEmpty()) {
    outdated_ = false;
    return view_->set_message(tr("A measured trace is the second side; the first side is what it is compared with."));
  }
  if (!b.trace_file.isEmpty()) {
    // A measurement belongs to one plan: the first side, on the machine that it ran on; for a profile that is its own
    // cluster.
    Diagnostics d;
    if (a.run && !is_profile(b.trace_file)) a.run = document_.on_this_machine(*a.run, d);
    b.run = a.run;
    a.name = tr("predicted");
    b.name = tr("measured");
  }
  outdated_ = false;
  if (!a.run || !b.run) {
    return view_->set_message(first_->currentIndex() == baseline && !baseline_
                                  ? tr("No baseline is pinned. Edit, Pin as baseline (Ctrl+B) keeps the open plan, and "
                                       "compares its later versions with it.")
                                  : tr("There is no plan yet."));
  }
  waiting_ = true;
  told_soon_.start();
  service_.request(std::move(a), std::move(b));
}

}  // namespace orrery::gui
