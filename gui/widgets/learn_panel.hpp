#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "edit/lesson.hpp"
#include "gui/model/lesson_check.hpp"
#include "gui/model/plan_document.hpp"

class QButtonGroup;
class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QPushButton;
class QTextBrowser;
class QVBoxLayout;

namespace orrery::gui {

class MessageLabel;

/// Lessons: a text, a button that sets the plan, a question, and the verdict of the engine.
class LearnPanel : public QWidget {
  Q_OBJECT
 public:
  explicit LearnPanel(PlanDocument&, QWidget* parent = nullptr);
  [[nodiscard]] const std::vector<Lesson>& lessons() const { return lessons_; }
  void open_lesson(std::size_t lesson, std::size_t step = 0);
  [[nodiscard]] std::size_t step() const { return step_; }
  /// The current step; requires a lesson.
  [[nodiscard]] const LessonStep& current() const { return lesson().steps[step_]; }
  /// Sets the step's plan and asks for its view.
  void set_plan();
  void check();
  [[nodiscard]] bool answered_right() const { return right_; }

 Q_SIGNALS:
  void view_wished(orrery::LessonView, const QString& block);
  void problem(const orrery::Diagnostics&);

 private:
  [[nodiscard]] const Lesson& lesson() const { return lessons_[lesson_]; }
  void read_lessons();
  void show_step();
  void show_question();
  [[nodiscard]] std::optional<PlannedRun> plan_of_step();
  [[nodiscard]] Pricer pricer();
  void tell(bool right, const QString& text);

  PlanDocument& document_;
  std::vector<Lesson> lessons_;
  Diagnostics mistakes_;
  std::size_t lesson_ = 0, step_ = 0;
  bool right_ = false;
  std::shared_ptr<const PricedRun> judged_;  ///< the plan in hand when the verdict was given
  QComboBox* list_;
  QTextBrowser* text_;
  QPushButton* set_;
  QPushButton* back_;
  QPushButton* on_;
  QLabel* place_;
  QWidget* question_;
  QVBoxLayout* question_column_;
  QLabel* question_text_;
  QWidget* answers_ = nullptr;
  QButtonGroup* options_ = nullptr;
  QDoubleSpinBox* number_ = nullptr;
  QPushButton* check_;
  QPushButton* show_;
  MessageLabel* verdict_;
};

}  // namespace orrery::gui
