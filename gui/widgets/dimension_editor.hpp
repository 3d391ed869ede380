#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/legal_service.hpp"

class QComboBox;
class QLabel;
class QSlider;
class QSpinBox;

namespace orrery::gui {

/// One dimension of the plan: a slider and a number together, or a list of names. The slider stands only on legal
/// values; a typed value is a wish. Lists grey their illegal values.
class DimensionEditor : public QWidget {
  Q_OBJECT
 public:
  explicit DimensionEditor(const Dimension&, QWidget* parent = nullptr);
  /// Shows the run's value. show_reachable tells which others can be reached from it; until then those of the run
  /// before are shown.
  void show_run(const PlannedRun&);
  void show_reachable(const Reachable&);
  [[nodiscard]] const Dimension& dimension() const { return dimension_; }

 Q_SIGNALS:
  /// `continues` means that the same drag has already wished for another value.
  void wished(std::uint64_t value, bool continues);

 private:
  void make_number();
  void make_choice();
  void place_slider();

  const Dimension& dimension_;
  std::vector<std::uint64_t> legal_;
  std::uint64_t value_ = 0;
  bool dragged_ = false;  ///< the slider is held, and has moved
  QLabel* label_;
  QSlider* slider_ = nullptr;
  QSpinBox* number_ = nullptr;
  QComboBox* list_ = nullptr;
};

}  // namespace orrery::gui
