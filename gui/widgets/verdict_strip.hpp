#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/fixes.hpp"
#include "gui/model/verdict.hpp"

class QHBoxLayout;
class QLabel;

namespace orrery::gui {

class MessageLabel;

/// Whether the current plan fits, by how much, and the changes that would make it fit, with a button for each.
class VerdictStrip : public QWidget {
  Q_OBJECT
 public:
  explicit VerdictStrip(QWidget* parent = nullptr);
  void show_prediction(const PredictionPointer&);
  /// Whether the verdict belongs to the plan before; then it says so, and offers nothing.
  void set_outdated(bool);
  /// Whether the verdict belongs to the current plan, with the changes that would make it fit.
  [[nodiscard]] bool is_settled() const { return settled_; }

 Q_SIGNALS:
  /// A change was chosen.
  void wished(const orrery::gui::Fix&);

 private:
  void show_verdict();
  void show_fixes(const FixesPointer&);
  void clear_fixes();

  PredictionPointer prediction_;
  MessageLabel* verdict_;
  QLabel *detail_, *about_fixes_;
  QWidget* row_;
  QHBoxLayout* buttons_;
  bool settled_ = true, outdated_ = false;
  FixService service_;  ///< last: its thread ends first
};

}  // namespace orrery::gui
