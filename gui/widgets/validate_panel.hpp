#pragma once

#include <QWidget>
#include <functional>

#include "gui/model/comparison.hpp"
#include "gui/model/orrery_process.hpp"
#include "gui/model/plan_document.hpp"
#include "gui/widgets/message_label.hpp"

class QProgressBar;
class QPushButton;
class QSpinBox;

namespace orrery::gui {

class CompareView;

/// The current plan, trained on this machine, beside its prediction; measurements of this machine; a step that was
/// recorded elsewhere.
class ValidatePanel : public QWidget {
  Q_OBJECT
 public:
  /// `ask` asks for a trace to open, or for profiles of several ranks; empty: none was chosen.
  ValidatePanel(PlanDocument&, std::function<QStringList(QWidget*)> ask, QWidget* parent = nullptr);
  /// Measurements and messages of another plan, or by other prices, stay and are marked as that.
  void set_plan(PredictionPointer);
  [[nodiscard]] OrreryProcess& process() { return process_; }
  [[nodiscard]] CompareView& view() { return *view_; }
  /// True while nothing runs and no comparison is awaited.
  [[nodiscard]] bool is_settled() const { return !process_.is_running() && !waiting_; }
  /// Compares a trace with the prediction of the current plan.
  void import(const QString& trace, const QStringList& more = {});

 private:
  void run();
  void calibrate();
  void began(const QString& what);
  /// `of` is the current plan that the message is about; null: about none.
  void ended(const QString& message, bool bad, std::shared_ptr<const PricedRun> of = nullptr);
  void show_message();
  void mark_outdated();
  void tell_comparison(const PlanComparison&);
  void set_beside(const std::shared_ptr<const PricedRun>&, const QString& trace, const QString& name,
                  const QStringList& more = {});
  [[nodiscard]] std::shared_ptr<const PricedRun> here();

  PlanDocument& document_;
  std::function<QStringList(QWidget*)> ask_;
  CompareService service_;
  PredictionPointer plan_;
  std::shared_ptr<const PricedRun> trained_;
  std::shared_ptr<const PricedRun> trained_from_, waiting_from_, shown_from_;  ///< the plan in hand of that time
  QString said_;                                                               ///< in the message, without marks
  MessageLabel::Tone tone_ = MessageLabel::Tone::plain;
  std::shared_ptr<const PricedRun> said_of_;  ///< null: of no plan
  QPushButton *run_, *cancel_, *calibrate_, *import_;
  QSpinBox* steps_;
  QProgressBar* bar_;
  MessageLabel* message_;
  CompareView* view_;
  bool waiting_ = false;
  OrreryProcess process_;  ///< last: ends first
};

}  // namespace orrery::gui
