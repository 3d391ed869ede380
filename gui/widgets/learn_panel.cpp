#include "gui/widgets/learn_panel.hpp"

#include <QButtonGroup>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QRadioButton>
#include <QTextBrowser>
#include <QVBoxLayout>
#include <algorithm>

#include "gui/widgets/message_label.hpp"

namespace orrery::gui {
namespace {

using Kind = LessonQuestion::Kind;

QString q(const std::string& text) { return QString::fromStdString(text); }

}  // namespace

LearnPanel::LearnPanel(PlanDocument& document, QWidget* parent) : QWidget(parent), document_(document) {
  setObjectName(QStringLiteral("learn"));
  read_lessons();
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(6, 6, 6, 6);
  list_ = new QComboBox(this);
  list_->setObjectName(QStringLiteral("lessons"));
  list_->setAccessibleName(tr("Lesson"));
  list_->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
  list_->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  for (std::size_t i = 0; i < lessons_.size(); ++i) {
    list_->addItem(QStringLiteral("%1. %2").arg(i + 1).arg(q(lessons_[i].title)));
  }
  column->addWidget(list_);
  text_ = new QTextBrowser(this);
  text_->setObjectName(QStringLiteral("lesson-text"));
  text_->setAccessibleName(tr("Text of the lesson"));
  text_->setFrameShape(QFrame::NoFrame);
  text_->setMinimumHeight(fontMetrics().lineSpacing() * 6);
  column->addWidget(text_, 1);
  set_ = new QPushButton(tr("&Set this plan"), this);
  set_->setObjectName(QStringLiteral("lesson-set"));
  set_->setToolTip(tr("Takes the plan of this step, which Undo takes back, and shows what it is about"));
  column->addWidget(set_);

  question_ = new QWidget(this);
  question_column_ = new QVBoxLayout(question_);
  question_column_->setContentsMargins(0, 4, 0, 0);
  question_text_ = new QLabel(question_);
  question_text_->setObjectName(QStringLiteral("lesson-question"));
  question_text_->setWordWrap(true);
  QFont bold = font();
  bold.setBold(true);
  question_text_->setFont(bold);
  question_column_->addWidget(question_text_);
  auto* buttons = new QHBoxLayout;
  check_ = new QPushButton(tr("Chec&k"), question_);
  check_->setObjectName(QStringLiteral("lesson-check"));
  show_ = new QPushButton(tr("Show me"), question_);
  show_->setObjectName(QStringLiteral("lesson-show"));
  show_->setToolTip(tr("Sets a plan that answers the question"));
  buttons->addWidget(check_);
  buttons->addWidget(show_);
  buttons->addStretch();
  question_column_->addLayout(buttons);
  verdict_ = new MessageLabel(question_);
  verdict_->setObjectName(QStringLiteral("lesson-verdict"));
  verdict_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  question_column_->addWidget(verdict_);
  column->addWidget(question_);

  auto* ways = new QHBoxLayout;
  back_ = new QPushButton(tr("Back"), this);
  back_->setObjectName(QStringLiteral("lesson-back"));
  on_ = new QPushButton(tr("Next"), this);
  on_->setObjectName(QStringLiteral("lesson-next"));
  place_ = new QLabel(this);
  place_->setAlignment(Qt::AlignCenter);
  ways->addWidget(back_);
  ways->addWidget(place_, 1);
  ways->addWidget(on_);
  column->addLayout(ways);

  // A verdict on the current plan belongs to that plan, and every verdict belongs to the software whose times it
  // compares.
  connect(&document_, &PlanDocument::changed, this, [this] {
    const bool of_plan = !lessons_.empty() && current().question && current().question->kind == Kind::reach &&
                         judged_ != document_.priced();
    const bool of_software = judged_ && judged_->settings.software != document_.settings().software;
    if (!judged_ || !(of_plan || of_software)) return;
    right_ = false;
    verdict_->clear();
  });
  connect(list_, &QComboBox::activated, this, [this](int at) { open_lesson(static_cast<std::size_t>(at)); });
  connect(set_, &QPushButton::clicked, this, [this] { set_plan(); });
  connect(check_, &QPushButton::clicked, this, [this] { check(); });
  connect(show_, &QPushButton::clicked, this, [this] {
    const auto base = plan_of_step();
    if (!base) return;
    std::string why;
    auto run = with_changes(*base, current().question->solution, why);
    Diagnostics d;
    if (!run) {
      tell(false, q(why));
    } else if (!document_.take(std::move(*run), tr("Plan of the lesson"), d)) {
      Q_EMIT problem(d);
    }
  });
  connect(back_, &QPushButton::clicked, this, [this] {
    if (step_ > 0) open_lesson(lesson_, step_ - 1);
  });
  connect(on_, &QPushButton::clicked, this, [this] {
    if (step_ + 1 < lesson().steps.size()) {
      open_lesson(lesson_, step_ + 1);
    } else if (lesson_ + 1 < lessons_.size()) {
      open_lesson(lesson_ + 1);
    }
  });
  if (lessons_.empty()) {
    const std::string why =
        mistakes_.empty() ? tr("The data folder has no lessons.").toStdString() : orrery::render(mistakes_);
    text_->setPlainText(q(why));
    for (QWidget* w : {static_cast<QWidget*>(list_), static_cast<QWidget*>(set_), question_,
                       static_cast<QWidget*>(back_), static_cast<QWidget*>(on_)}) {
      w->setEnabled(false);
    }
    question_->hide();
  } else {
    open_lesson(0);
  }
}

void LearnPanel::read_lessons() {
  for (const std::filesystem::path& file : lesson_files(document_.library().directory())) {
    if (auto lesson = read_lesson(file, mistakes_)) lessons_.push_back(std::move(*lesson));
  }
}

void LearnPanel::open_lesson(std::size_t lesson, std::size_t step) {
  if (lesson >= lessons_.size()) return;
  lesson_ = lesson;
  step_ = std::min(step, lessons_[lesson].steps.size() - 1);
  list_->setCurrentIndex(static_cast<int>(lesson));
  show_step();
}

void LearnPanel::show_step() {
  const Lesson& l = lesson();
  const LessonStep& s = current();
  QString text;
  if (step_ == 0) text = QStringLiteral("## %1\n\n*%2*\n\n").arg(q(l.title), q(l.goal));
  text += q(s.text);
  if (step_ + 1 == l.steps.size()) text += QStringLiteral("\n\n---\n\n") + tr("Source: %1").arg(q(l.source));
  text_->setMarkdown(text);
  place_->setText(tr("step %1 of %2").arg(step_ + 1).arg(l.steps.size()));
  back_->setEnabled(step_ > 0);
  const bool last = step_ + 1 == l.steps.size();
  on_->setText(last ? tr("Next lesson") : tr("Next"));
  on_->setEnabled(!last || lesson_ + 1 < lessons_.size());
  show_question();
}

void LearnPanel::show_question() {
  right_ = false;
  delete answers_;
  answers_ = nullptr;
  options_ = nullptr;
  number_ = nullptr;
  verdict_->clear();
  question_->setVisible(current().question.has_value());
  if (!current().question) return;
  const LessonQuestion& question = *current().question;
  question_text_->setText(q(question.text));
  answers_ = new QWidget(question_);
  auto* rows = new QVBoxLayout(answers_);
  rows->setContentsMargins(0, 0, 0, 0);
  show_->setVisible(question.kind == Kind::reach);
  switch (question.kind) {
    case Kind::which:
      options_ = new QButtonGroup(answers_);
      for (std::size_t i = 0; i < question.options.size(); ++i) {
        auto* option = new QRadioButton(q(question.options[i].text), answers_);
        options_->addButton(option, static_cast<int>(i));
        rows->addWidget(option);
      }
      break;
    case Kind::number:
      number_ = new QDoubleSpinBox(answers_);
      number_->setObjectName(QStringLiteral("lesson-number"));
      number_->setAccessibleName(tr("Your answer"));
      number_->setRange(0.0, 1e9);
      number_->setDecimals(question.measure == Measure::collectives ? 0 : 2);
      number_->setLocale(QLocale::c());
      if (!question.over) number_->setSuffix(QStringLiteral(" %1").arg(QLatin1String(unit_of(question.measure))));
      rows->addWidget(number_);
      break;
    case Kind::reach: break;
  }
  question_column_->insertWidget(1, answers_);
}

std::optional<PlannedRun> LearnPanel::plan_of_step() {
  Diagnostics d;
  auto run = document_.read(lesson().plan, d);
  std::string why;
  if (run) run = with_changes(std::move(*run), current().changes, why);
  if (!run && d.empty()) d.error("lesson.change", std::move(why));
  if (!run) Q_EMIT problem(d);
  return run;
}

Pricer LearnPanel::pricer() {
  return [this](PlannedRun run) {
    Diagnostics ignored;
    return document_.price(std::move(run), ignored);
  };
}

void LearnPanel::set_plan() {
  auto run = plan_of_step();
  if (!run) return;
  Diagnostics d;
  if (!document_.take(std::move(*run), tr("Plan of the lesson"), d)) {
    Q_EMIT problem(d);
    return;
  }
  Q_EMIT view_wished(current().view, q(current().block));
}

void LearnPanel::check() {
  if (!current().question) return;
  const LessonQuestion& question = *current().question;
  LessonAnswer answer = 0.0;
  switch (question.kind) {
    case Kind::which:
      if (options_->checkedId() < 0) return tell(false, tr("Choose one first."));
      answer = static_cast<std::size_t>(options_->checkedId());
      break;
    case Kind::number: answer = number_->value(); break;
    case Kind::reach: answer = document_.is_open() ? document_.priced() : nullptr; break;
  }
  const auto base = plan_of_step();
  if (!base) return;
  try {
    const Verdict verdict = judged(question, *base, answer, pricer());
    tell(verdict.right, q(verdict.text));
  } catch (const Error& e) {
    tell(false, q(e.what()));
  }
}

void LearnPanel::tell(bool right, const QString& text) {
  right_ = right;
  judged_ = document_.is_open() ? document_.priced() : nullptr;
  // A sign tells right from wrong, because colour alone is not enough.
  verdict_->tell((right ? QStringLiteral("\u2713 ") : QStringLiteral("\u2717 ")) + text,
                 right ? MessageLabel::Tone::good : MessageLabel::Tone::bad);
}

}  // namespace orrery::gui
