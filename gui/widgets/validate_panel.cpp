#include "gui/widgets/validate_panel.hpp"

#include <fmt/format.h>

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QVBoxLayout>

#include "core/base/units_text.hpp"
#include "gui/widgets/compare_view.hpp"

namespace orrery::gui {

ValidatePanel::ValidatePanel(PlanDocument& document, std::function<QStringList(QWidget*)> ask, QWidget* parent)
    : QWidget(parent), document_(document), ask_(std::move(ask)) {
  setObjectName(QStringLiteral("validate"));
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 4, 0, 0);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(6, 0, 6, 0);
  const auto button = [&](const QString& text, const char* name, const QString& tip) {
    auto* b = new QPushButton(text, this);
    b->setObjectName(QLatin1String(name));
    b->setToolTip(tip);
    row->addWidget(b);
    return b;
  };
  run_ = button(tr("&Run here"), "validate-run", tr("Train the plan on this machine's cores, its ranks being threads"));
  auto* label = new QLabel(tr("&Steps"), this);
  row->addWidget(label);
  steps_ = new QSpinBox(this);
  steps_->setRange(1, 100'000);
  steps_->setValue(5);
  steps_->setToolTip(tr("Number of recorded steps, after one warm-up step; the median step is compared"));
  label->setBuddy(steps_);
  row->addWidget(steps_);
  cancel_ = button(tr("Cance&l"), "validate-cancel", tr("Stop the run and all its processes"));
  calibrate_ = button(tr("Cali&brate"), "validate-calibrate",
                      tr("Measure this machine, so that predictions for it hold; this takes a minute or two"));
  import_ = button(
      tr("&Import\u2026"), "validate-import",
      tr("Import a step of the open plan: what orrery run --trace recorded, or PyTorch's profiler on its cluster, "
         "a file of each rank"));
  row->addStretch(1);
  column->addLayout(row);
  auto* state = new QHBoxLayout;
  state->setContentsMargins(6, 0, 6, 0);
  bar_ = new QProgressBar(this);
  bar_->setAccessibleName(tr("How far the run is"));
  bar_->hide();
  state->addWidget(bar_);
  message_ = new MessageLabel(this);
  message_->setObjectName(QStringLiteral("validate-message"));
  message_->setWordWrap(true);
  message_->setTextFormat(Qt::PlainText);
  message_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  state->addWidget(message_, 1);
  column->addLayout(state);
  view_ = new CompareView(this);
  view_->set_message(
      tr("Run here trains the open plan on this machine and sets every operation beside its "
         "prediction. Example plans of this size: demo-2x2x2 and cpu-one-rank (File, Examples)."));
  column->addWidget(view_, 1);

  connect(run_, &QPushButton::clicked, this, [this] { run(); });
  connect(cancel_, &QPushButton::clicked, this, [this] { process_.cancel(); });
  connect(calibrate_, &QPushButton::clicked, this, [this] { calibrate(); });
  connect(import_, &QPushButton::clicked, this, [this] {
    QStringList files = ask_(this);
    if (files.isEmpty()) return;
    const QString first = files.takeFirst();
    import(first, files);
  });
  connect(&process_, &OrreryProcess::progressed, this, [this](int done, int total, const QString& note) {
    bar_->setRange(0, total);  // with 0 of 0 the bar only shows that there is life
    bar_->setValue(done);
    if (total == 0) return;
    message_->setText(process_.trains() ? tr("Step %1 of %2. %3").arg(done).arg(total).arg(note)
                                        : tr("Measuring this machine\u2026 %1 %").arg(done));
  });
  connect(&process_, &OrreryProcess::ran, this, [this](const QString& trace) {
    ended(steps_->value() == 1 ? tr("Trained 1 step; it is below.")
                               : tr("Trained %n steps; the median one is below.", nullptr, steps_->value()),
          false, trained_from_);
    waiting_from_ = trained_from_;
    set_beside(trained_, trace, tr("measured"));
  });
  connect(&process_, &OrreryProcess::calibrated, this, [this] {
    ended(tr("This machine is measured; predictions for it use that from now on."), false);
    document_.renew_prices();
  });
  connect(&process_, &OrreryProcess::failed, this,
          [this](const QString& why) { ended(why, true, process_.trains() ? trained_from_ : nullptr); });
  connect(&service_, &CompareService::compared, this, [this](const ComparisonPointer& done) {
    waiting_ = false;
    shown_from_ = waiting_from_;
    view_->show_comparison(done);
    tell_comparison(*done);
  });
  connect(&service_, &CompareService::failed, this, [this](const QString& why) {
    waiting_ = false;
    ended(why, true, waiting_from_);
  });
  ended({}, false);
}

std::shared_ptr<const PricedRun> ValidatePanel::here() {
  if (!plan_) {
    ended(tr("There is no plan yet."), true);
    return nullptr;
  }
  // Decisions that were auto stay as they were resolved, so the run trains what was predicted.
  Diagnostics d;
  auto run = document_.on_this_machine({plan_->run, plan_->prices}, d);
  if (!run) ended(QString::fromStdString(orrery::render(d)).trimmed(), true, plan_->of);
  return run;
}

void ValidatePanel::run() {
  trained_ = here();
  if (!trained_) return;
  began(tr("Training\u2026"));
  trained_from_ = plan_->of;
  process_.train(plan_->run, steps_->value(), 1);
}

void ValidatePanel::calibrate() {
  began(tr("Measuring this machine\u2026"));
  process_.calibrate();
}

void ValidatePanel::import(const QString& trace, const QStringList& more) {
  // A profile belongs to the plan's own cluster, a trace of orrery to this machine.
  auto run =
      plan_ && is_profile(trace) ? std::make_shared<const PricedRun>(PricedRun{plan_->run, plan_->prices}) : here();
  if (!run) return;
  waiting_from_ = plan_->of;
  set_beside(run, trace, QFileInfo(trace).completeBaseName(), more);
}

void ValidatePanel::set_beside(const std::shared_ptr<const PricedRun>& run, const QString& trace, const QString& name,
                               const QStringList& more) {
  waiting_ = true;
  service_.request({tr("predicted"), run, {}}, {name, run, trace, more});
}

void ValidatePanel::set_plan(PredictionPointer p) {
  plan_ = std::move(p);
  mark_outdated();
}

void ValidatePanel::tell_comparison(const PlanComparison& c) {
  const auto text = [](Seconds t) { return QString::fromStdString(short_text(t, 4)); };
  const CalibrationChoice& prices = *c.a.prediction->prices;
  const bool nominal = prices.calibration.name.empty() && prices.calibration.machine.empty();
  QString verdict;
  if (nominal) {
    // The error of nominal figures says nothing about the prediction.
    verdict = tr("the prediction is of nominal figures, since this machine is not calibrated: Calibrate measures it");
  } else if (c.figures.step_error) {
    verdict = QString::fromStdString(fmt::format("{:+.1f} %", 100.0 * *c.figures.step_error));
  }
  ended(tr("Predicted %1, measured %2: %3").arg(text(c.figures.predicted_step), text(c.figures.measured_step), verdict),
        false, shown_from_);
}

void ValidatePanel::mark_outdated() {
  QString why;
  if (plan_ && shown_from_ && shown_from_ != plan_->of) {
    const std::vector<BasisDifference> basis = basis_differences(*shown_from_, *plan_->of);
    why = basis.empty() ? tr("For the previous plan.")
                        : tr("For the previous plan; now %1.").arg(QString::fromStdString(text_of(basis)));
  }
  view_->set_outdated(why);
  show_message();
}

void ValidatePanel::show_message() {
  if (process_.is_running()) return;  // its progress is shown
  const bool before = said_of_ && plan_ && said_of_ != plan_->of && !said_.isEmpty();
  message_->tell(before ? tr("For the previous plan: %1").arg(said_) : said_,
                 before ? MessageLabel::Tone::plain : tone_);
}

void ValidatePanel::began(const QString& what) {
  message_->tell(what, MessageLabel::Tone::plain);
  bar_->show();
  run_->setEnabled(false);
  calibrate_->setEnabled(false);
  import_->setEnabled(false);
  cancel_->setEnabled(true);
}

void ValidatePanel::ended(const QString& message, bool bad, std::shared_ptr<const PricedRun> of) {
  said_ = message;
  said_of_ = std::move(of);
  tone_ = bad ? MessageLabel::Tone::bad : MessageLabel::Tone::plain;
  bar_->hide();
  run_->setEnabled(true);
  calibrate_->setEnabled(true);
  import_->setEnabled(true);
  cancel_->setEnabled(false);
  mark_outdated();
}

}  // namespace orrery::gui
