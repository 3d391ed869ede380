#pragma once

#include <QWidget>

#include "gui/model/plan_document.hpp"

class QComboBox;
class QFormLayout;
class QLabel;

namespace orrery::gui {

/// What no plan file says: whose software times are priced with, and what a search leaves of the devices' memory.
class SettingsForm : public QObject {
  Q_OBJECT
 public:
  /// Adds its rows to the form.
  SettingsForm(PlanDocument&, QFormLayout&, QWidget* parent);
  void show_document();
  /// What is assumed, below the rows.
  [[nodiscard]] QLabel& note() { return *note_; }

 Q_SIGNALS:
  /// A wish was refused, and why.
  void refused(const QString& why);

 private:
  void tell(const Diagnostics&);

  PlanDocument& document_;
  QComboBox *software_, *margin_;
  QLabel* note_;
  std::shared_ptr<const CalibrationChoice> shown_;  ///< whose options the list has
};

}  // namespace orrery::gui
