#pragma once

#include <QTimer>
#include <QWidget>
#include <functional>

#include "gui/model/comparison.hpp"
#include "gui/model/plan_document.hpp"

class QComboBox;

namespace orrery::gui {

class CompareView;

/// Two plans side by side, or the current plan beside a measured step of it.
///
/// A side is the current plan, the pinned baseline, another plan file, or (the second) a trace that `orrery run`
/// recorded. It follows the current plan while it can be seen.
class ComparePanel : public QWidget {
  Q_OBJECT
 public:
  /// `ask` asks for a file to open; empty: none was chosen.
  ComparePanel(PlanDocument&, std::function<QString(QWidget*)> ask, QWidget* parent = nullptr);
  /// Null means that none is pinned.
  void set_baseline(PredictionPointer);
  void set_plan(PredictionPointer);
  /// Takes a plan file or a measured trace as the second side. Shows the mistakes in it.
  void take_file(const QString&);
  [[nodiscard]] CompareView& view() { return *view_; }
  /// Whether the comparison belongs to the sides as they are.
  [[nodiscard]] bool is_settled() const { return !waiting_ && !outdated_; }

 protected:
  void showEvent(QShowEvent*) override;

 private:
  enum Side : int { plan_in_hand, baseline, file };
  [[nodiscard]] ComparisonSource source(const QComboBox&, const ComparisonSource& from_file) const;
  void choose(QComboBox&, ComparisonSource& from_file);
  void take_into(QComboBox&, ComparisonSource& from_file, const QString& name);
  void compare();

  PlanDocument& document_;
  std::function<QString(QWidget*)> ask_;
  CompareService service_;
  PredictionPointer baseline_, plan_;
  ComparisonSource first_file_, second_file_;
  QComboBox *first_, *second_;
  CompareView* view_;
  bool waiting_ = false, outdated_ = true;
  QTimer told_soon_;  ///< says that the comparison belongs to former sides
};

}  // namespace orrery::gui
