#pragma once

#include <QWidget>

#include "gui/model/plan_document.hpp"

class QComboBox;
class QFormLayout;
class QLabel;

namespace orrery::gui {

/// Settings that no plan file has: the software whose times count, and the memory that a search leaves free on devices.
class SettingsForm : public QObject {
  Q_OBJECT
 public:
  /// Adds its rows to the form.
  SettingsForm(PlanDocument&, QFormLayout&, QWidget* parent);
  void show_document();
  /// The label below the rows that says what is assumed.
  [[nodiscard]] QLabel& note() { return *note_; }

 Q_SIGNALS:
  /// A wish was refused; `why` is the reason.
  void refused(const QString& why);

 private:
  void tell(const Diagnostics&);

  PlanDocument& document_;
  QComboBox *software_, *margin_;
  QLabel* note_;
  std::shared_ptr<const CalibrationChoice> shown_;  ///< whose options the list has
};

}  // namespace orrery::gui
